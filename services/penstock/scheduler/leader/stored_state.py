"""Reads and writes the stored state of the scheduler. Writes go through the leadership: they
succeed only while this instance leads.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, NamedTuple

from penstock.model import faults
from penstock.model.events import Event
from penstock.model.logs import StoredLogLine
from penstock.scheduler.leader.leadership import Leadership
from penstock.scheduler.state.cluster import MAX_RECORDS_PER_WRITE, RecordWrite
from penstock.scheduler.state.events import decode_events
from penstock.scheduler.state.log_lines import decode_log_lines
from penstock.scheduler.state.numbered_log import MAX_STORED_ITEMS, N, NumberedLog
from penstock.scheduler.state.records import (
    ASSIGNMENT_PREFIX,
    COMPLETED_PREFIX,
    DRAIN_PREFIX,
    EVENT_PREFIX,
    LOG_LINE_PREFIX,
    PLAN_PREFIX,
    RESTART_PREFIX,
    ROUND_KEY,
    AcceptedRestarts,
    Completion,
    OwnedTask,
    PlanRecord,
    decode_accepted_restarts,
    decode_completion,
    decode_plan_record,
    decode_record,
    encode_accepted_restarts,
    encode_completion,
    encode_plan_record,
    encode_record,
    record_key,
)
from penstock.store.port import Check, Entry, Put, Store

PAGE_SIZE: Final = 1000
MAX_DELETES_PER_WRITE: Final = 100
"""Keys deleted in one write. A transaction of etcd takes 128 operations."""

MAX_NEW_PER_WRITE: Final = 20
"""Entries of a log stored in one write, together with the deletes."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """The whole stored state. `revision` is not older than any task record in it."""

    owned: Mapping[str, OwnedTask]
    plan_records: Mapping[str, PlanRecord]
    accepted_restarts: Mapping[str, AcceptedRestarts]
    completed: Mapping[str, Completion]
    drained: frozenset[str]
    events: Sequence[Event]
    log_lines: Sequence[StoredLogLine]
    revision: int


async def load_state(store: Store) -> StoredState:
    """Read the whole stored state."""
    records, revision = await _read_all(store, ASSIGNMENT_PREFIX)
    plans, _ = await _read_all(store, PLAN_PREFIX)
    restarts, _ = await _read_all(store, RESTART_PREFIX)
    completed, _ = await _read_all(store, COMPLETED_PREFIX)
    drains, _ = await _read_all(store, DRAIN_PREFIX)
    events, _ = await _read_all(store, EVENT_PREFIX)
    log_lines, _ = await _read_all(store, LOG_LINE_PREFIX)
    planned_at = {entry.key.removeprefix(PLAN_PREFIX): entry.revision for entry in plans}
    return StoredState(
        dict(decode_record(entry) for entry in records),
        dict(decode_plan_record(entry) for entry in plans),
        dict(_unless_planned(*decode_accepted_restarts(entry), planned_at) for entry in restarts),
        dict(decode_completion(entry) for entry in completed),
        frozenset(entry.key.removeprefix(DRAIN_PREFIX) for entry in drains),
        [event for entry in events for event in decode_events(entry.value)],
        [line for entry in log_lines for line in decode_log_lines(entry.value)],
        revision,
    )


async def store_round(leadership: Leadership, write: RecordWrite) -> int:
    """Store the records of a round; returns the revision. Each stored record must still have the
    epoch that the leader knows, else nothing is written.
    """
    checks = [Check(record_key(id_), epoch) for id_, epoch in write.epochs.items()]
    puts: list[Put] = [
        (record_key(id_), None if record is None else encode_record(record))
        for id_, record in write.records.items()
    ]
    await faults.reach("scheduler.storing")
    revision = await leadership.write(checks, [*puts, (ROUND_KEY, b"")])
    await faults.reach("scheduler.stored")
    return revision


async def store_completions(leadership: Leadership, completed: Mapping[str, Completion]) -> None:
    """Store that tasks have completed; some in each write."""
    puts: list[Put] = [
        (COMPLETED_PREFIX + id_, encode_completion(one)) for id_, one in completed.items()
    ]
    for start in range(0, len(puts), MAX_RECORDS_PER_WRITE):
        await leadership.write([], puts[start : start + MAX_RECORDS_PER_WRITE])


async def delete_completions(leadership: Leadership, tasks: Iterable[str]) -> None:
    """Delete that tasks have completed."""
    await delete_keys(leadership, [COMPLETED_PREFIX + id_ for id_ in tasks])


async def store_drain(leadership: Leadership, worker: str, *, drain: bool) -> None:
    """Store whether an operator drains a worker."""
    await leadership.write([], [(DRAIN_PREFIX + worker, b"" if drain else None)])


class StoredItems(NamedTuple):
    """The items of a stored entry: whose they are, and how many."""

    owner: str
    items: int


class NumberedLogStore(Generic[N]):
    """Stores the items of a log, some in each entry, and deletes the oldest entries."""

    def __init__(
        self,
        leadership: Leadership,
        store: Store,
        prefix: str,
        max_items: int,
        encode: Callable[[Sequence[N]], bytes],
        owner: str = "",
    ) -> None:
        """`owner` is the field of an item that says whose it is; "" for one owner of all."""
        self._leadership, self._store = leadership, store
        self._prefix, self._max_items, self._encode = prefix, max_items, encode
        self._owner = owner
        self._entries: dict[str, StoredItems] | None = None

    async def store(self, numbered_log: NumberedLog[N]) -> None:
        """Store the items that are not stored yet. Nothing is written where there are none."""
        for batch in _batches(numbered_log.take_unstored()):
            if self._entries is None:
                entries, _ = await _read_all(self._store, self._prefix)
                self._entries = {one.key: self._stored_items(one) for one in entries}
            puts: list[Put] = []
            known = dict(self._entries)
            for items in batch:
                key = f"{self._prefix}{items[0].number:012d}"
                owner = str(getattr(items[0], self._owner)) if self._owner else ""
                known[key] = StoredItems(owner, len(items))
                puts.append((key, self._encode(items)))
            new = {key for key, _ in puts}
            spare = [key for key in oldest_beyond(known, self._max_items) if key not in new]
            old = spare[: MAX_DELETES_PER_WRITE - len(puts)]
            await self._leadership.write([], [*puts, *((key, None) for key in old)])
            for items in batch:
                numbered_log.record_stored(items)
            self._entries = {key: one for key, one in known.items() if key not in old}

    def _stored_items(self, entry: Entry) -> StoredItems:
        items = json.loads(entry.value)
        return StoredItems(str(items[0][self._owner]) if self._owner else "", len(items))


def _batches(entries: Iterable[list[N]]) -> Iterator[list[list[N]]]:
    """Yield entries for one write each: as many as have the items of a full one."""
    batch = list[list[N]]()
    count = 0
    for items in entries:
        if batch and (count + len(items) > MAX_STORED_ITEMS or len(batch) == MAX_NEW_PER_WRITE):
            yield batch
            batch, count = [], 0
        batch.append(items)
        count += len(items)
    if batch:
        yield batch


def oldest_beyond(entries: Mapping[str, StoredItems], most: int) -> list[str]:
    """Return the oldest entries of the owners with most items, without which there are still `most`
    items, at most 100.
    """
    spare = sum(one.items for one in entries.values()) - most
    old: list[str] = []
    counts, keys = Counter[str](), dict[str, deque[str]]()
    for key, one in sorted(entries.items()):
        counts[one.owner] += one.items
        keys.setdefault(one.owner, deque()).append(key)
    while spare > 0 and len(old) < MAX_DELETES_PER_WRITE:
        owner = max(counts, key=counts.__getitem__)
        count = entries[keys[owner][0]].items
        if count > spare:
            break
        old.append(keys[owner].popleft())
        counts[owner] -= count
        spare -= count
    return old


async def store_plan_record(leadership: Leadership, generation: str, record: PlanRecord) -> None:
    """Store which plans of a connector are in force."""
    await leadership.write([], [(PLAN_PREFIX + generation, encode_plan_record(record))])


async def store_accepted_restarts(
    leadership: Leadership, generation: str, accepted: AcceptedRestarts
) -> AcceptedRestarts:
    """Store the accepted restarts of a connector; returns them with their revision."""
    await faults.reach("scheduler.storing")
    value = encode_accepted_restarts(generation, accepted)
    revision = await leadership.write([], [(RESTART_PREFIX + generation, value)])
    await faults.reach("scheduler.stored")
    return replace(accepted, revision=revision)


async def delete_plan_records(leadership: Leadership, store: Store) -> None:
    """Delete all plan records, so that the next leader plans all connectors again. Tasks whose
    partitions stay the same keep their plans.
    """
    plans, _ = await _read_all(store, PLAN_PREFIX)
    await delete_keys(leadership, [entry.key for entry in plans])


async def delete_all_completions(leadership: Leadership, store: Store) -> None:
    """Delete that tasks have completed, so that the next leader starts all of them."""
    completed, _ = await _read_all(store, COMPLETED_PREFIX)
    await delete_keys(leadership, [entry.key for entry in completed])


async def delete_gone(
    leadership: Leadership, generations: Iterable[str], workers: Iterable[str]
) -> None:
    """Delete the entries of connectors and workers that no longer exist."""
    keys = [prefix + id_ for id_ in generations for prefix in (PLAN_PREFIX, RESTART_PREFIX)]
    await delete_keys(leadership, keys + [DRAIN_PREFIX + id_ for id_ in workers])


async def delete_keys(leadership: Leadership, keys: Sequence[str]) -> None:
    """Delete keys, a part of them in each write."""
    for start in range(0, len(keys), MAX_DELETES_PER_WRITE):
        deleted = keys[start : start + MAX_DELETES_PER_WRITE]
        await leadership.write([], [(key, None) for key in deleted])


def _unless_planned(
    generation: str, accepted: AcceptedRestarts, planned_at: Mapping[str, int]
) -> tuple[str, AcceptedRestarts]:
    """Return accepted restarts, without `replan` where newer plans exist."""
    replan = accepted.replan and planned_at.get(generation, 0) < accepted.revision
    return generation, replace(accepted, replan=replan)


async def _read_all(store: Store, prefix: str) -> tuple[list[Entry], int]:
    page = await store.range(prefix, limit=PAGE_SIZE)
    entries = list(page.entries)
    while page.more:
        page = await store.range(prefix, after=page.entries[-1].key, limit=PAGE_SIZE)
        entries += page.entries
    return entries, page.revision
