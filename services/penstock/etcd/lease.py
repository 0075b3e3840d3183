"""A lease whose holder gives it up, by its own clock, before etcd ends it (self-fencing).

etcd counts the time of a lease from the arrival of a keep-alive. The holder counts from its sending
and gives up a margin earlier, so it stops first, whatever the network does. A process that was
paused may wake up after that time: code calls `held()`, which reads the clock, before it acts. What
slips through even so is fenced by epochs (invariant 4).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable
from typing import Final

from penstock.aio import cancel_and_wait
from penstock.etcd.client import Etcd
from penstock.etcd.settings import LEASE_TTL_S
from penstock.model import faults
from penstock.model.errors import PenstockError

_log = logging.getLogger(__name__)

KEEP_ALIVES_PER_TTL: Final = 6
"""Keep-alives in the time of a lease. When etcd loses its leader, the time since the last one must
suffice for an election: more than three of five seconds. With fewer, leases are lost on a busy
machine; more load etcd for little gain."""

MARGIN: Final = 0.2
"""Fraction of its time that the holder does not use: to stop what it runs, and for clocks that
differ. A smaller margin risks two owners at once; a larger one loses leases in short failures."""

MIN_TTL_S: Final = 2.0
"""etcd grants no shorter lease than its election time-out allows."""

_HEDGE_DELAY_S: Final = 0.3
"""Time after which a second keep-alive is sent beside one without an answer. A member waits up to a
second for a leader before it checks again; a keep-alive that arrives after the election is answered
at once. A shorter delay loads a busy member; a longer one uses up the lease."""

_RETRY_DELAY_S: Final = 0.1
"""Time between keep-alives when one failed."""

Clock = Callable[[], float]


def clock() -> float:
    """Return seconds of a clock that never jumps and also runs while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """A lease that is kept alive until `close`, or until it is lost; a lost lease never comes back.

    The caller of `grant` owns it. `lost` is set when the lease no longer counts as held.
    """

    def __init__(self, client: Etcd, id_: int, ttl_s: float, sent_at: float, now: Clock) -> None:
        """Start to keep alive a lease that was requested at `sent_at`."""
        self.id, self.ttl_s = id_, ttl_s
        self.lost = asyncio.Event()
        self._client, self._now = client, now
        self._deadline = 0.0
        self._keep_alives = 0
        self._closed = False
        self._renew(sent_at, ttl_s)
        loop = asyncio.get_running_loop()
        self._tasks = (loop.create_task(self._keep_alive()), loop.create_task(self._expire()))

    @staticmethod
    async def grant(client: Etcd, ttl_s: float = LEASE_TTL_S, now: Clock = clock) -> Lease:
        """Grant a lease.

        Raises:
            PenstockError: etcd cannot be reached, or refuses.
        """
        sent_at = now()
        id_, granted_s = await client.grant_lease(math.ceil(max(ttl_s, MIN_TTL_S)))
        return Lease(client, id_, float(granted_s), sent_at, now)

    def held(self) -> bool:
        """Return at once, by the clock, whether no other instance can own the keys of the lease."""
        if self._now() >= self._deadline and not faults.hit("etcd.lease_clock"):
            self.lost.set()
        return not self.lost.is_set()

    @property
    def remaining_s(self) -> float:
        """Seconds until it is lost, unless a keep-alive is answered."""
        return max(0.0, self._deadline - self._now())

    def statistics(self) -> dict[str, float]:
        """Return the answered keep-alives and the remaining seconds, by names of metrics."""
        return {"pings": self._keep_alives, "left": self.remaining_s}

    async def close(self) -> None:
        """Revoke it: its keys are removed now, not after its time. Idempotent.

        Raises nothing when etcd cannot be reached: the lease then ends by itself.
        """
        was_held, self._closed = self.held(), True
        self._end()
        if was_held:
            try:
                await self._client.revoke_lease(self.id)
            except PenstockError as error:
                _log.info("lease %x ends by itself: %s", self.id, error)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _renew(self, sent_at: float, ttl_s: float) -> None:
        # of two answers that come at once, the one to the later keep-alive counts
        self._deadline = max(self._deadline, sent_at + ttl_s * (1 - MARGIN))

    def _end(self) -> None:
        self.lost.set()
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()

    async def _expire(self) -> None:
        """Set `lost` on time, even while a keep-alive hangs."""
        while self.held():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.remaining_s):
                    await self.lost.wait()
        if not self._closed:
            _log.warning("lease %x is lost: it could not be renewed in time", self.id)
        self._end()

    async def _keep_alive(self) -> None:
        """Renew the lease several times in its time."""
        while self.held():
            await asyncio.sleep(self.ttl_s / KEEP_ALIVES_PER_TTL)
            await self._renew_once()

    async def _renew_once(self) -> None:
        """Send keep-alives until one is answered, or the lease is lost.

        Those without an answer keep waiting; each has a deadline, so there are only a few.
        """
        waiting: set[asyncio.Task[bool]] = set()
        try:
            while self.held():
                waiting.add(asyncio.create_task(self._send_keep_alive()))
                done, waiting = await asyncio.wait(
                    waiting, timeout=_HEDGE_DELAY_S, return_when=asyncio.FIRST_COMPLETED
                )
                if any([await one for one in done]):
                    return
                if done:
                    await asyncio.sleep(_RETRY_DELAY_S)
        finally:
            await cancel_and_wait(*waiting)

    async def _send_keep_alive(self) -> bool:
        """Send one keep-alive; return whether it was answered."""
        sent_at = self._now()
        timeout_s = min(self._client.settings.call_timeout_s, self.remaining_s)
        try:
            ttl_s = await self._client.keep_alive(self.id, timeout_s)
        except PenstockError as error:
            _log.debug("a keep-alive of lease %x failed: %s", self.id, error)
            return False
        if ttl_s <= 0:
            _log.warning("lease %x is lost: etcd has ended it", self.id)
            self._end()
        elif self.held():  # an answer that comes too late renews nothing
            self._renew(sent_at, float(ttl_s))
            self._keep_alives += 1
        return True
