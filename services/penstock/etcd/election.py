"""One leader: whoever creates the key. Its create revision is the fencing token.

The key hangs on the leader's lease and is never put again while it leads, so that its revision is
the one it was created at: unique, and larger than that of every leader before. A write of the
leader compares it in the same transaction (`Leadership.write`): an old leader's late write is
refused by etcd itself (invariant 4).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.api.etcd.v3 import etcd_pb2 as pb
from penstock.etcd import ops
from penstock.etcd.client import Etcd
from penstock.etcd.lease import Clock, Lease, clock
from penstock.etcd.ops import Done, Found, Kv
from penstock.etcd.settings import LEASE_TTL
from penstock.etcd.snapshots import hints
from penstock.model import faults
from penstock.model.errors import FencedError, InternalError, RetriableError

log = logging.getLogger(__name__)

_PLACE: Final = "elections/"

_PAUSE: Final = 0.2
"""Seconds between attempts of a candidate that etcd did not answer."""


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads: its address, and the revision it was elected at."""

    address: str
    revision: int


class Leadership:
    """Being the leader, until `resign` or `lost`. Whoever called `Election.campaign` owns it."""

    def __init__(self, client: Etcd, key: str, revision: int, lease: Lease) -> None:
        """Begin to lead; watches that the key stays."""
        self.key, self.revision, self.lease = key, revision, lease
        self._client = client
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    @property
    def lost(self) -> asyncio.Event:
        """Set when another may lead, by our own clock or because the key is gone."""
        return self.lease.lost

    def held(self) -> bool:
        """Tell whether nobody else can lead, by the clock, at once. Ask before acting."""
        return self.lease.held()

    def check(self) -> None:
        """Refuse to act when another may lead, by the clock.

        Raises:
            FencedError: `election.not_leader`.
        """
        if not self.held():
            raise _not_leader(self.key, None)

    def still(self) -> pb.Compare:
        """Return the condition that we lead, for a transaction."""
        return ops.created(self.key, self.revision)

    async def write(
        self, then: Sequence[pb.RequestOp], conditions: Sequence[pb.Compare] = ()
    ) -> Done:
        """Do operations if we still lead and the other conditions hold.

        Raises:
            FencedError: `election.not_leader`, naming the present leader.
            OutcomeUnknownError: no answer came.
        """
        self.check()
        mine = [] if faults.hit("etcd.leader_check") else [self.still()]
        done = await self._client.txn(
            [*mine, *conditions], then, [ops.read(self.key)], stage="write as the leader"
        )
        if not done.succeeded:
            self.verify(done.found[0])
        return done

    def verify(self, now: Found) -> None:
        """Look whether we lead, by what a transaction of ours has read of the key.

        Raises:
            FencedError: `election.not_leader`, naming the present leader.
        """
        holder = now.entries[0] if now.entries else None
        if holder is None or holder.created != self.revision:
            self.lost.set()
            raise _not_leader(self.key, holder)

    async def resign(self) -> None:
        """Stop leading: another is elected within milliseconds. Idempotent."""
        self._watching.cancel()
        await self.lease.close()
        await asyncio.gather(self._watching, return_exceptions=True)

    async def _watch(self) -> None:
        """Notice when the key was taken away while the lease lives."""
        async for found in hints(self._client, self.key, exact=True):
            if not found.entries or found.entries[0].created != self.revision:
                log.warning("%s was taken from us", self.key)
                await self.lease.close()
                return


class Election:
    """A contest for one place, of any number of candidates."""

    def __init__(
        self, client: Etcd, name: str, address: str, ttl: float = LEASE_TTL, now: Clock = clock
    ) -> None:
        """Prepare to stand for `name`; `address` is what others learn of the winner."""
        self.key = f"{client.prefix}{_PLACE}{name}"
        self._client, self._address = client, address
        self._ttl, self._now = ttl, now

    async def campaign(self) -> Leadership:
        """Wait, for as long as it takes, until we lead. Etcd may come and go meanwhile.

        Raises:
            PenstockError: etcd refuses (credentials, permissions), or the client was closed.
        """
        while True:
            await self._vacancy()
            try:
                leadership = await self._stand()
            except RetriableError as error:
                log.warning("cannot stand for %s: %s", self.key, error.diagnostic.message)
                await asyncio.sleep(_PAUSE)
                continue
            if leadership is not None:
                return leadership

    async def leader(self) -> Leader | None:
        """Return who leads now."""
        found = await self._client.get(self.key)
        return _leader(found.entries)

    async def observe(self) -> AsyncIterator[Leader | None]:
        """Tell who leads, and again whenever that changes; None while nobody does."""
        told: Leader | bool | None = False
        async for found in hints(self._client, self.key, exact=True):
            leader = _leader(found.entries)
            if leader != told:
                told = leader
                yield leader

    async def _vacancy(self) -> None:
        async for found in hints(self._client, self.key, exact=True):
            if not found.entries:
                return
        raise InternalError("etcd.closed", f"the client was closed while it waited for {self.key}")

    async def _stand(self) -> Leadership | None:
        """Make a lease, and try to be the first."""
        lease = await Lease.grant(self._client, self._ttl, self._now)
        leadership = None
        try:
            leadership = await self._take(lease)
        finally:
            if leadership is None:
                await asyncio.shield(lease.close())
        return leadership

    async def _take(self, lease: Lease) -> Leadership | None:
        """Create the key; None when another was faster.

        It may happen twice: whoever finds its own lease on the key has won before.
        """
        done = await self._client.txn(
            [ops.created(self.key, 0)],
            [ops.put(self.key, self._address.encode(), lease.id)],
            [ops.read(self.key)],
            stage="campaign",
            repeat=True,
        )
        revision = done.revision
        if not done.succeeded:
            (now,) = done.found
            if not now.entries or now.entries[0].lease != lease.id:
                return None
            revision = now.entries[0].created
        if not lease.held():
            return None
        return Leadership(self._client, self.key, revision, lease)


def _leader(entries: Sequence[Kv]) -> Leader | None:
    return Leader(entries[0].value.decode(), entries[0].created) if entries else None


def _not_leader(key: str, holder: Kv | None) -> FencedError:
    who = f"{holder.value.decode()} leads" if holder else "nobody is known to lead"
    name = key.rpartition("/")[2]
    return FencedError(
        "election.not_leader",
        f"this instance does not lead `{name}` any more; {who}",
        fix="Send the request to the leader." if holder else "Try again after the election.",
    )
