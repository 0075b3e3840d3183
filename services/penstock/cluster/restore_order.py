"""In which writes, and with which revisions, the entries of a backup come back. Pure.

What was newer than what stays so, and what was written together is written together: services
compare revisions. A store in which a restore chooses the revisions gets all of them shifted; etcd
gives its own, so there the writes are made again in their order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Final

from penstock.config.records import KEY_PREFIXES as CONNECTORS
from penstock.offset.records import KEY_PREFIXES as OFFSETS
from penstock.scheduler.state.records import (
    PLAN_PREFIX,
    decode_plan_record,
    encode_new_plan_record,
    plan_index_key,
)
from penstock.store.port import Entry

EPOCHS_PER_RESTORE: Final = 1_000_000_000
"""What epochs are ahead of the backup after a restore, unless the user names a number. The lost
cluster has written fewer revisions since its backup: at 1,000 a second it needs eleven days."""

BATCH_KEYS: Final = 100
BATCH_BYTES: Final = 1 << 20
"""Size of a write of offsets; etcd takes 128 operations and 1.5 MB."""

STATE: Final = "state/"
"""Prefix of the keys of the store in a backup."""

SERVICE_KEYS: Final = {
    "config": tuple(STATE + prefix for prefix in CONNECTORS),
    "offset": tuple(STATE + prefix for prefix in OFFSETS),
}
"""Keys of the services whose store may be a database."""

_PLAN_RECORDS: Final = STATE + PLAN_PREFIX


def base_of_epochs(newest: int, epochs_above: int) -> int:
    """Return what all revisions are past after the restore of a backup whose newest is `newest`.
    `epochs_above`: the largest epoch that a topic or a sink may have seen; 0: unknown.
    """
    return max(epochs_above, newest) if epochs_above else newest + EPOCHS_PER_RESTORE


def is_offset(entry: Entry) -> bool:
    """Return whether an entry is of the offset service: no order of these means anything."""
    return entry.key.startswith(SERVICE_KEYS["offset"])


def shift_revisions(entries: Iterable[Entry], lowest: int, base: int) -> Iterator[Entry]:
    """Yield entries as a store keeps them, with revisions after `base`. `lowest` is the smallest
    revision among them.
    """
    for entry in entries:
        key = entry.key.removeprefix(STATE)
        yield replace(entry, key=key, revision=entry.revision - lowest + base + 1)


def join_plan_records(entries: Sequence[Entry]) -> list[Entry]:
    """Return entries in which a plan record that names the revision of its plans is written with
    them: a restore gives them another revision, and a record that names none has that of its entry.
    A record of other plans stays as it is; its connector is planned again.
    """
    plans = {entry.key: entry.revision for entry in entries if entry.key.endswith("/index")}
    joined: list[Entry] = []
    for entry in entries:
        generation = entry.key.removeprefix(_PLAN_RECORDS)
        revision = plans.get(STATE + plan_index_key(generation))
        is_record = generation != entry.key
        joined.append(_join_plan_record(entry, revision) if is_record and revision else entry)
    return joined


def _join_plan_record(entry: Entry, plans_revision: int) -> Entry:
    try:
        _, record = decode_plan_record(entry)
    except (ValueError, TypeError):
        return entry  # the scheduler says what is wrong with it
    if record.epoch != plans_revision or entry.revision == plans_revision:
        return entry
    return Entry(entry.key, encode_new_plan_record(record), plans_revision)


def split_into_batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Yield entries, as many at once as a write of etcd takes."""
    batch, size_bytes = list[Entry](), 0
    for entry in entries:
        entry_bytes = len(entry.key) + len(entry.value)
        if batch and (len(batch) == BATCH_KEYS or size_bytes + entry_bytes > BATCH_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(entry)
        size_bytes += entry_bytes
    if batch:
        yield batch


def group_by_revision(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Yield entries in the order in which they were written, those of one write together."""
    by_revision = sorted(entries, key=attrgetter("revision"))
    for _, group in itertools.groupby(by_revision, key=attrgetter("revision")):
        yield list(group)
