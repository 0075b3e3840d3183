"""The services that requests are carried out by: their clients, every worker, every process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, TypeVar

from fastapi import Depends, Request

from penstock.client import ConfigClient, OffsetClient, ProcessClient, SchedulerClient, WorkerClient
from penstock.model.errors import PenstockError, RetriableError
from penstock.model.metrics import ProcessNumbers
from penstock.rpc.channels import Dial, open_channel

log = logging.getLogger(__name__)


PROCESS_TIMEOUT_S: Final = 2.0
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
                        service, address, PROCESS_TIMEOUT_S, self._dial(service)
                    )
                return await self._clients[where].numbers()
            except PenstockError as error:
                log.info("the %s at %s does not tell its numbers: %s", service, address, error)
                return None

    async def _forget(self, but: Iterable[tuple[str, str]]) -> None:
        """Let go of the clients of processes that are gone."""
        for where in self._clients.keys() - set(but):
            await self._clients.pop(where).close()


_T = TypeVar("_T")

WORKER_TIMEOUT_S: Final = 15.0
"""Seconds that a worker has to answer. One that hangs must not hold up what the others know; and a
plugin that hangs has 10 s to check a configuration, so the worker is still heard saying so."""


KEPT: Final = 60.0
"""Seconds that the client of a worker is kept which is not listed any more."""


class Workers:
    """The workers that take part. Owns a client for each; `close` it."""

    def __init__(self, scheduler: SchedulerClient, dial: Dial = open_channel) -> None:
        """`scheduler` tells which workers there are; `dial` opens channels to them."""
        self._scheduler, self._dial = scheduler, dial
        self._clients: dict[str, WorkerClient] = {}
        self._seen: dict[str, float] = {}

    async def addresses(self) -> list[str]:
        """Return where the workers are that have a session."""
        cluster = await self._scheduler.cluster()
        return [worker.address for worker in cluster.workers if worker.connected]

    async def each(self, call: Callable[[WorkerClient], Awaitable[_T]]) -> list[_T]:
        """Return the answers of all workers that answer, in order of their ids.

        Raises:
            RetriableError: `gateway.no_worker`: there is none, or none answers.
            PenstockError: the refusal of the first one, when all refuse.
        """
        found = await self.addresses()
        await self._forget(found)
        answers = await asyncio.gather(*(self._one(a, call) for a in found), return_exceptions=True)
        good, refused = [], []
        for address, answer in zip(found, answers, strict=True):
            if isinstance(answer, PenstockError):
                log.warning("worker at %s: %s", address, answer)
                refused.append(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                good.append(answer)
        if not good:
            raise refused[0] if refused else _no_worker()
        return good

    async def first(self, call: Callable[[WorkerClient], Awaitable[_T]]) -> _T:
        """Return the answer of the first worker that has one: what one has not installed, another
        may have.

        Raises:
            RetriableError: `gateway.no_worker`: there is none.
            PenstockError: the refusal of the last one, when all refuse.
        """
        found = await self.addresses()
        await self._forget(found)
        refused: PenstockError = _no_worker()
        for address in found:
            try:
                return await self._one(address, call)
            except PenstockError as error:
                log.debug("worker at %s: %s", address, error)
                refused = error
        raise refused

    async def any(self) -> WorkerClient:
        """Return a worker.

        Raises:
            RetriableError: `gateway.no_worker`: there is none.
        """
        found = await self.addresses()
        await self._forget(found)
        if not found:
            raise _no_worker()
        return self.at(found[0])

    def at(self, address: str) -> WorkerClient:
        """Return the worker at an address; its client stays ours."""
        if address not in self._clients:
            self._clients[address] = WorkerClient(address, WORKER_TIMEOUT_S, self._dial)
        return self._clients[address]

    async def close(self) -> None:
        """Let go of all clients. Idempotent."""
        while self._clients:
            _, client = self._clients.popitem()
            await client.close()

    async def _one(self, address: str, call: Callable[[WorkerClient], Awaitable[_T]]) -> _T:
        return await call(self.at(address))

    async def _forget(self, but: list[str]) -> None:
        """Let go of the clients of workers that have not been listed for a while. Another request
        may have an older list, or do the same: so nothing is closed at once, or twice.
        """
        now = time.monotonic()
        self._seen.update(dict.fromkeys(but, now))
        for address in list(self._clients):
            if now - self._seen.setdefault(address, now) < KEPT:
                continue
            client = self._clients.pop(address, None)
            if client is not None:
                del self._seen[address]
                await client.close()


def _no_worker() -> RetriableError:
    return RetriableError(
        "gateway.no_worker",
        "no worker takes part in the cluster",
        fix="Start one: `penstock worker`; or see why those that run are not connected.",
        retry_after=1.0,
    )


@dataclass(frozen=True, slots=True)
class Asks:
    """Clients of the services; whoever made them closes them."""

    config: ConfigClient
    offset: OffsetClient
    scheduler: SchedulerClient
    workers: Workers
    processes: Processes


def _asks(request: Request) -> Asks:
    asks: Asks = request.app.state.asks
    return asks


Services = Annotated[Asks, Depends(_asks)]
"""What a route asks, as a parameter of it."""
