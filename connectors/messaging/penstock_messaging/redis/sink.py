"""Rows as entries of streams, as hashes and as strings: exactly once, a transaction as one script
of the server, with the offsets beside the rows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Final

import pyarrow as pa

from penstock_connector import (
    CommitMode,
    CompatibilityKey,
    DataError,
    FailedRowsError,
    OffsetLostError,
    RetriableError,
    SchemaError,
    Staging,
    TransactionalSink,
    key,
)
from penstock_connector.messages import KEY, RESERVED, Converters, columns_of, has_columns
from penstock_connector.staging import Budget
from penstock_connector.tables.ledger import LastTxn
from penstock_messaging.redis.commands import KEY_PLACE, TYPES, CommandEncoder, CommandStaging
from penstock_messaging.redis.config import RedisConfig, conflict, invalid
from penstock_messaging.redis.entries import MOST_FIELDS
from penstock_messaging.redis.ledger import Ledger
from penstock_messaging.redis.server import Redis
from penstock_messaging.redis.values import require_text

_log = logging.getLogger(__name__)

_MEMORY_BYTES: Final = 256 << 20
"""Commands that wait for their transaction. The server has all of one in memory, too."""

_NO_SLOT: Final = -1
"""Instead of a slot, for schemas without rows."""

_DATASETS: Final = ("${dataset}", "${topic}")
_ASKED_AT_ONCE: Final = 1_000
"""Keys whose types are asked for in one go."""

_UTF_8: Final = frozenset({"utf-8", "utf8", "us-ascii"})


@dataclass(frozen=True)
class RedisSinkConfig(RedisConfig):
    """Where rows go, and how."""

    redis_command: str = key(
        "XADD",
        doc="What a row is: `XADD`, an entry of a stream; `HSET`, a hash with a field for each "
        "column; `SET`, a string by `value.converter`.",
        choices=tuple(TYPES),
        group="Writing",
        importance="high",
    )
    redis_key: str = key(
        "${dataset}",
        doc="Key; `${dataset}` (or `${topic}`) stands for the dataset of the rows, `${key}` for "
        "the key of a row as `key.converter` writes it. For `HSET` and `SET` without `${key}`, "
        "that follows behind `redis.separator`.",
        group="Writing",
    )
    redis_separator: str = key(
        ":",
        doc="What stands between `redis.key` and the key of a row, where it has no `${key}`.",
        group="Writing",
    )
    redis_stream_maxlen: int = key(
        0,
        doc="Entries that a stream keeps, about: the oldest are trimmed. 0: all.",
        group="Writing",
    )
    redis_wait_replicas: int = key(
        0,
        doc="Replicas that must have a transaction before its offsets count.",
        group="Writing",
    )
    redis_wait_timeout: int = key(
        1000, doc="Milliseconds in which they must have it.", group="Writing"
    )
    redis_ledger_prefix: str = key(
        "penstock:",
        doc="What the key of a task's ledger begins with; the id of the task follows.",
        group="Writing",
    )
    redis_ledger_lost: str = key(
        "fail",
        doc="What to do when the server has no ledger of a task that wrote before: `fail`, or "
        "`continue` with the rows that come.",
        choices=("fail", "continue"),
        group="Writing",
    )

    @classmethod
    def compatibility_key(cls, name: str, value: str) -> CompatibilityKey | None:
        """Return what becomes of a key of the Kafka connector of Redis."""
        if name == "redis.multiexec":
            return CompatibilityKey(why="a transaction is always there whole, or not at all")
        if name == "redis.charset":
            return CompatibilityKey(
                why="texts are UTF-8",
                fix="Remove `redis.charset`: texts are UTF-8.",
                refused=value.lower() not in _UTF_8,
            )
        return super().compatibility_key(name, value)

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        if not self.redis_key and self.redis_command == "XADD":
            raise invalid("redis.key", "it is empty", "Name a stream, for instance `${dataset}`.")
        if self.redis_key.count(KEY_PLACE) > 1:
            raise invalid("redis.key", "`${key}` is there twice", "Write it once.")
        if not self.redis_ledger_prefix:
            raise invalid("redis.ledger.prefix", "it is empty", "Write one like `penstock:`.")
        for name, number, least in (
            ("redis.stream.maxlen", self.redis_stream_maxlen, 0),
            ("redis.wait.replicas", self.redis_wait_replicas, 0),
            ("redis.wait.timeout", self.redis_wait_timeout, 1),
        ):
            if number < least:
                raise invalid(name, "it is out of range", f"Use a number from {least}.")
        if self.redis_wait_timeout / 1000 >= self.redis_timeout:
            why = "`redis.wait.timeout` is as long as `redis.timeout`: no answer could come"
            raise conflict("redis.wait.timeout", why, "Lower it, or raise `redis.timeout`.")
        if self.redis_stream_maxlen and self.redis_command != "XADD":
            why = f"`redis.stream.maxlen` has no effect with `redis.command={self.redis_command}`"
            raise conflict("redis.stream.maxlen", why, "Remove the key.")

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why."""
        found = dict(super().unused_keys())
        named = self.named_converters()
        if self.redis_command != "XADD" and self.redis_entry != "columns":
            found["redis.entry"] = "it is about entries of streams"
        if self.as_columns:
            why = "fields are columns; `redis.entry=message` or `redis.command=SET` has values"
            found |= {name: why for name in named if name != "key.converter"}
        elif self.redis_command == "SET" and "header.converter" in named:
            found["header.converter"] = "strings have no headers"
        if self.as_columns and not self.needs_key and "key.converter" in named:
            found["key.converter"] = "entries have no key; `redis.key` may have `${key}`"
        if self.redis_wait_timeout != 1000 and not self.redis_wait_replicas:
            found["redis.wait.timeout"] = "without `redis.wait.replicas` nothing is waited for"
        is_followed = self.redis_command != "XADD" and KEY_PLACE not in self.redis_key
        if self.redis_separator != ":" and not is_followed:
            found["redis.separator"] = "`redis.key` says where the key of a row stands"
        return found

    @property
    def as_columns(self) -> bool:
        """Whether each column is a field."""
        by_entry = self.redis_command == "XADD" and self.redis_entry == "columns"
        return by_entry or self.redis_command == "HSET"

    @property
    def needs_key(self) -> bool:
        """Whether rows must have a key."""
        return self.redis_command != "XADD" or KEY_PLACE in self.redis_key

    def template(self, dataset: str) -> str:
        """Return the key of a dataset's rows, with `${key}` for that of a row."""
        found = self.redis_key
        if self.redis_command != "XADD" and KEY_PLACE not in found:
            found = f"{found}{self.redis_separator}{KEY_PLACE}" if found else KEY_PLACE
        for place in _DATASETS:
            found = found.replace(place, dataset)
        return found


class RedisSink(TransactionalSink[RedisSinkConfig]):
    """Rows as entries of streams, as hashes, as strings.

    Exactly once: a transaction is one script of the server, with the offsets in a ledger beside the
    rows. An older owner of a task can write nothing.
    """

    name = "redis-sink"
    aliases = ("RedisSinkConnector", "com.redis.kafka.connect.RedisSinkConnector")
    commit_modes: ClassVar[tuple[CommitMode, ...]] = (CommitMode.SINK,)
    reports_failed_rows = True

    @classmethod
    def check(cls, config: RedisSinkConfig) -> None:
        """Log in, and run the commands that are needed."""
        redis = Redis(config)
        try:
            redis.connect()
            ledger = Ledger(redis, config.redis_ledger_prefix, "check", 0, redis.where)
            ledger.require_permissions(config.redis_command)
        finally:
            redis.close()

    def connect(self, task_id: str, epoch: int) -> None:
        """Fence older runs of the task, and see how far it is."""
        config = self.config
        self._key_columns: dict[str, tuple[str, ...]] = {}
        self._converters: dict[int, Converters] = {}
        self._staged: dict[int, tuple[LastTxn, Sequence[CommandStaging]]] = {}
        self.reports_columns = not config.as_columns and has_columns(
            self._slot_converters(_NO_SLOT).value
        )
        fix = "Lower `batch.max.bytes` of the connector."
        self._budget = Budget(_MEMORY_BYTES, "redis.memory", fix)
        self._redis = Redis(config, self.stopping.wait)
        self._redis.connect()
        self._warn()
        where = self._redis.where
        self._ledger = Ledger(self._redis, config.redis_ledger_prefix, task_id, epoch, where)
        self._ledger.require_permissions(config.redis_command)
        self._ledger.claim()
        self._wait_for_replicas()

    def _warn(self) -> None:
        """Say what of the server's settings loses rows that were written."""
        if self._redis.info("persistence").get("aof_enabled") == "0":
            _log.warning(
                "[redis.not_durable] %s writes no file of its commands (`appendonly no`): what it "
                "took last is gone when it dies",
                self._redis.where,
            )
        policy = self._redis.info("memory").get("maxmemory_policy", "")
        if policy.startswith("allkeys-"):
            _log.warning(
                "[redis.evicts] %s removes any key when its memory is full (`maxmemory-policy "
                "%s`), the ledger of a task among them",
                self._redis.where,
                policy,
            )

    def committed(self) -> tuple[int, int, bytes] | None:
        """Return the last transaction that the ledger has."""
        last = self._ledger.last
        return (last.txn_id, last.epoch, last.token) if last.txn_id else None

    def sweep(self, txn_id_done: int) -> None:
        """Compare what the host knows with the ledger: a server may have lost its data.

        Raises:
            OffsetLostError: `redis.ledger_lost`.
        """
        last = self._ledger.last
        if txn_id_done and not last.txn_id:
            error = self._ledger.lost(txn_id_done)
            if self.config.redis_ledger_lost == "fail":
                raise error
            _log.warning("[%s] %s", error.code, error.message)
        elif txn_id_done > last.txn_id:
            _log.warning(
                "[redis.behind] %s has transaction %d of the task, and %d was written: rows are "
                "read again from there",
                self._redis.where,
                last.txn_id,
                txn_id_done,
            )

    def columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns of the newest schema of a dataset, where a registry has them."""
        return columns_of(self._slot_converters(_NO_SLOT).value, dataset)

    def apply_schema(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> Sequence[str] | None:
        """Refuse a dataset whose rows can have no key, or a column that has no text."""
        config = self.config
        columns = [field for field in schema if field.name not in RESERVED]
        if config.needs_key and not key_columns and KEY not in schema.names:
            raise SchemaError(
                "redis.no_key",
                f"rows of {dataset!r} have no key, and `redis.command={config.redis_command}` "
                f"writes under `{config.template(dataset)[:200]}`",
                fix="Give the rows a key: key columns at the source, or the transform ValueToKey.",
                dataset=dataset,
            )
        if config.as_columns:
            for field in columns:
                require_text(field, dataset)
            if len(columns) > MOST_FIELDS:
                raise SchemaError(
                    "redis.too_many_fields",
                    f"rows of {dataset!r} have {len(columns)} columns, and {MOST_FIELDS} are the "
                    "most that are written at once",
                    fix="Leave some out by the transform ReplaceField, or set "
                    "`redis.entry=message`.",
                    dataset=dataset,
                )
        self._key_columns[dataset] = tuple(key_columns)
        nothing = pa.RecordBatch.from_pylist([], schema)
        self._encoder(_NO_SLOT, dataset, schema).encode(nothing)  # asks a schema registry
        return None

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a place for commands that are not sent yet."""
        return CommandStaging(dataset, self._encoder(slot, dataset, schema), self._budget)

    def _encoder(self, slot: int, dataset: str, schema: pa.Schema) -> CommandEncoder:
        """Return what makes commands of rows. A slot keeps its converters, which remember
        schemas.
        """
        return CommandEncoder(
            dataset,
            schema,
            self._key_columns.get(dataset, ()),
            self._slot_converters(slot),
            self.config.redis_command,
            as_columns=self.config.as_columns,
            template=self.config.template(dataset),
        )

    def _slot_converters(self, slot: int) -> Converters:
        if slot not in self._converters:
            self._converters[slot] = self.config.open_converters()
        return self._converters[slot]

    # ── transactions ─────────────────────────────────────────────────────────────────────────────

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Look whether the keys have the right types. Nothing is sent before `commit`: the host
        reads the rows again when this process dies, as the ledger has not got them.

        Raises:
            FailedRowsError: `redis.wrong_type`.
        """
        ours = [one for one in staged if isinstance(one, CommandStaging)]
        wrong = self._wrong_keys({key for key, *_ in _commands(ours)})
        if wrong:
            raise FailedRowsError(_failed(ours, wrong, self.config.redis_command))
        self._staged[txn_id] = (LastTxn(epoch, txn_id, token), ours)
        return b""

    def _wrong_keys(self, keys: set[bytes]) -> dict[bytes, str]:
        """Return the keys that have a value of another type than the command needs."""
        found: dict[bytes, str] = {}
        fits, left = {b"none", TYPES[self.config.redis_command].encode()}, iter(sorted(keys))
        while some := list(islice(left, _ASKED_AT_ONCE)):
            kinds = self._redis.ask_all([("TYPE", key) for key in some])
            pairs = zip(some, kinds, strict=True)
            found |= {key: kind.decode() for key, kind in pairs if kind not in fits}
        return found

    def commit(self, txn_id: int, epoch: int, state: bytes) -> None:
        """Write rows and offsets, in one script."""
        last, ours = self._staged[txn_id]
        config = self.config
        numbers = {key: at for at, key in enumerate(dict.fromkeys(k for k, *_ in _commands(ours)))}
        how = (config.redis_command, TYPES[config.redis_command], config.redis_stream_maxlen)

        def write() -> None:
            wrong = self._ledger.commit(last, list(numbers), how, lambda: _arguments(ours, numbers))
            if wrong is not None:  # after `prepare` looked
                raise RetriableError(
                    "redis.type_changed",
                    f"the key {wrong.key[:200]!r} became a {wrong.type} just now",
                    fix="Write other values under other keys.",
                )

        try:
            write()
        except OffsetLostError as error:
            if self._ledger.last.txn_id and config.redis_ledger_lost == "fail":
                raise
            _log.warning("[%s] %s", error.code, error.message)
            self._ledger.claim()
            write()
        self._wait_for_replicas()
        for staging in ours:
            staging.discard()
        del self._staged[txn_id]

    def _wait_for_replicas(self) -> None:
        count, timeout_ms = self.config.redis_wait_replicas, self.config.redis_wait_timeout
        if count:
            self._redis.again(lambda: self._ledger.wait_for_replicas(count, timeout_ms))

    def close(self) -> None:
        """Leave the server."""
        if (redis := getattr(self, "_redis", None)) is not None:
            redis.close()
        for converters in getattr(self, "_converters", {}).values():
            converters.close()


def _commands(
    staged: Sequence[CommandStaging],
) -> Iterator[tuple[bytes, bool, list[bytes], list[bytes]]]:
    for staging in staged:
        for batch in staging.batches:
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _arguments(staged: Sequence[CommandStaging], numbers: Mapping[bytes, int]) -> list[Any]:
    """Return what the script is told of each row: its key, how many parts follow, and they."""
    found: list[Any] = []
    for name, is_delete, parts, removed in _commands(staged):
        number = numbers[name] + 2  # the ledger is the first key, and Lua counts from 1
        if is_delete and not parts:
            found += (number, -1, 0)
        else:
            found += (number, len(parts), len(removed), *parts, *removed)
    return found


def _failed(
    staged: Sequence[CommandStaging], wrong: Mapping[bytes, str], command: str
) -> list[tuple[Staging, int, DataError]]:
    found: list[tuple[Staging, int, DataError]] = []
    for staging in staged:
        for batch, numbers in zip(staging.batches, staging.numbers, strict=True):
            pairs = zip(batch.column("key").to_pylist(), numbers.to_pylist(), strict=True)
            for name, number in pairs:
                if name in wrong:
                    error = DataError(
                        "redis.wrong_type",
                        f"the key {name[:200]!r} is a {wrong[name]}, and {command} writes a "
                        f"{TYPES[command]}",
                        fix="Set `redis.key` to another name, or remove the key.",
                    )
                    found.append((staging, number, error))
    return found
