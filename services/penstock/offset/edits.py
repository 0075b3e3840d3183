"""What people do with offsets: get, list, history, alter. See `bulk` for reset and rewind.

To alter offsets is to become their owner: the generation's floor is raised to the newest epoch that
was ever given out, so that a task which still believes in itself can neither commit nor claim any
more (invariant 4). The next start gets a newer epoch.

What a task has prepared stays: its rows are durable, and its offsets were stored with it. A claim
still tells to recover it, which shows those rows and changes no offset.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Final

from penstock.model.errors import ConfigError, RetriableError
from penstock.model.identity import partition_id, partition_key
from penstock.offset import history, journal, rules, stored
from penstock.offset import manifest as heads
from penstock.offset.cache import Known
from penstock.offset.compaction import Folder
from penstock.offset.history import Version
from penstock.offset.manifest import Head
from penstock.offset.owner import Owner
from penstock.offset.staged_writes import staged
from penstock.offset.view import MOST_JOURNALS, View
from penstock.store import Check, Conflict, Store

MOST_ASKED: Final = 10_000
"""Partitions of one get (invariant 12)."""

MOST_ALTERED: Final = 100_000
"""Partitions of one alteration."""

ATTEMPTS: Final = 8


class Edits:
    """The offsets of a store, as people see and change them."""

    def __init__(
        self,
        store: Store,
        owner: Owner,
        view: View | None = None,
        folder: Folder | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`owner` tells whether a person may change them."""
        self._store, self._owner, self._clock = store, owner, clock
        self._view = view or View(store)
        self._folder = folder or Folder(store, self._view, clock)

    async def get(self, generation: str, partition_ids: Sequence[str]) -> dict[str, bytes]:
        """Read the offsets of partitions; those that have none are absent.

        Raises:
            ConfigError: `offset.too_many`.
        """
        rules.check_generation(generation)
        rules.check_count(len(partition_ids), MOST_ASKED, "Ask for fewer at once, or list them.")
        found = await self._view.get(generation, partition_ids)
        values = ((id_, known.value) for id_, known in found.items())
        return _present((id_, value) for id_, value in values if value is not None)

    async def list(self, generation: str, prefix: str) -> AsyncIterator[dict[str, bytes]]:
        """Iterate over pages of offsets, ordered by partition id.

        Raises:
            RetriableError: `offset.list_superseded`: offsets were reset or rewound meanwhile.
        """
        rules.check_generation(generation)
        async for page in self._view.pages(generation, prefix):
            present = _present(page)
            if present:
                yield present

    async def history(self, generation: str, partition_id: str) -> Sequence[Version]:
        """Read the offsets that a partition had, newest first."""
        rules.check_generation(generation)
        known = (await self._view.get(generation, (partition_id,)))[partition_id]
        return history.versions(known.value) if known.value is not None else []

    async def check_alterable(self, connector: str, generation: str) -> None:
        """Refuse what `alter` would refuse now.

        Raises:
            PenstockError: what `Owner.stopped` refuses.
        """
        rules.check_generation(generation)
        await self._owner.stopped(connector, generation, must_exist=True)

    async def alter(
        self, connector: str, generation: str, offsets: Mapping[str, bytes | None]
    ) -> int:
        """Set offsets, or remove those that are None, all or none; returns the write's revision.

        Raises:
            PenstockError: what `Owner.stopped` refuses.
            ConfigError: `offset.partition_id`, `offset.nothing_to_alter`, `offset.too_many`.
        """
        rules.check_generation(generation)
        rules.check_sizes(offsets)
        rules.check_count(len(offsets), MOST_ALTERED, "Alter fewer at once.")
        _check_any(offsets)
        for id_ in offsets:
            _check_canonical(id_)
        stopped = await self._owner.stopped(connector, generation, must_exist=True)
        for _ in range(ATTEMPTS):
            head = await self._view.head(generation)
            if len(head.value.journals) >= MOST_JOURNALS:
                head = await self._folder.settle(generation)
            revision = await self._altered(generation, head, stopped.epoch, offsets)
            if revision:
                return revision
        raise contended(generation)

    async def _altered(
        self,
        generation: str,
        head: Known[Head],
        newest: int,
        offsets: Mapping[str, bytes | None],
    ) -> int:
        """Write a journal of a person, whose epoch is the floor; returns 0 when another came."""
        new = heads.fenced(head.value, newest)
        draft = journal.drafted(new.floor, int(self._clock() * 1000), offsets)
        new = heads.journaled(new, draft.journal.id)
        puts = await staged(self._store, generation, draft)
        key = stored.head_key(generation)
        try:
            revision = await self._store.write(
                [Check(key, head.revision)], [(key, heads.encode(new)), *puts]
            )
        except Conflict:
            return 0
        self._view.add(generation, draft.journal.at(revision))
        self._folder.notice(generation, new)
        return revision


def contended(generation: str) -> RetriableError:
    """Return the error of a change that others came between again and again."""
    return RetriableError(
        "offset.contended",
        f"the offsets of {generation} are changed by others",
        fix="Repeat it.",
        retry_after=0.2,
    )


def _present(values: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
    """Return the offsets of values; what was removed is absent."""
    bodies = ((id_, history.newest(value).body) for id_, value in values)
    return {id_: body for id_, body in bodies if body is not None}


def _check_any(offsets: Mapping[str, bytes | None]) -> None:
    if not offsets:
        raise ConfigError(
            "offset.nothing_to_alter",
            "the alteration names no partition",
            fix="Name partitions with their offsets, or reset the connector's.",
        )


def _check_canonical(id_: str) -> None:
    """Refuse an id that no task would ever look for."""
    try:
        wanted = partition_id(partition_key(id_))
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        wanted = ""
    if wanted != id_:
        raise ConfigError(
            "offset.partition_id",
            f"{id_[:200]!r} is not the canonical JSON of a partition's key",
            fix="Write the key as JSON with sorted names and no spaces, as a list of offsets does.",
            suggestion=wanted,
        )
