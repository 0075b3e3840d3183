"""Reads and writes task plans in a store: all of a generation at once, however many.

Chunks are written first, where nobody looks for them, each only while the connector is the one that
was checked. Then one write of the index makes them the plans of the generation; its revision is
their epoch.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Final

from penstock.config import plan_chunks, rules
from penstock.config.connectors import Connectors, decided
from penstock.config.plan_chunks import Chunker, Frames, Index, TaskIds
from penstock.config.stored import Stored, chunk_key, connector_key, index_key, plans_prefix
from penstock.model import faults
from penstock.model.errors import ConfigError, PenstockError, RetriableError
from penstock.store import Check, Entry, Put, Store

log = logging.getLogger(__name__)


ORPHANED_AFTER: Final = 600.0
"""Seconds after which chunks without an index are left over from a crash. No upload takes that."""

FEW: Final = 8
"""Chunks that are read, or removed, at once."""


class TaskPlans:
    """The task plans of a store. Keeps no state of its own."""

    def __init__(
        self, store: Store, connectors: Connectors, clock: Callable[[], float] = time.time
    ) -> None:
        """`connectors` tells which generation is alive; `clock` tells seconds since the epoch."""
        self._store, self._connectors, self._clock = store, connectors, clock

    async def put(self, name: str, generation: str, tasks: AsyncIterable[tuple[str, bytes]]) -> int:
        """Replace the plans of a generation; returns their epoch, the revision of the write.

        `tasks` are ids and plans, in order of number. The write holds only while the connector is
        the one that was checked: one that is deleted, or made again, in between makes it fail
        (invariant 10). Revisions grow and are never used twice, so the epoch fences every earlier
        owner (invariant 4).

        Raises:
            ConfigError: `config.not_found`, `config.generation_changed`, `config.plan_task_id`,
                `config.plan_too_large`.
        """
        token = f"{int(self._clock()):010x}-{secrets.token_hex(6)}"
        await self._alive(name, generation)
        staged = 0
        try:
            ids, chunker = TaskIds(generation), Chunker()
            async for task_id, plan in tasks:
                ids.check(task_id)
                for chunk in chunker.add(plan):
                    await self._stage(name, generation, chunk_key(generation, token, staged), chunk)
                    staged += 1
            index = Index(token, staged + 1, ids.count, chunker.size)
            last: Put = (chunk_key(generation, token, staged), chunker.rest())
            epoch, old = await decided(lambda: self._flip(name, generation, index, last))
        except ConfigError:  # refused: the index surely was not written
            await self._tidy(generation, Index(token, staged, 0, 0))
            raise
        await self._tidy(generation, old, token if staged else "")
        await faults.reach("config.stored")
        return epoch

    async def read(self, name: str, generation: str) -> tuple[int, AsyncIterator[bytes]]:
        """Return the epoch of a generation's plans, and the plans; 0 and none when there are none,
        or the generation is not alive any more.

        The iteration raises RetriableError `config.contended` when they are replaced meanwhile.
        """
        existing = await self._connectors.get(name)
        entry = None
        if existing.connector.generation == generation:
            key = index_key(generation)
            entry = (await self._store.get(key)).get(key)
        index = plan_chunks.decode_index(entry.value) if entry else None
        if entry is None or index is None:
            return 0, _nothing()
        return entry.revision, self._plans(name, generation, index)

    async def _alive(self, name: str, generation: str) -> Stored:
        existing = await self._connectors.get(name)
        rules.check_generation(existing, generation)
        return existing

    async def _stage(self, name: str, generation: str, key: str, chunk: bytes) -> None:
        """Write a chunk, unless the connector is gone: then nobody would ever sweep it."""

        async def _attempt() -> None:
            existing = await self._alive(name, generation)
            check = Check(connector_key(name), existing.entry)
            await self._store.write([check], [(key, chunk)])

        await decided(_attempt)

    async def _flip(
        self, name: str, generation: str, index: Index, last: Put
    ) -> tuple[int, Index | None]:
        """Make the chunks the plans of the generation; returns the epoch, and what was before."""
        existing = await self._alive(name, generation)
        key = index_key(generation)
        old: Entry | None = (await self._store.get(key)).get(key)
        await faults.reach("config.storing")
        epoch = await self._store.write(
            [
                Check(connector_key(name), existing.entry),
                Check(key, old.revision if old else 0),
            ],
            [(key, plan_chunks.encode_index(index)), last],
        )
        return epoch, plan_chunks.decode_index(old.value) if old else None

    async def _plans(self, name: str, generation: str, index: Index) -> AsyncIterator[bytes]:
        frames = Frames()
        for number in range(index.chunks):
            key = chunk_key(generation, index.token, number)
            entry = (await self._store.get(key)).get(key)
            if entry is None:
                raise _contended(name)
            for plan in frames.add(entry.value):
                yield plan

    async def _tidy(self, generation: str, index: Index | None, token: str = "") -> None:
        """Remove the chunks of an index that does not count, and after an upload of many those that
        a crash left. An error is logged: the plans are stored all the same.
        """
        try:
            if index is not None:
                await self._remove(generation, index)
            if token:
                await self._sweep_orphans(generation, token)
        except PenstockError as error:
            log.warning("old plans of generation %s are left for later: %s", generation, error)

    async def _remove(self, generation: str, index: Index) -> None:
        keys = [chunk_key(generation, index.token, number) for number in range(index.chunks)]
        for at in range(0, len(keys), FEW):
            await self._store.write([], [(key, None) for key in keys[at : at + FEW]])

    async def _sweep_orphans(self, generation: str, token: str) -> None:
        """Remove chunks of uploads that a crash cut off."""
        oldest = self._clock() - ORPHANED_AFTER
        prefix = plans_prefix(generation)
        after, more = "", True
        while more:
            page = await self._store.range(prefix, after, FEW)
            more = page.more
            for entry in page.entries:
                after = entry.key
                owner, slash, _ = after.removeprefix(prefix).partition("/")
                if slash and owner != token and _made_at(owner) < oldest:
                    await self._store.write([], [(after, None)])


def _made_at(token: str) -> int:
    try:
        return int(token.partition("-")[0], 16)
    except ValueError:  # a chunk of before tokens
        return 0


async def _nothing() -> AsyncIterator[bytes]:
    parts: tuple[bytes, ...] = ()
    for part in parts:
        yield part


def _contended(name: str) -> RetriableError:
    return RetriableError(
        "config.contended",
        f"the plans of {name} were replaced while they were read",
        fix="Read them again.",
        retry_after=0.2,
    )
