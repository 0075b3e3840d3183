"""The connectors as they are now: a list at a revision, kept up by a watch.

The watch is a hint only (invariant 7): what it names is read again, and when it says that changes
were missed, or ends, all is listed anew.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from penstock.client.config import ConfigClient, ConnectorsChanged
from penstock.model.connector import Connector
from penstock.model.errors import PenstockError, RetriableError

FIRST_DELAY: Final = 0.1
LONGEST_DELAY: Final = 2.0
"""Seconds between attempts to reach a service that is away. Longer ones let a change wait after the
service is back."""


@dataclass(frozen=True, slots=True)
class Connectors:
    """All connectors by name, at a revision. `changed` names what differs from the view before;
    of the first view, and of one after changes were missed, all that there are.
    """

    by_name: Mapping[str, Connector]
    revision: int
    changed: frozenset[str]


async def follow(client: ConfigClient) -> AsyncIterator[Connectors]:
    """Iterate over the connectors as they are, and again whenever some changed. Never ends by
    itself: while the service is away, it waits.
    """
    known: dict[str, Connector] = {}
    delay = FIRST_DELAY
    while True:
        try:
            async with aclosing(_views(client, known)) as views:
                async for view in views:
                    known, delay = dict(view.by_name), FIRST_DELAY
                    yield view
        except RetriableError:
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311 - spreads retries
            delay = min(delay * 2, LONGEST_DELAY)


async def _views(
    client: ConfigClient, known: Mapping[str, Connector]
) -> AsyncGenerator[Connectors, None]:
    """Yield views until changes were missed, or the watch ends."""
    listed = await client.list()
    by_name = {connector.name: connector for connector in listed.connectors}
    yield Connectors(by_name, listed.revision, _different(known, by_name))
    async with aclosing(client.watch(listed.revision)) as changes:
        async for change in changes:
            if change.list_again:
                return
            view = await _after(client, by_name, change)
            if view.changed:
                by_name = dict(view.by_name)
                yield view
    raise RetriableError(
        "config.watch_ended",
        "the watch of connectors ended",
        fix="Nothing is to be done: it is opened anew.",
    )


async def _after(
    client: ConfigClient, before: Mapping[str, Connector], change: ConnectorsChanged
) -> Connectors:
    now = dict(before)
    for name in change.names:
        now.pop(name, None)
        try:
            now[name] = await client.get(name)
        except PenstockError as error:
            if error.code != "config.not_found":
                raise
    return Connectors(now, change.revision, _different(before, now))


def _different(before: Mapping[str, Connector], after: Mapping[str, Connector]) -> frozenset[str]:
    names = before.keys() | after.keys()
    return frozenset(name for name in names if before.get(name) != after.get(name))
