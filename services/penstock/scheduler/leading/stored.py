"""Reads and writes what the scheduler stores. Writes are the leader's: they hold only while it
leads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.model import faults
from penstock.scheduler.leading.leadership import Leadership
from penstock.scheduler.state.events import Write
from penstock.scheduler.state.records import (
    ASSIGNMENTS,
    DRAINS,
    PLANNED,
    RESTARTED,
    ROUND,
    Owned,
    Planned,
    Taking,
    decode_planned,
    decode_record,
    decode_taking,
    encode_record,
    encode_taking,
    record_key,
)
from penstock.store import Check, Entry, Store
from penstock.store.port import Put

PAGE = 1000
MOST_DELETED = 100
"""Keys that are cleared away in one write: a transaction of etcd takes 128 operations."""


@dataclass(frozen=True, slots=True)
class Stored:
    """All that is stored, as of a revision not older than any of it."""

    owned: Mapping[str, Owned]
    planned: Mapping[str, Planned]
    taken: Mapping[str, Taking]
    drained: frozenset[str]
    revision: int


async def load(store: Store) -> Stored:
    """Read everything."""
    records, revision = await _all(store, ASSIGNMENTS)
    planned, _ = await _all(store, PLANNED)
    taken, _ = await _all(store, RESTARTED)
    drains, _ = await _all(store, DRAINS)
    planned_at = {entry.key.removeprefix(PLANNED): entry.revision for entry in planned}
    return Stored(
        dict(decode_record(entry) for entry in records),
        dict(decode_planned(entry) for entry in planned),
        dict(_unless_planned(*decode_taking(entry), planned_at) for entry in taken),
        frozenset(entry.key.removeprefix(DRAINS) for entry in drains),
        revision,
    )


async def store_round(leadership: Leadership, write: Write) -> int:
    """Store a round; returns its revision. Each record must be as the leader knows it: a write that
    was lost to another one changes nothing.
    """
    checks = [Check(record_key(id_), epoch) for id_, epoch in write.epochs.items()]
    puts: list[Put] = [
        (record_key(id_), None if record is None else encode_record(record))
        for id_, record in write.records.items()
    ]
    await faults.reach("scheduler.storing")
    revision = await leadership.write(checks, [*puts, (ROUND, b"")])
    await faults.reach("scheduler.stored")
    return revision


async def store_drain(leadership: Leadership, worker: str, *, drain: bool) -> None:
    """Store whether a person wants a worker to be empty."""
    await leadership.write([], [(DRAINS + worker, b"" if drain else None)])


async def store_taking(leadership: Leadership, generation: str, taking: Taking) -> Taking:
    """Store which requests to restart a connector were taken; returns it with its revision."""
    await faults.reach("scheduler.storing")
    value = encode_taking(generation, taking)
    revision = await leadership.write([], [(RESTARTED + generation, value)])
    await faults.reach("scheduler.stored")
    return replace(taking, revision=revision)


async def forget_plans(leadership: Leadership, store: Store) -> None:
    """Have all connectors planned anew by whoever leads next. Tasks whose partitions are the same
    keep their plans.
    """
    planned, _ = await _all(store, PLANNED)
    await _delete(leadership, [entry.key for entry in planned])


async def clear(leadership: Leadership, generations: Iterable[str], workers: Iterable[str]) -> None:
    """Remove what is stored about connectors and workers that are gone."""
    keys = [prefix + id_ for id_ in generations for prefix in (PLANNED, RESTARTED)]
    await _delete(leadership, keys + [DRAINS + id_ for id_ in workers])


def _unless_planned(
    generation: str, taking: Taking, planned_at: Mapping[str, int]
) -> tuple[str, Taking]:
    """Return what was taken, without the wish for plans where there are newer ones."""
    plan = taking.plan and planned_at.get(generation, 0) < taking.revision
    return generation, replace(taking, plan=plan)


async def _delete(leadership: Leadership, keys: Sequence[str]) -> None:
    for at in range(0, len(keys), MOST_DELETED):
        await leadership.write([], [(key, None) for key in keys[at : at + MOST_DELETED]])


async def _all(store: Store, prefix: str) -> tuple[list[Entry], int]:
    page = await store.range(prefix, limit=PAGE)
    entries = list(page.entries)
    while page.more:
        page = await store.range(prefix, after=page.entries[-1].key, limit=PAGE)
        entries += page.entries
    return entries, page.revision
