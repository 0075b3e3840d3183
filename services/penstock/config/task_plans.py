"""Reads and writes task plans: all plans of a generation at once, however many.

The plans of a connector may be of a hundred thousand tasks. Each plan is a frame: its length in 4
bytes, then its bytes as they came. The frames are split into chunks wherever a chunk is full, so
that no value of the store is large, even when a single plan is.

Chunks are written first, while no index names them, and each only while the connector is the one
that was checked. Then one write of the index makes them the plans of the generation; its revision
is their epoch.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import struct
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Final

from penstock.config import rules
from penstock.config.connectors import Connectors, retry_on_conflict
from penstock.config.records import (
    StoredConnector,
    connector_key,
    plan_chunk_key,
    plan_index_key,
    plan_prefix,
)
from penstock.model import faults
from penstock.model.errors import ConfigError, PenstockError, RetriableError
from penstock.store.port import Check, Entry, Put, Store

log = logging.getLogger(__name__)

CHUNK_BYTES: Final = 448 << 10
"""Bytes of a chunk. etcd takes values up to 1.5 MB; smaller ones only make more keys."""

MAX_TASKS: Final = 100_000
MAX_PLAN_BYTES: Final = 64 << 20
"""Bounds of the plans of one connector (invariant 12)."""

ORPHANED_AFTER_S: Final = 600.0
"""Seconds after which chunks without an index count as left over from a crash. No upload takes that
long."""

CHUNKS_PER_CALL: Final = 8
"""Chunks that are read, or deleted, at once."""

_LENGTH: Final = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class PlanIndex:
    """Which chunks hold the plans of a generation. `token` names the chunks of one upload.

    The names of the fields are part of the stored form.
    """

    token: str
    chunks: int
    tasks: int
    size: int


def encode_plan_index(index: PlanIndex) -> bytes:
    """Return the stored form of an index."""
    return json.dumps(asdict(index)).encode()


def decode_plan_index(value: bytes) -> PlanIndex | None:
    """Return an index. None for one of the earlier form, before plans were streamed: its connector
    is planned again when it starts.
    """
    document = json.loads(value)
    return PlanIndex(**document) if "token" in document else None


class TaskIdChecker:
    """Checks the ids of plans: of this generation, each once, in order of number."""

    def __init__(self, generation: str) -> None:
        """Expect tasks of `generation`."""
        self._pattern = re.compile(re.escape(generation) + r"-([0-9]{1,9})")
        self._generation, self._last, self.count = generation, -1, 0

    def check(self, task_id: str) -> None:
        """Check the next id.

        Raises:
            ConfigError: `config.plan_task_id`, `config.plan_too_large`.
        """
        match = self._pattern.fullmatch(task_id)
        number = int(match[1]) if match else -1
        if number <= self._last:
            raise ConfigError(
                "config.plan_task_id",
                f"task ids must be {self._generation}-<number>, each once, in order of number; "
                f"{task_id[:100]!r} is not",
                fix="Plan the connector again, for its current generation.",
            )
        self._last = number
        self.count += 1
        if self.count > MAX_TASKS:
            raise _too_large(f"more than {MAX_TASKS} tasks")


class PlanChunker:
    """Splits plans into chunks."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.size = 0

    def add(self, plan: bytes) -> Iterator[bytes]:
        """Add a plan; yields the chunks that are full.

        Raises:
            ConfigError: `config.plan_too_large`.
        """
        self._buffer += _LENGTH.pack(len(plan)) + plan
        self.size += _LENGTH.size + len(plan)
        if self.size > MAX_PLAN_BYTES:
            raise _too_large(f"more than {MAX_PLAN_BYTES} bytes")
        return self._full_chunks()

    def last_chunk(self) -> bytes:
        """Return the last chunk, which may be empty."""
        return bytes(self._buffer)

    def _full_chunks(self) -> Iterator[bytes]:
        while len(self._buffer) >= CHUNK_BYTES:
            yield bytes(self._buffer[:CHUNK_BYTES])
            del self._buffer[:CHUNK_BYTES]


class PlanAssembler:
    """Assembles plans from chunks."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def add(self, chunk: bytes) -> Iterator[bytes]:
        """Add a chunk; yields the plans that are complete."""
        self._buffer += chunk
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            size: int = _LENGTH.unpack_from(self._buffer, start)[0]
            end = start + _LENGTH.size + size
            if end > len(self._buffer):
                break
            yield bytes(self._buffer[start + _LENGTH.size : end])
            start = end
        del self._buffer[:start]


class TaskPlans:
    """The task plans of a store. Has no state of its own."""

    def __init__(
        self, store: Store, connectors: Connectors, clock: Callable[[], float] = time.time
    ) -> None:
        """`connectors` reads the current generation; `clock` returns seconds since the epoch."""
        self._store, self._connectors, self._clock = store, connectors, clock

    async def put(self, name: str, generation: str, tasks: AsyncIterable[tuple[str, bytes]]) -> int:
        """Replace the plans of a generation; returns their epoch, the revision of the write.

        `tasks` are ids and plans, in order of number. The write succeeds only while the connector
        is the one that was checked: it fails when the connector is deleted, or created again, in
        between (invariant 10). Revisions grow and are never used twice, so the epoch fences every
        earlier owner (invariant 4).

        Raises:
            ConfigError: `config.not_found`, `config.generation_changed`, `config.plan_task_id`,
                `config.plan_too_large`.
        """
        token = f"{int(self._clock()):010x}-{secrets.token_hex(6)}"
        await self._require_current(name, generation)
        staged = 0
        try:
            ids, chunker = TaskIdChecker(generation), PlanChunker()
            async for task_id, plan in tasks:
                ids.check(task_id)
                for chunk in chunker.add(plan):
                    key = plan_chunk_key(generation, token, staged)
                    await self._stage_chunk(name, generation, key, chunk)
                    staged += 1
            index = PlanIndex(token, staged + 1, ids.count, chunker.size)
            last: Put = (plan_chunk_key(generation, token, staged), chunker.last_chunk())
            epoch, old = await retry_on_conflict(
                lambda: self._switch_index(name, generation, index, last)
            )
        except ConfigError:  # refused: the index was certainly not written
            await self._clean_up(generation, PlanIndex(token, staged, 0, 0))
            raise
        await self._clean_up(generation, old, token if staged else "")
        await faults.reach("config.stored")
        return epoch

    async def read(self, name: str, generation: str) -> tuple[int, AsyncIterator[bytes]]:
        """Return the epoch of a generation's plans, and the plans; 0 and none when there are none,
        or when the generation is not the current one.

        The iteration raises RetriableError `config.contended` when they are replaced meanwhile.
        """
        existing = await self._connectors.get(name)
        entry = None
        if existing.connector.generation == generation:
            key = plan_index_key(generation)
            entry = (await self._store.get(key)).get(key)
        index = decode_plan_index(entry.value) if entry else None
        if entry is None or index is None:
            return 0, _no_plans()
        return entry.revision, self._read_plans(name, generation, index)

    async def _require_current(self, name: str, generation: str) -> StoredConnector:
        existing = await self._connectors.get(name)
        rules.check_generation(existing, generation)
        return existing

    async def _stage_chunk(self, name: str, generation: str, key: str, chunk: bytes) -> None:
        """Write a chunk, unless the connector is gone: then it would never be deleted."""

        async def _attempt() -> None:
            existing = await self._require_current(name, generation)
            check = Check(connector_key(name), existing.entry_revision)
            await self._store.write([check], [(key, chunk)])

        await retry_on_conflict(_attempt)

    async def _switch_index(
        self, name: str, generation: str, index: PlanIndex, last: Put
    ) -> tuple[int, PlanIndex | None]:
        """Make the chunks the plans of the generation; returns the epoch, and the old index."""
        existing = await self._require_current(name, generation)
        key = plan_index_key(generation)
        old: Entry | None = (await self._store.get(key)).get(key)
        await faults.reach("config.storing")
        epoch = await self._store.write(
            [
                Check(connector_key(name), existing.entry_revision),
                Check(key, old.revision if old else 0),
            ],
            [(key, encode_plan_index(index)), last],
        )
        return epoch, decode_plan_index(old.value) if old else None

    async def _read_plans(
        self, name: str, generation: str, index: PlanIndex
    ) -> AsyncIterator[bytes]:
        assembler = PlanAssembler()
        for number in range(index.chunks):
            key = plan_chunk_key(generation, index.token, number)
            entry = (await self._store.get(key)).get(key)
            if entry is None:
                raise _contended(name)
            for plan in assembler.add(entry.value):
                yield plan

    async def _clean_up(self, generation: str, index: PlanIndex | None, token: str = "") -> None:
        """Delete the chunks of an index that is not in use; after an upload of several chunks
        (`token`), also those that a crash left. An error is only logged: the plans are stored.
        """
        try:
            if index is not None:
                await self._delete_chunks(generation, index)
            if token:
                await self._delete_orphans(generation, token)
        except PenstockError as error:
            log.warning("old plans of generation %s will be deleted later: %s", generation, error)

    async def _delete_chunks(self, generation: str, index: PlanIndex) -> None:
        keys = [plan_chunk_key(generation, index.token, number) for number in range(index.chunks)]
        for start in range(0, len(keys), CHUNKS_PER_CALL):
            deleted = keys[start : start + CHUNKS_PER_CALL]
            await self._store.write([], [(key, None) for key in deleted])

    async def _delete_orphans(self, generation: str, token: str) -> None:
        """Delete chunks of uploads that a crash interrupted."""
        oldest = self._clock() - ORPHANED_AFTER_S
        prefix = plan_prefix(generation)
        after, more = "", True
        while more:
            page = await self._store.range(prefix, after, CHUNKS_PER_CALL)
            more = page.more
            for entry in page.entries:
                after = entry.key
                owner, slash, _ = after.removeprefix(prefix).partition("/")
                if slash and owner != token and _token_time(owner) < oldest:
                    await self._store.write([], [(after, None)])


def _token_time(token: str) -> int:
    """Return when an upload began, in seconds since the epoch."""
    try:
        return int(token.partition("-")[0], 16)
    except ValueError:  # a chunk from before there were tokens
        return 0


async def _no_plans() -> AsyncIterator[bytes]:
    plans: tuple[bytes, ...] = ()
    for plan in plans:
        yield plan


def _too_large(size: str) -> ConfigError:
    return ConfigError(
        "config.plan_too_large",
        f"the plans of the connector have {size}",
        fix=f"Stay within {MAX_TASKS} tasks and {MAX_PLAN_BYTES >> 20} MiB: lower `tasks.max`, or "
        "divide the connector.",
        config_path="tasks.max",
    )


def _contended(name: str) -> RetriableError:
    return RetriableError(
        "config.contended",
        f"the plans of {name} were replaced while they were read",
        fix="Read them again.",
        retry_after_s=0.2,
    )
