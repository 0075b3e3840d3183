"""The current connectors, and the current log levels, kept up to date by watches.

`watch_connectors` lists the connectors at a revision and then watches them. The watch is only a
hint (invariant 7): a connector that it names is read again. When the watch missed changes, or ends,
all connectors are listed again.

`apply_log_levels` sets the levels of the loggers of this process to those of the config service.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from penstock.client.config import ConfigClient, ConnectorsChanged
from penstock.model.connector import Connector
from penstock.model.errors import PenstockError, RetriableError
from penstock.model.logs import LogLevel
from penstock.telemetry.log_levels import PROCESS_LEVELS, LogLevels, levels_for_services

log = logging.getLogger(__name__)

MIN_WATCH_DELAY_S: Final = 0.1
MAX_WATCH_DELAY_S: Final = 2.0
"""Seconds between attempts to reach a service that is unavailable. With longer delays a change
waits after the service is back."""

MIN_LEVELS_DELAY_S: Final = 0.2
MAX_LEVELS_DELAY_S: Final = 5.0
"""Seconds between attempts to watch the log levels while the config service is unavailable. The
levels stay as they are. Longer delays hold up an operator who changes one after an outage."""


@dataclass(frozen=True, slots=True)
class Connectors:
    """All connectors by name, at a revision.

    `changed` has the names that differ from the view before. In the first view it has all names.
    """

    by_name: Mapping[str, Connector]
    revision: int
    changed: frozenset[str]


async def watch_connectors(client: ConfigClient) -> AsyncIterator[Connectors]:
    """Iterate over views of the connectors: the present one, then one after each change.

    Does not end by itself: while the service is unavailable, it waits.
    """
    known: dict[str, Connector] = {}
    delay = MIN_WATCH_DELAY_S
    while True:
        try:
            async with aclosing(_views(client, known)) as views:
                async for view in views:
                    known, delay = dict(view.by_name), MIN_WATCH_DELAY_S
                    yield view
        except RetriableError:
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311 - spreads retries
            delay = min(delay * 2, MAX_WATCH_DELAY_S)


async def _views(
    client: ConfigClient, known: Mapping[str, Connector]
) -> AsyncGenerator[Connectors, None]:
    """Yield views until the watch missed changes.

    Raises:
        RetriableError: `config.watch_ended`.
    """
    listed = await client.list()
    by_name = {connector.name: connector for connector in listed.connectors}
    yield Connectors(by_name, listed.revision, _changed_names(known, by_name))
    async with aclosing(client.watch(listed.revision)) as changes:
        async for change in changes:
            if change.list_again:
                return
            view = await _apply_change(client, by_name, change)
            if view.changed:
                by_name = dict(view.by_name)
                yield view
    raise RetriableError(
        "config.watch_ended",
        "the watch of connectors ended",
        fix="No action is needed: the client opens a new one.",
    )


async def _apply_change(
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
    return Connectors(now, change.revision, _changed_names(before, now))


def _changed_names(
    before: Mapping[str, Connector], after: Mapping[str, Connector]
) -> frozenset[str]:
    names = before.keys() | after.keys()
    return frozenset(name for name in names if before.get(name) != after.get(name))


async def apply_log_levels(
    watch: Callable[[], AsyncGenerator[Sequence[LogLevel], None]],
    services: Collection[str],
    levels: LogLevels = PROCESS_LEVELS,
) -> None:
    """Set the levels of this process's loggers as the watch sends them, until cancelled.

    `services` are the services that this process runs. Each message of the watch has all levels, so
    no change is missed (invariant 7).
    """
    delay = MIN_LEVELS_DELAY_S
    while True:
        try:
            async with aclosing(watch()) as updates:
                async for update in updates:
                    levels.set_cluster_levels(levels_for_services(update, services))
                    delay = MIN_LEVELS_DELAY_S
        except PenstockError as error:
            log.debug("cannot watch the log levels: %s", error)
        await asyncio.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311 - spreads retries
        delay = min(delay * 2, MAX_LEVELS_DELAY_S)
