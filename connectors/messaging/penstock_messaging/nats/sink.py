"""Rows as messages of a JetStream stream: they are sent when their transaction is prepared."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import (
    CommitMode,
    ConnectorError,
    DataError,
    FailedRowsError,
    Op,
    SchemaError,
    Staging,
    TransactionalSink,
    key,
)
from penstock_connector.messages import (
    KEY,
    OP,
    Converters,
    MessageEncoder,
    columns_of,
    has_columns,
)
from penstock_connector.row_ids import row_id
from penstock_connector.staging import Budget, MemoryStaging, placed_rows
from penstock_messaging.nats.config import NatsConfig, invalid
from penstock_messaging.nats.jetstream import require_stream
from penstock_messaging.nats.protocol import (
    encode_headers,
    problem_of_headers,
    problem_of_subject,
)
from penstock_messaging.nats.publisher import Outgoing, Publisher, not_in_stream, too_large
from penstock_messaging.nats.source import SEQUENCE, STREAM

_MEMORY_BYTES: Final = 256 << 20
"""Messages that wait for their transaction."""

_NO_SLOT: Final = -1
"""Instead of a slot, for schemas without rows."""

_DATASET: Final = "${dataset}"
_KEY_PLACE: Final = "${key}"

_ID: Final = "Nats-Msg-Id"
_EXPECTED: Final = "Nats-Expected-Stream"
_ORDERS: Final = "nats-"
"""What the names of headers begin with that are orders to a server, as `Nats-Rollup`, which removes
messages: a row must not give any."""

_OF_DELIVERY: Final = frozenset({STREAM, SEQUENCE})
_OVERHEAD_BYTES: Final = 256
"""Bytes of our own headers, at most, beside the names of the stream and the task."""

_STAGED: Final = pa.schema(
    [
        pa.field("subject", pa.string()),
        pa.field("payload", pa.binary()),
        pa.field("headers", pa.map_(pa.string(), pa.binary())),
    ]
)

Headers: TypeAlias = "Sequence[tuple[str, bytes | None]]"
Refusals: TypeAlias = "dict[int, ConnectorError]"


@dataclass(frozen=True)
class NatsSinkConfig(NatsConfig):
    """Where messages go."""

    nats_subject: str = key(
        _DATASET,
        doc="Subject; `${dataset}` stands for the dataset of the rows, `${key}` for the key of a "
        "row as `key.converter` writes it. The stream must take it.",
        group="Writing",
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        fixed = self.nats_subject.replace(_DATASET, "d").replace(_KEY_PLACE, "k")
        if problem := problem_of_subject(fixed):
            raise invalid("nats.subject", problem, "Name a subject, for instance `orders.${key}`.")

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why."""
        found = dict(super().unused_keys())
        if _KEY_PLACE not in self.nats_subject and "key.converter" in self.named_converters():
            found["key.converter"] = "messages have no key; `nats.subject` may have `${key}`"
        return found


class MessageStaging(MemoryStaging):
    """Messages of one slot, attempt and schema."""

    def __init__(
        self, dataset: str, subject: str, limit: int, encoder: MessageEncoder, budget: Budget
    ) -> None:
        super().__init__(dataset, lambda _: self._refused, budget, numbered=True)
        self._subject, self._limit, self._encoder = subject, limit, encoder
        self._refused: list[tuple[int, ConnectorError]] = []

    def put(self, rows: pa.RecordBatch) -> Sequence[tuple[int, ConnectorError]] | None:
        """Keep the messages of rows, but for those that have none."""
        messages, bad = self._encoder.encode(rows)
        refused: Refusals = {index: _deleted() for index in _deletes(rows)}
        for one in bad:
            refused.setdefault(one.index, one.error)
        payloads = [value or b"" for value in messages.column("value").to_pylist()]
        subjects = _subjects(self._subject, messages.column("key"), refused)
        headers = [_sent(found or ()) for found in messages.column("headers").to_pylist()]
        for index, found in enumerate(headers):
            if index in refused:
                continue
            size = len(payloads[index]) + len(encode_headers(found)) + _OVERHEAD_BYTES
            if problem := problem_of_headers(found):
                refused[index] = _bad_header(problem)
            elif size > self._limit:
                refused[index] = too_large(size, self._limit)
        staged = pa.RecordBatch.from_arrays(
            [
                pa.array(subjects, pa.string()),
                pa.array(payloads, pa.binary()),
                pa.array(headers, _STAGED.field("headers").type),
            ],
            schema=_STAGED,
        )
        self._refused = sorted(refused.items())
        return super().put(staged)


class NatsSink(TransactionalSink[NatsSinkConfig]):
    """Rows as messages of a JetStream stream.

    At least once: after a crash, or an answer that did not come, rows are sent again, with the ids
    that they had. The stream drops what it knows, in its window for duplicates.
    """

    name = "nats-sink"
    commit_modes: ClassVar[tuple[CommitMode, ...]] = (CommitMode.HOST,)
    reports_failed_rows = True

    @classmethod
    def check(cls, config: NatsSinkConfig) -> None:
        """Connect, and look for the stream."""
        require_stream(config)

    def connect(self, task_id: str, epoch: int) -> None:
        """Connect to a server."""
        self._task_id = task_id
        self._key_columns: dict[str, tuple[str, ...]] = {}
        self._converters: dict[int, Converters] = {}
        self.reports_columns = has_columns(self._slot_converters(_NO_SLOT).value)
        fix = "Lower `batch.max.bytes` of the connector."
        self._budget = Budget(_MEMORY_BYTES, "nats.memory", fix)
        self._publisher: Publisher | None = self._open()
        self._stored: tuple[Sequence[Staging], frozenset[int]] = ((), frozenset())
        self._limit = self._publisher.max_payload - len(self.config.nats_stream) - len(task_id)

    def _open(self) -> Publisher:
        return Publisher(self.config, self.stopping.wait)

    def columns(self, dataset: str) -> pa.Schema | None:
        """Return the columns of the newest schema of a dataset, where a registry has them."""
        return columns_of(self._slot_converters(_NO_SLOT).value, dataset)

    def apply_schema(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> Sequence[str] | None:
        """Refuse a dataset whose rows can have no subject of the stream."""
        self._check_subject(dataset)
        self._key_columns[dataset] = tuple(key_columns)
        has_key = bool(key_columns) or KEY in schema.names
        if _KEY_PLACE in self.config.nats_subject and not has_key:
            raise SchemaError(
                "nats.no_key",
                f"rows of {dataset!r} have no key, and `nats.subject` has `${{key}}`",
                fix="Give the rows a key: key columns at the source, or the transform ValueToKey.",
                dataset=dataset,
            )
        nothing = pa.RecordBatch.from_pylist([], schema)
        self._encoder(_NO_SLOT, dataset, schema).encode(nothing)  # asks a schema registry
        return None

    def _check_subject(self, dataset: str) -> None:
        fixed = self.config.nats_subject.replace(_DATASET, dataset)
        subject = fixed.replace(_KEY_PLACE, "k")
        if problem := problem_of_subject(subject):
            raise SchemaError(
                "nats.subject",
                f"{subject[:200]!r} cannot be a subject: {problem}",
                fix="Set `nats.subject` to a subject, or change the dataset's name by the "
                "transform RegexRouter.",
                dataset=dataset,
            )
        publisher = self._publisher
        if _KEY_PLACE not in fixed and publisher is not None and not publisher.takes(subject):
            error = not_in_stream(subject, self.config)
            raise SchemaError(error.code, error.message, fix=error.fix, dataset=dataset)

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a place for messages that are not sent yet."""
        encoder = self._encoder(slot, dataset, schema)
        subject = self.config.nats_subject.replace(_DATASET, dataset)
        return MessageStaging(dataset, subject, self._limit, encoder, self._budget)

    def _encoder(self, slot: int, dataset: str, schema: pa.Schema) -> MessageEncoder:
        """Return what makes messages of rows. A slot keeps its converters, which remember
        schemas.
        """
        keys = self._key_columns.get(dataset, ())
        return MessageEncoder("nats", dataset, schema, keys, self._slot_converters(slot))

    def _slot_converters(self, slot: int) -> Converters:
        if slot not in self._converters:
            self._converters[slot] = self.config.open_converters()
        return self._converters[slot]

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Send all messages: the stream has them before the offsets are stored (invariant 1).

        Raises:
            FailedRowsError: the stream refuses some of them for what they are.
        """
        try:
            refused = self._send(txn_id, staged)
        except ConnectorError:
            self._close_publisher()  # what is under way must not come between later rows
            self._stored = (), frozenset()
            raise
        if refused:
            raise FailedRowsError(refused)
        for staging in staged:
            staging.discard()
        return b""

    def _send(self, txn_id: int, staged: Sequence[Staging]) -> list[tuple[Staging, int, DataError]]:
        if self._publisher is None:
            self._publisher = self._open()
        publisher = self._publisher
        publisher.begin()
        before, stored = self._stored
        is_again = len(before) == len(staged) and all(map(operator.is_, before, staged))
        done = stored if is_again else frozenset()  # the same stagings, without failed rows
        places: dict[int, tuple[Staging, int]] = {}
        expected = (_EXPECTED, self.config.nats_stream.encode())
        for place, staging, number, (subject, payload, headers) in _messages(staged):
            if place in done:
                continue
            # not by slot: two rows of the same bytes in two slots are two messages
            body = subject.encode() + payload
            name = row_id(self._task_id, txn_id, place, None, body)
            told = encode_headers([(_ID, name), expected, *headers])
            publisher.put(place, Outgoing(subject, told, payload))
            places[place] = staging, number
        refused = publisher.flush()
        if publisher.duplicates:
            self.metrics.add("messages_deduplicated_total", publisher.duplicates)
            publisher.duplicates = 0
        self._stored = tuple(staged), done | (places.keys() - {place for place, _ in refused})
        return [(*places[place], error) for place, error in refused]

    def commit(self, txn_id: int, epoch: int, state: bytes) -> None:
        """Nothing is left to do."""

    def _close_publisher(self) -> None:
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None

    def close(self) -> None:
        """Leave the server."""
        if getattr(self, "_publisher", None) is not None:
            self._close_publisher()
        for converters in getattr(self, "_converters", {}).values():
            converters.close()


Message: TypeAlias = "tuple[str, bytes, list[tuple[str, bytes]]]"


def _messages(staged: Sequence[Staging]) -> Iterator[tuple[int, Staging, int, Message]]:
    found = [one for one in staged if isinstance(one, MessageStaging)]
    assert len(found) == len(staged)  # noqa: S101 - `stage` made them
    yield from placed_rows(found)


def _sent(headers: Headers) -> list[tuple[str, bytes]]:
    """Return the headers that a message gets: no orders to the server, nor those of a delivery."""
    return [
        (name, value or b"")
        for name, value in headers
        if name not in _OF_DELIVERY and not name.lower().startswith(_ORDERS)
    ]


def _deletes(rows: pa.RecordBatch) -> list[int]:
    if OP not in rows.schema.names:
        return []
    found: list[int] = pc.indices_nonzero(pc.equal(rows.column(OP), int(Op.DELETE))).to_pylist()
    return found


def _subjects(fixed: str, keys: pa.Array, refused: Refusals) -> list[str]:
    if _KEY_PLACE not in fixed:
        return [fixed] * len(keys)
    subjects = []
    for index, one in enumerate(keys.to_pylist()):
        subject = ""
        try:
            text = "" if one is None else one.decode()
            subject = fixed.replace(_KEY_PLACE, text)
            problem = problem_of_subject(subject) if text else "the row has no key"
        except UnicodeDecodeError:
            problem = "the key is no text"
        if problem:
            error = DataError(
                "nats.subject",
                f"{subject[:200]!r} cannot be a subject: {problem}",
                fix="Correct the key by a transform, or set `nats.subject` without `${key}`.",
            )
            refused.setdefault(index, error)
        subjects.append(subject)
    return subjects


def _deleted() -> DataError:
    return DataError(
        "nats.delete",
        "the row is deleted, and a message of a stream cannot say that",
        fix="Leave deleted rows out by the transform Filter with the predicate RecordIsTombstone.",
    )


def _bad_header(problem: str) -> DataError:
    return DataError(
        "nats.header",
        f"a header cannot be one of a message: {problem}",
        fix="Remove it by the transform DropHeaders.",
    )
