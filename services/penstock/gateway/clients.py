"""Clients of the services that carry out requests, and the fan-out to all workers and processes."""

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
from penstock.model.metrics import ProcessMetrics
from penstock.rpc.channels import Dial, open_channel

log = logging.getLogger(__name__)


PROCESS_TIMEOUT_S: Final = 2.0
"""Seconds for the answer of a process. Prometheus waits 10 s for a whole scrape; a process that
hangs must not delay the metrics of the others."""

MAX_PROCESSES: Final = 500
"""Processes that are called for metrics (invariant 12). The rest are only counted: each call keeps
a channel open and adds some 20 series."""

MAX_CONCURRENT_CALLS: Final = 50
"""Processes that are called at the same time."""

DialOf = Callable[[str], Dial]
FindAddresses = Callable[[], Mapping[str, Iterable[str]]]
"""Returns the addresses of the processes of each service."""


@dataclass(frozen=True, slots=True)
class ProcessReports:
    """Metrics of processes. By service: how many processes are known, and how many did not answer.

    `left_out` is the number of processes that were not called.
    """

    reports: tuple[ProcessMetrics, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    silent: Mapping[str, int] = field(default_factory=dict)
    left_out: int = 0


class Processes:
    """All processes of all services. Owns a client for each; `close` it."""

    def __init__(
        self, find_addresses: FindAddresses, dial: DialOf = lambda _: open_channel
    ) -> None:
        """`dial` returns the function that opens channels to processes of a service."""
        self._find_addresses, self._dial = find_addresses, dial
        self._clients: dict[tuple[str, str], ProcessClient] = {}
        self._lock = asyncio.Lock()

    async def collect_metrics(self) -> ProcessReports:
        """Return the metrics of all processes that answer in time."""
        async with self._lock:  # so that no client is closed during its call
            found = {service: sorted(where) for service, where in self._find_addresses().items()}
            processes = [
                (service, address) for service in sorted(found) for address in found[service]
            ]
            called = processes[:MAX_PROCESSES]
            await self._close_others(called)
            limiter = asyncio.Semaphore(MAX_CONCURRENT_CALLS)
            answers = await asyncio.gather(*(self._call(*process, limiter) for process in called))
        silent = Counter(
            service for (service, _), answer in zip(called, answers, strict=True) if answer is None
        )
        return ProcessReports(
            tuple(answer for answer in answers if answer is not None),
            {service: len(addresses) for service, addresses in found.items()},
            silent,
            len(processes) - len(called),
        )

    async def close(self) -> None:
        """Close all clients. Idempotent."""
        async with self._lock:
            await self._close_others([])

    async def _call(
        self, service: str, address: str, limiter: asyncio.Semaphore
    ) -> ProcessMetrics | None:
        process = service, address
        async with limiter:
            try:
                if process not in self._clients:
                    self._clients[process] = ProcessClient(
                        service, address, PROCESS_TIMEOUT_S, self._dial(service)
                    )
                return await self._clients[process].list_metrics()
            except PenstockError as error:
                log.info("no metrics from the %s at %s: %s", service, address, error)
                return None

    async def _close_others(self, kept: Iterable[tuple[str, str]]) -> None:
        """Close the clients of all processes except `kept`."""
        for process in self._clients.keys() - set(kept):
            await self._clients.pop(process).close()


_T = TypeVar("_T")

WORKER_TIMEOUT_S: Final = 15.0
"""Seconds for the answer of a worker. A worker that hangs must not delay the answers of the others.
A plugin has 10 s to validate a configuration, so the worker can still report that it hangs."""


IDLE_CLIENT_TTL_S: Final = 60.0
"""Seconds that the client of a worker is kept after the worker was listed last."""


class Workers:
    """The workers of the cluster. Owns a client for each; `close` it."""

    def __init__(self, scheduler: SchedulerClient, dial: Dial = open_channel) -> None:
        """`scheduler` lists the workers; `dial` opens channels to them."""
        self._scheduler, self._dial = scheduler, dial
        self._clients: dict[str, WorkerClient] = {}
        self._seen: dict[str, float] = {}

    async def addresses(self) -> list[str]:
        """Return the addresses of the workers that have a session."""
        cluster = await self._scheduler.get_cluster()
        return [worker.address for worker in cluster.workers if worker.connected]

    async def call_all(self, call: Callable[[WorkerClient], Awaitable[_T]]) -> list[_T]:
        """Call all workers. Returns the answers of those that succeed, ordered by worker id.

        Raises:
            RetriableError: `gateway.no_worker`: the cluster has no worker.
            PenstockError: the error of the first worker, when all fail.
        """
        found = await self.addresses()
        await self._close_others(found)
        answers = await asyncio.gather(
            *(self._call(a, call) for a in found), return_exceptions=True
        )
        results, refusals = [], []
        for address, answer in zip(found, answers, strict=True):
            if isinstance(answer, PenstockError):
                log.warning("worker at %s: %s", address, answer)
                refusals.append(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                results.append(answer)
        if not results:
            raise refusals[0] if refusals else _no_worker()
        return results

    async def call_first(self, call: Callable[[WorkerClient], Awaitable[_T]]) -> _T:
        """Call one worker after the other until one succeeds, and return its answer.

        A plugin that one worker has not installed may be installed on another.

        Raises:
            RetriableError: `gateway.no_worker`: the cluster has no worker.
            PenstockError: the error of the last worker, when all fail.
        """
        found = await self.addresses()
        await self._close_others(found)
        failure: PenstockError = _no_worker()
        for address in found:
            try:
                return await self._call(address, call)
            except PenstockError as error:
                log.debug("worker at %s: %s", address, error)
                failure = error
        raise failure

    async def get_any(self) -> WorkerClient:
        """Return the client of any worker.

        Raises:
            RetriableError: `gateway.no_worker`: the cluster has no worker.
        """
        found = await self.addresses()
        await self._close_others(found)
        if not found:
            raise _no_worker()
        return self.client_at(found[0])

    def client_at(self, address: str) -> WorkerClient:
        """Return the client of the worker at an address. The caller must not close it."""
        if address not in self._clients:
            self._clients[address] = WorkerClient(address, WORKER_TIMEOUT_S, self._dial)
        return self._clients[address]

    async def close(self) -> None:
        """Close all clients. Idempotent."""
        while self._clients:
            _, client = self._clients.popitem()
            await client.close()

    async def _call(self, address: str, call: Callable[[WorkerClient], Awaitable[_T]]) -> _T:
        return await call(self.client_at(address))

    async def _close_others(self, listed: list[str]) -> None:
        """Close the clients of workers that were not listed for IDLE_CLIENT_TTL_S.

        A concurrent request may have an older list, so a client is not closed immediately. It may
        also run this method, so a client is removed before it is closed.
        """
        now = time.monotonic()
        self._seen.update(dict.fromkeys(listed, now))
        for address in list(self._clients):
            if now - self._seen.setdefault(address, now) < IDLE_CLIENT_TTL_S:
                continue
            client = self._clients.pop(address, None)
            if client is not None:
                del self._seen[address]
                await client.close()


def _no_worker() -> RetriableError:
    return RetriableError(
        "gateway.no_worker",
        "the cluster has no worker",
        fix="Start one with `penstock worker`, or find out why the running workers are not "
        "connected.",
        retry_after_s=1.0,
    )


@dataclass(frozen=True, slots=True)
class ServiceClients:
    """Clients of the services. The caller that created them closes them."""

    config: ConfigClient
    offset: OffsetClient
    scheduler: SchedulerClient
    workers: Workers
    processes: Processes


def _get_clients(request: Request) -> ServiceClients:
    clients: ServiceClients = request.app.state.clients
    return clients


Clients = Annotated[ServiceClients, Depends(_get_clients)]
"""A route parameter: the clients of the services."""
