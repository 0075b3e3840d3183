"""Removes what deleted connectors leave: plans, versions and topics of generations that are gone.

The write that deletes a connector notes it under its generation; the note goes last, when it was
removed outside, too (`departures`). So a crash at any point leaves a note, which the next start of
the service finds.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.config.stored import (
    GONE,
    decode,
    gone_key,
    plans_prefix,
    revisions_prefix,
    topics_prefix,
)
from penstock.model.connector import Connector
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
    except PenstockError as error:
        log.warning("what is left of generation %s is swept later: %s", generation, error)


async def sweep_all(store: Store) -> list[Connector]:
    """Go on with what an earlier life of the service left; returns the connectors whose notes are
    still there. A note of before connectors were kept in it goes.
    """
    found: list[Connector] = []
    after, more = "", True
    while more:
        page = await store.range(GONE, after)
        more = page.more
        for entry in page.entries:
            after = entry.key
            generation = after.removeprefix(GONE)
            await sweep(store, generation)
            if entry.value:
                found.append(decode(entry).connector)
            else:
                await store.write([], [(gone_key(generation), None)])
    return found


async def remove_all(store: Store, prefix: str) -> None:
    """Remove every key under a prefix."""
    more = True
    while more:
        page = await store.range(prefix, limit=BATCH)
        more = page.more
        if page.entries:
            await store.write([], [(entry.key, None) for entry in page.entries])
