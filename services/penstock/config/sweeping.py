"""Removes what deleted connectors leave: plans, versions and topics of generations that are gone.

The write that deletes a connector notes its generation; the note goes last. So a crash at any point
leaves a note, which the next start of the service finds.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.config.stored import (
    GONE,
    gone_key,
    plans_prefix,
    revisions_prefix,
    topics_prefix,
)
from penstock.model.errors import PenstockError
from penstock.store import Store

log = logging.getLogger(__name__)

BATCH: Final = 16
"""Keys that are read and removed at once: chunks of plans are large."""


async def sweep(store: Store, generation: str) -> None:
    """Remove all of a generation. An error is logged: the connector is deleted all the same."""
    try:
        for prefix in (plans_prefix, revisions_prefix, topics_prefix):
            await remove_all(store, prefix(generation))
        await store.write([], [(gone_key(generation), None)])
    except PenstockError as error:
        log.warning("what is left of generation %s is swept later: %s", generation, error)


async def sweep_all(store: Store) -> None:
    """Go on with what an earlier life of the service left."""
    after, more = "", True
    while more:
        page = await store.range(GONE, after)
        more = page.more
        for entry in page.entries:
            after = entry.key
            await sweep(store, after.removeprefix(GONE))


async def remove_all(store: Store, prefix: str) -> None:
    """Remove every key under a prefix."""
    more = True
    while more:
        page = await store.range(prefix, limit=BATCH)
        more = page.more
        if page.entries:
            await store.write([], [(entry.key, None) for entry in page.entries])
