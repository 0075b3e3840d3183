"""Reads and writes the task plans of connectors: all plans of a generation at once, however many.

Each plan is a frame: its length in 4 bytes, then its message. The frames are split into chunks
wherever a chunk is full, so that no value of the store is large, even when a single plan is.

Chunks are written first, while no index names them. Then one write of the index and of the plan
record makes them the plans in force; its revision is their epoch. Every write goes through the
leadership, also that of a chunk: the store refuses the late plans of an old leader (invariant 4).
Only the leader writes here, so a chunk that no index names is left over from a term that ended in
between. Plans are keyed by generation, never by name (invariant 10).
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import struct
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from google.protobuf.message import DecodeError

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.model import faults
from penstock.model.connector import TaskPlan
from penstock.scheduler.leader.leadership import Leadership
from penstock.scheduler.leader.stored_state import MAX_DELETES_PER_WRITE, delete_keys
from penstock.scheduler.state.records import (
    PLAN_PREFIX,
    TASK_PLANS_PREFIX,
    PlanRecord,
    encode_new_plan_record,
    plan_chunk_key,
    plan_index_key,
    plans_prefix,
)
from penstock.store.port import Entry, Put, Store
from penstock.wire.connector import PLAN

log = logging.getLogger(__name__)

CHUNK_BYTES: Final = 448 << 10
"""Bytes of a chunk. etcd takes values up to 1.5 MB; smaller ones only make more keys."""

KEYS_PER_READ: Final = 32
"""Keys that are read at once: 14 MiB if all are full chunks."""

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


@dataclass(frozen=True, slots=True)
class PlansInForce:
    """The plans of a generation, ordered by task number. `epoch` is the revision at which they were
    stored; 0: there are none. `are_known` False: only the ids of the tasks are known.
    """

    epoch: int = 0
    plans: tuple[TaskPlan, ...] = ()
    are_known: bool = True


@dataclass(frozen=True, slots=True)
class LoadedPlans:
    """The plans of all generations. No index names the chunks `leftovers`."""

    by_generation: Mapping[str, PlansInForce]
    leftovers: tuple[str, ...]


def encode_plan_index(index: PlanIndex) -> bytes:
    """Return the stored form of an index."""
    return json.dumps(asdict(index)).encode()


def decode_plan_index(value: bytes) -> PlanIndex:
    """Return an index.

    Raises:
        ValueError, TypeError: it is damaged, or of the form before plans were streamed.
    """
    return PlanIndex(**json.loads(value))


def split_frames(plans: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks of plans. The last one may be empty."""
    buffer = bytearray()
    for plan in plans:
        buffer += _LENGTH.pack(len(plan)) + plan
        while len(buffer) >= CHUNK_BYTES:
            yield bytes(buffer[:CHUNK_BYTES])
            del buffer[:CHUNK_BYTES]
    yield bytes(buffer)


def join_frames(chunks: Iterable[bytes]) -> list[bytes]:
    """Return the plans of chunks.

    Raises:
        ValueError: the last plan is incomplete.
    """
    content, plans, start = b"".join(chunks), [], 0
    while start < len(content):
        size = int.from_bytes(content[start : start + _LENGTH.size], "big")
        start += _LENGTH.size
        if start + size > len(content):
            raise ValueError(f"a plan of {size} bytes ends after {len(content) - start}")
        plans.append(content[start : start + size])
        start += size
    return plans


async def load_plans(store: Store) -> LoadedPlans:
    """Read the plans of all generations. Plans that cannot be read are logged, and are none: the
    connector is planned again.
    """
    found: dict[str, PlansInForce] = {}
    leftovers: list[str] = []
    async for generation, entries in _read_generations(store):
        named: Sequence[str] = ()
        index = entries.pop(plan_index_key(generation), None)
        if index is not None:
            try:
                named = _chunk_keys(generation, decode_plan_index(index.value))
                values = [entries[key].value for key in named]
                # in a thread: a hundred thousand partitions take a second, and the lease must be
                # renewed meanwhile
                plans = await asyncio.to_thread(_decode, values)
            except (ValueError, TypeError, KeyError, DecodeError) as error:
                log.error("the plans of generation %s cannot be read: %r", generation, error)  # noqa: TRY400 - where is known
                named = ()
            else:
                found[generation] = PlansInForce(index.revision, plans)
        leftovers += entries.keys() - set(named)
    return LoadedPlans(found, tuple(sorted(leftovers)))


class PlanStore:
    """Stores the plans that a leader made."""

    def __init__(self, leadership: Leadership, store: Store) -> None:
        """`store` is read; writes go through the leadership."""
        self._leadership, self._store = leadership, store

    async def put(self, generation: str, record: PlanRecord, plans: Sequence[bytes]) -> PlanRecord:
        """Replace the plans of a generation, together with their record; returns the record with
        their epoch. `plans` are messages, ordered by task number.

        Raises:
            FencedError: another instance leads.
        """
        token = secrets.token_hex(12)
        chunks = list(split_frames(plans))
        index = PlanIndex(token, len(chunks), len(plans), sum(map(len, chunks)))
        *staged, last = zip(_chunk_keys(generation, index), chunks, strict=True)
        old = await self._read_index(generation)
        if staged:
            await self._delete_others(generation, old)
        for put in staged:
            await self._leadership.write([], [put])
        replaced = list(_chunk_keys(generation, old[0])) if old else []
        puts: list[Put] = [
            (plan_index_key(generation), encode_plan_index(index)),
            last,
            (PLAN_PREFIX + generation, encode_new_plan_record(record)),
            *((key, None) for key in replaced[:MAX_DELETES_PER_WRITE]),
        ]
        await faults.reach("scheduler.storing_plans")
        epoch = await self._leadership.write([], puts)
        await faults.reach("scheduler.stored_plans")
        await delete_keys(self._leadership, replaced[MAX_DELETES_PER_WRITE:])
        return replace(record, epoch=epoch)

    async def epoch_of(self, generation: str) -> int:
        """Return the epoch of the stored plans; 0: there are none."""
        index = await self._read_index(generation)
        return index[1] if index else 0

    async def delete_generation(self, generation: str) -> None:
        """Delete all that is stored of the plans of a generation."""
        page = await self._store.range(plans_prefix(generation), limit=KEYS_PER_READ)
        while page.entries:
            await delete_keys(self._leadership, [entry.key for entry in page.entries])
            page = await self._store.range(plans_prefix(generation), limit=KEYS_PER_READ)

    async def _read_index(self, generation: str) -> tuple[PlanIndex, int] | None:
        """Return the stored index with its revision; None when there is none that can be read."""
        key = plan_index_key(generation)
        entry = (await self._store.get(key)).get(key)
        if entry is None:
            return None
        try:
            return decode_plan_index(entry.value), entry.revision
        except (ValueError, TypeError):
            return None

    async def _delete_others(self, generation: str, kept: tuple[PlanIndex, int] | None) -> None:
        """Delete the chunks that no index names: those of an upload that failed."""
        named = {plan_index_key(generation), *(_chunk_keys(generation, kept[0]) if kept else ())}
        after, more = "", True
        while more:
            page = await self._store.range(plans_prefix(generation), after, KEYS_PER_READ)
            keys = [entry.key for entry in page.entries]
            after, more = keys[-1] if keys else after, page.more
            await delete_keys(self._leadership, [key for key in keys if key not in named])


def _chunk_keys(generation: str, index: PlanIndex) -> Sequence[str]:
    return [plan_chunk_key(generation, index.token, number) for number in range(index.chunks)]


def _decode(chunks: Iterable[bytes]) -> tuple[TaskPlan, ...]:
    messages = map(connector_pb.TaskPlan.FromString, join_frames(chunks))
    return tuple(map(PLAN.from_proto, messages))


async def _read_generations(store: Store) -> AsyncIterator[tuple[str, dict[str, Entry]]]:
    """Yield the entries of each generation by key. Only those of one are in memory."""
    generation, entries = "", dict[str, Entry]()
    after, more = "", True
    while more:
        page = await store.range(TASK_PLANS_PREFIX, after, KEYS_PER_READ)
        more = page.more
        for entry in page.entries:
            after = entry.key
            owner = after.removeprefix(TASK_PLANS_PREFIX).partition("/")[0]
            if owner != generation and entries:
                yield generation, entries
                entries = {}
            generation = owner
            entries[after] = entry
    if entries:
        yield generation, entries
