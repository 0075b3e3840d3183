"""A lease that knows by its own clock when it may no longer be believed (self-fencing).

etcd counts a lease's time from when a ping arrives, the holder from when it sent it, and gives up
a margin earlier: so the holder stops first, whatever the network does. A process that was paused
wakes up after its time, so whoever is about to act asks `held()`, which looks at the clock, and
does not wait to be told. What slips through even so is fenced by epochs (invariant 4).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable
from typing import Final

from penstock.etcd.client import Etcd
from penstock.etcd.settings import LEASE_TTL
from penstock.model import faults
from penstock.model.errors import PenstockError

log = logging.getLogger(__name__)

PINGS: Final = 6
"""Pings in a lease's time. When etcd loses its leader, what is left since the last one has to be
enough for an election: of five seconds more than three. Fewer lose leases on a busy machine; more
ask etcd more often than they gain."""

MARGIN: Final = 0.2
"""Part of a lease's time that the holder does not use: to stop what it runs, and for clocks that
differ. Smaller risks two owners at once; larger loses the lease in short troubles."""

SHORTEST: Final = 2.0
"""Seconds; etcd grants no shorter lease than its election time-out allows."""

_AGAIN: Final = 0.3
"""Seconds until a ping without an answer gets another one beside it. A member waits up to a second
for a leader before it looks again; one that is asked after the election answers at once. Shorter
asks a busy member more often than it needs; longer uses up the lease."""

_RETRY: Final = 0.1
"""Seconds between pings when one failed."""

Clock = Callable[[], float]


def clock() -> float:
    """Return seconds that never jump, and pass also while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """A lease that pings itself until `close`, or until it is lost, which is for ever.

    Owned by whoever called `grant`. `lost` is set when it may no longer be believed.
    """

    def __init__(self, client: Etcd, id_: int, ttl: float, sent: float, now: Clock) -> None:
        """Take what `grant` was answered; begin to ping."""
        self.id, self.ttl = id_, ttl
        self.lost = asyncio.Event()
        self._client, self._now = client, now
        self._deadline = 0.0
        self._pings = 0
        self._closed = False
        self._renew(sent, ttl)
        loop = asyncio.get_running_loop()
        self._tasks = (loop.create_task(self._ping()), loop.create_task(self._expire()))

    @staticmethod
    async def grant(client: Etcd, ttl: float = LEASE_TTL, now: Clock = clock) -> Lease:
        """Make a lease.

        Raises:
            PenstockError: etcd cannot be reached, or refuses.
        """
        sent = now()
        id_, granted = await client.grant(math.ceil(max(ttl, SHORTEST)))
        return Lease(client, id_, float(granted), sent, now)

    def held(self) -> bool:
        """Tell whether nobody else can own what hangs on the lease, by the clock, at once."""
        if self._now() >= self._deadline and not faults.hit("etcd.lease_clock"):
            self.lost.set()
        return not self.lost.is_set()

    @property
    def left(self) -> float:
        """Seconds until it is lost unless a ping is answered."""
        return max(0.0, self._deadline - self._now())

    def statistics(self) -> dict[str, float]:
        """Return how many pings were answered, and how much time is left."""
        return {"pings": self._pings, "left": self.left}

    async def close(self) -> None:
        """Give it back: its keys are removed now, not after its time. Idempotent.

        When etcd cannot be reached it ends by itself, so nothing is raised.
        """
        was_held, self._closed = self.held(), True
        self._end()
        if was_held:
            try:
                await self._client.revoke(self.id)
            except PenstockError as error:
                log.info("lease %x ends by itself: %s", self.id, error)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _renew(self, sent: float, ttl: float) -> None:
        # of two answers that come at once, the one to the later ping counts
        self._deadline = max(self._deadline, sent + ttl * (1 - MARGIN))

    def _end(self) -> None:
        self.lost.set()
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()

    async def _expire(self) -> None:
        """Signal the loss on time, even while a ping hangs."""
        while self.held():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.left):
                    await self.lost.wait()
        if not self._closed:
            log.warning("lease %x is lost: it could not be renewed in time", self.id)
        self._end()

    async def _ping(self) -> None:
        """Renew the lease a few times in its time."""
        while self.held():
            await asyncio.sleep(self.ttl / PINGS)
            await self._renewed()

    async def _renewed(self) -> None:
        """Ping until one is answered, or the lease is lost. Pings without an answer are left to
        wait: each has a deadline, so there are only a few of them.
        """
        waiting: set[asyncio.Task[bool]] = set()
        try:
            while self.held():
                waiting.add(asyncio.create_task(self._pinged()))
                done, waiting = await asyncio.wait(
                    waiting, timeout=_AGAIN, return_when=asyncio.FIRST_COMPLETED
                )
                if any([await one for one in done]):
                    return
                if done:
                    await asyncio.sleep(_RETRY)
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _pinged(self) -> bool:
        """Ping once; tells whether that was answered."""
        sent = self._now()
        timeout = min(self._client.settings.call_timeout, self.left)
        try:
            ttl = await self._client.ping(self.id, timeout)
        except PenstockError as error:
            log.debug("a ping of lease %x failed: %s", self.id, error)
            return False
        if ttl <= 0:
            log.warning("lease %x is lost: etcd has ended it", self.id)
            self._end()
        elif self.held():  # an answer that came too late renews nothing
            self._renew(sent, float(ttl))
            self._pings += 1
        return True
