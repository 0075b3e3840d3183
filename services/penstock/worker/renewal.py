"""Whether the values of a connector's references still hold: they are asked for again when their
time is over (`config.action.reload` says whether that matters).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NamedTuple

from penstock.model.errors import PenstockError
from penstock.secrets import Secrets
from penstock.worker.design import Design
from penstock.worker.ports import Watch

log = logging.getLogger(__name__)

AGAIN: Final = 10.0
"""Seconds until a provider that did not answer is asked again. What was read before goes on: a
secret that cannot be read is no secret that changed."""


class Renewal:
    """Watches the secrets of one life."""

    def __init__(self, secrets: Secrets, design: Design) -> None:
        self._secrets, self._design = secrets, design

    async def changed(self) -> None:
        """Return when a value is another one; never, for those that hold for ever."""
        if self._design.ttl is None or not self._design.settings.reload:
            await asyncio.Event().wait()
        connector, wait = self._design.connector, self._design.ttl or AGAIN
        while True:
            await asyncio.sleep(wait)
            try:
                resolved = await self._secrets.resolve(connector.config)
            except PenstockError as error:
                log.warning("secrets of %s could not be read again: %s", connector.name, error)
                wait = AGAIN
                continue
            if resolved.config != self._design.values:
                return
            wait = resolved.ttl or AGAIN


class Watched(NamedTuple):
    """What a life of a monitor listens to, and whether the secrets for that still hold."""

    watch: Watch
    renewal: Renewal
