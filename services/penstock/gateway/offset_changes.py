"""Offsets set by hand: they may be, the connector's plugin agrees, and then they are stored.

A plugin may change something outside before they are stored. When that fails, or somebody has
resumed the connector meanwhile, which the offset service notices, nothing is stored, and the same
request may be sent again: plugins are idempotent here. A change that comes in parts is looked at
by the plugin as a whole, before it changes anything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, TypeAlias

from penstock.client import AlteredOffsets
from penstock.gateway.clients import Asks
from penstock.model.connector import ApplyAction, Connector

PART: Final = 800
"""Partitions of one call: with the longest ids and offsets they fit into a message."""

Offsets: TypeAlias = Mapping[str, Mapping[str, Any] | None]
Changes: TypeAlias = Callable[[], AsyncIterator[tuple[str, Mapping[str, Any] | None]]]
"""Makes an iterator over partition ids and wanted offsets."""


async def alter(asks: Asks, stored: Connector, offsets: Offsets) -> bool:
    """Set offsets, as the plugin wants them; tells whether there is one that has a say in it."""
    await asks.offset.check_alterable(stored.name, stored.generation)
    altered = await _ask(asks, stored, offsets)
    await asks.offset.alter(stored.name, stored.generation, altered.offsets)
    return altered.asked


async def reset(asks: Asks, stored: Connector, *, forget: bool = False) -> bool:
    """Take all offsets away; tells whether there is a plugin that has a say in it. `forget`: the
    connector is deleted next.
    """

    async def removed() -> AsyncIterator[tuple[str, None]]:
        async for id_, _ in asks.offset.list(stored.generation):
            yield id_, None

    await asks.offset.check_alterable(stored.name, stored.generation)
    asked = await agreed(asks, stored, removed)
    await asks.offset.reset(stored.name, stored.generation, forget=forget)
    if not forget:  # one that is deleted is removed outside by the config service
        worker = await asks.workers.any()
        await worker.apply(stored, ApplyAction.RESET)
    return asked


async def agreed(asks: Asks, stored: Connector, changes: Changes, *, dry_run: bool = False) -> bool:
    """Have the plugin agree to many changes; tells whether there is one that has a say in it. What
    it makes of them does not count: they are offsets that it gave out itself, or none.

    Raises:
        PenstockError: it refuses one of them.
    """
    if not (await _ask(asks, stored, {}, dry_run=True)).asked:
        return False
    for only_check in (True,) if dry_run else (True, False):
        async for part in _parts(changes):
            await _ask(asks, stored, part, dry_run=only_check)
    return True


async def _ask(
    asks: Asks, stored: Connector, offsets: Offsets, *, dry_run: bool = False
) -> AlteredOffsets:
    worker = await asks.workers.any()
    return await worker.alter_offsets(stored, offsets, dry_run=dry_run)


async def _parts(changes: Changes) -> AsyncIterator[Offsets]:
    """Iterate over changes in parts; where there are none, over one without any."""
    part: dict[str, Mapping[str, Any] | None] = {}
    async for id_, offset in changes():
        if len(part) == PART:
            yield part
            part = {}
        part[id_] = offset
    yield part
