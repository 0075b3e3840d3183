"""Asks every worker: what is installed, or how its loggers are, is not the same on all of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from penstock.client import SchedulerClient, WorkerClient
from penstock.model.errors import PenstockError, RetriableError
from penstock.rpc.channels import Dial, open_channel

log = logging.getLogger(__name__)

_T = TypeVar("_T")

ANSWER_FOR: Final = 15.0
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
            self._clients[address] = WorkerClient(address, ANSWER_FOR, self._dial)
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
