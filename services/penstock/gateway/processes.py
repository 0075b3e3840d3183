"""Asks every process of the cluster for its numbers."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.client import ProcessClient
from penstock.model.errors import PenstockError
from penstock.model.process_numbers import ProcessNumbers
from penstock.rpc.channels import Dial, open_channel

log = logging.getLogger(__name__)

ANSWER_FOR: Final = 2.0
"""Seconds that a process has to answer. Prometheus waits 10 s for all that a gateway tells; one
that hangs must not take the numbers of the others with it."""

MOST: Final = 500
"""Processes that are asked (invariant 12). Of more, the last ones are only counted: an answer takes
a channel that stays open, and some 20 series."""

AT_ONCE: Final = 50
"""Processes that are asked at the same time."""

DialOf = Callable[[str], Dial]
Found = Callable[[], Mapping[str, Iterable[str]]]
"""Tells the addresses of the processes of each service."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What the processes say, and how many of each service are there, and do not answer."""

    told: tuple[ProcessNumbers, ...] = ()
    there: Mapping[str, int] = field(default_factory=dict)
    silent: Mapping[str, int] = field(default_factory=dict)
    left_out: int = 0


class Processes:
    """The processes that there are. Owns a client for each; `close` it."""

    def __init__(self, found: Found, dial: DialOf = lambda _: open_channel) -> None:
        """`found` tells where they are; `dial` opens channels to those of a service."""
        self._found, self._dial = found, dial
        self._clients: dict[tuple[str, str], ProcessClient] = {}
        self._asking = asyncio.Lock()

    async def numbers(self) -> Answers:
        """Return the numbers of all that answer in time."""
        async with self._asking:  # so that nobody's client is closed while it asks
            there = {service: sorted(where) for service, where in self._found().items()}
            found = [(service, address) for service in sorted(there) for address in there[service]]
            asked = found[:MOST]
            await self._forget(asked)
            places = asyncio.Semaphore(AT_ONCE)
            answers = await asyncio.gather(*(self._one(*where, places) for where in asked))
        silent = Counter(
            service for (service, _), answer in zip(asked, answers, strict=True) if answer is None
        )
        return Answers(
            tuple(answer for answer in answers if answer is not None),
            {service: len(addresses) for service, addresses in there.items()},
            silent,
            len(found) - len(asked),
        )

    async def close(self) -> None:
        """Let go of all clients. Idempotent."""
        async with self._asking:
            await self._forget([])

    async def _one(
        self, service: str, address: str, places: asyncio.Semaphore
    ) -> ProcessNumbers | None:
        where = service, address
        async with places:
            try:
                if where not in self._clients:
                    self._clients[where] = ProcessClient(
                        service, address, ANSWER_FOR, self._dial(service)
                    )
                return await self._clients[where].numbers()
            except PenstockError as error:
                log.info("the %s at %s does not tell its numbers: %s", service, address, error)
                return None

    async def _forget(self, but: Iterable[tuple[str, str]]) -> None:
        """Let go of the clients of processes that are gone."""
        for where in self._clients.keys() - set(but):
            await self._clients.pop(where).close()
