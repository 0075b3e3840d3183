"""Leader election: the candidate that creates the key leads.

The create revision of the key is the fencing token.

The key is bound to the lease of the leader and is not put again while it leads. So its create
revision is unique and larger than those of all earlier leaders. Each write of a leader compares it
in the same transaction (`Leadership.write`): etcd itself refuses a late write of an old leader
(invariant 4).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.aio import cancel_and_wait
from penstock.api.etcd.v3 import etcd_pb2 as pb
from penstock.etcd import operations
from penstock.etcd.client import Etcd
from penstock.etcd.lease import Clock, Lease, clock
from penstock.etcd.operations import KeyValue, RangeResult, TxnResult
from penstock.etcd.settings import LEASE_TTL_S
from penstock.model import faults
from penstock.model.errors import FencedError, InternalError, RetriableError

_log = logging.getLogger(__name__)

_ELECTIONS: Final = "elections/"

_RETRY_DELAY_S: Final = 0.2
"""Time between attempts of a candidate when etcd does not answer."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader: its address, and the revision of its election."""

    address: str
    revision: int


class Leadership:
    """A won election, until `resign` or `lost`. The caller of `Election.campaign` owns it."""

    def __init__(self, client: Etcd, key: str, revision: int, lease: Lease) -> None:
        """Starts to watch the key."""
        self.key, self.revision, self.lease = key, revision, lease
        self._client = client
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    @property
    def lost(self) -> asyncio.Event:
        """Set when another instance may lead: by our own clock, or because the key was removed."""
        return self.lease.lost

    def held(self) -> bool:
        """Return at once, by the clock, whether no other instance can lead. Call before acting."""
        return self.lease.held()

    def check(self) -> None:
        """Raise when another instance may lead, by the clock.

        Raises:
            FencedError: `election.not_leader`.
        """
        if not self.held():
            raise _not_leader(self.key, None)

    def condition(self) -> pb.Compare:
        """Return the condition of a transaction that this instance leads."""
        return operations.create_revision_is(self.key, self.revision)

    async def write(
        self, then: Sequence[pb.RequestOp], conditions: Sequence[pb.Compare] = ()
    ) -> TxnResult:
        """Make operations if this instance still leads and the other conditions hold.

        Raises:
            FencedError: `election.not_leader`, naming the current leader.
            OutcomeUnknownError: no answer came.
        """
        self.check()
        fence = [] if faults.hit("etcd.leader_check") else [self.condition()]
        done = await self._client.txn(
            [*fence, *conditions], then, [operations.read(self.key)], stage="write as the leader"
        )
        if not done.succeeded:
            self.verify(done.reads[0])
        return done

    def verify(self, read: RangeResult) -> None:
        """Check, by a read of the key in a transaction, that this instance leads.

        Raises:
            FencedError: `election.not_leader`, naming the current leader.
        """
        holder = read.entries[0] if read.entries else None
        if holder is None or holder.create_revision != self.revision:
            self.lost.set()
            raise _not_leader(self.key, holder)

    async def resign(self) -> None:
        """Stop leading: another instance is elected within milliseconds. Idempotent."""
        await cancel_and_wait(self._watching)
        await self.lease.close()

    async def _watch(self) -> None:
        """End the lease when the key is removed while the lease is alive."""
        async for snapshot in self._client.snapshots(self.key, exact=True):
            if not snapshot.entries or snapshot.entries[0].create_revision != self.revision:
                _log.warning("%s was removed or taken over", self.key)
                await self.lease.close()
                return


class Election:
    """An election with any number of candidates."""

    def __init__(
        self,
        client: Etcd,
        name: str,
        address: str,
        ttl_s: float = LEASE_TTL_S,
        now: Clock = clock,
    ) -> None:
        """`address`: the address of this candidate, which other instances see when it wins."""
        self.key = f"{client.prefix}{_ELECTIONS}{name}"
        self._client, self._address = client, address
        self._ttl_s, self._now = ttl_s, now

    async def campaign(self) -> Leadership:
        """Wait until this instance is elected, also while etcd is unavailable.

        Raises:
            PenstockError: etcd refuses (credentials, permissions), or the client was closed.
        """
        while True:
            await self._wait_for_vacancy()
            try:
                leadership = await self._try_to_win()
            except RetriableError as error:
                _log.warning("cannot campaign for %s: %s", self.key, error.diagnostic.message)
                await asyncio.sleep(_RETRY_DELAY_S)
                continue
            if leadership is not None:
                return leadership

    async def leader(self) -> Leader | None:
        """Return the current leader; None while there is none."""
        result = await self._client.get(self.key)
        return _leader(result.entries)

    async def observe(self) -> AsyncIterator[Leader | None]:
        """Yield the leader, and again whenever it changes; None while there is none."""
        last: Leader | bool | None = False
        async for snapshot in self._client.snapshots(self.key, exact=True):
            leader = _leader(snapshot.entries)
            if leader != last:
                last = leader
                yield leader

    async def _wait_for_vacancy(self) -> None:
        async for snapshot in self._client.snapshots(self.key, exact=True):
            if not snapshot.entries:
                return
        raise InternalError(
            "etcd.closed", f"the client was closed while it campaigned for {self.key}"
        )

    async def _try_to_win(self) -> Leadership | None:
        """Grant a lease and try to create the key with it."""
        lease = await Lease.grant(self._client, self._ttl_s, self._now)
        leadership = None
        try:
            leadership = await self._create_key(lease)
        finally:
            if leadership is None:
                await asyncio.shield(lease.close())
        return leadership

    async def _create_key(self, lease: Lease) -> Leadership | None:
        """Create the key; return None when another candidate was faster.

        The transaction may happen twice: when the key has our lease, the first one has won.
        """
        done = await self._client.txn(
            [operations.create_revision_is(self.key, 0)],
            [operations.put(self.key, self._address.encode(), lease.id)],
            [operations.read(self.key)],
            stage="campaign",
            repeat=True,
        )
        revision = done.revision
        if not done.succeeded:
            (read,) = done.reads
            if not read.entries or read.entries[0].lease != lease.id:
                return None
            revision = read.entries[0].create_revision
        if not lease.held():
            return None
        return Leadership(self._client, self.key, revision, lease)


def _leader(entries: Sequence[KeyValue]) -> Leader | None:
    return Leader(entries[0].value.decode(), entries[0].create_revision) if entries else None


def _not_leader(key: str, holder: KeyValue | None) -> FencedError:
    who = f"{holder.value.decode()} leads" if holder else "no leader is known"
    name = key.rpartition("/")[2]
    return FencedError(
        "election.not_leader",
        f"this instance no longer leads `{name}`; {who}",
        fix="Send the request to the leader." if holder else "Try again after the election.",
    )
