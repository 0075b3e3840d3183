"""Members of a cluster: registering an instance, and discovering the instances of a service.

An instance is a member while its key is in etcd. The key is bound to a lease and is put again
whenever the lease was lost:

membership = Membership(client, "worker", "w1", Member("10.0.0.7:7001"))
membership.start()
while True:
    registration = await membership.wait_until_registered()
    …                                      # take part; check registration.held() before acting
    await registration.lost.wait()
    …                                      # stop what runs: another instance may own it now

`Discovery` has the members of a service as last listed (invariant 7). While etcd is unavailable the
last list stays, so services continue to call the members that they know.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from penstock.aio import cancel_and_wait
from penstock.etcd import operations
from penstock.etcd.client import LIST_INTERVAL_S, Etcd
from penstock.etcd.lease import Clock, Lease, clock
from penstock.etcd.operations import KeyValue
from penstock.etcd.settings import LEASE_TTL_S
from penstock.model.errors import ConfigError, PenstockError, RetriableError

_log = logging.getLogger(__name__)

MEMBERS: Final = "members/"
"""Prefix of the keys of members, below that of the cluster."""

_RETRY_DELAY_S: Final = 0.5
"""Time between attempts to register; also between checks whether a namesake has ended."""

Confirm = Callable[[], Awaitable[None]]

_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Member:
    """An instance as other instances see it: its address and its labels."""

    address: str
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)

    def encode(self) -> bytes:
        """Return the value of its key in etcd."""
        return json.dumps({"address": self.address, "labels": dict(self.labels)}).encode()

    @staticmethod
    def decode(value: bytes) -> Member:
        """Return the member in a value; unknown fields of a newer version are ignored."""
        fields = json.loads(value)
        return Member(str(fields["address"]), dict(fields.get("labels", {})))


@dataclass(frozen=True, slots=True)
class Registration:
    """One registration of an instance. `revision` is that of its key; later ones are larger."""

    lease: Lease
    revision: int

    @property
    def lost(self) -> asyncio.Event:
        """Set when other instances may consider this one lost."""
        return self.lease.lost

    def held(self) -> bool:
        """Return at once, by the clock, whether other instances still see this one."""
        return self.lease.held()


class Membership:
    """Keeps one instance registered from `start` until `stop`. Its service owns it."""

    def __init__(
        self,
        client: Etcd,
        service: str,
        id_: str,
        member: Member,
        ttl_s: float = LEASE_TTL_S,
        now: Clock = clock,
        confirm: Confirm | None = None,
    ) -> None:
        """The key is `members/<service>/<id>`. `confirm` is called after each registration, before
        it counts: for checks that only a member can make. It raises to refuse.
        """
        self.key = f"{client.prefix}{MEMBERS}{service}/{id_}"
        self._client, self._member = client, member
        self._ttl_s, self._now, self._confirm = ttl_s, now, confirm
        self._registrations = 0
        self._keep_alives = 0.0
        self._lease: Lease | None = None
        self._current: asyncio.Future[Registration] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to register."""
        self._current = asyncio.get_running_loop().create_future()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def wait_until_registered(self) -> Registration:
        """Wait until the instance is a member, also while etcd is unavailable.

        Raises:
            PenstockError: `member.taken`: a running instance has this id; or the error of a
                refusal of etcd; or the error that `confirm` raised.
        """
        while True:
            if self._current is None:
                raise RuntimeError("the membership was not started")
            registration = await asyncio.shield(self._current)
            if registration.held():
                return registration
            await asyncio.sleep(0)  # `_run` then sets a new future

    def statistics(self) -> dict[str, float]:
        """Return the registrations, the answered keep-alives, and the remaining seconds of the
        lease, by the names of the metrics.
        """
        now = {"pings": 0.0, "left": 0.0} if self._lease is None else self._lease.statistics()
        keep_alives = self._keep_alives + now["pings"]
        return {"registrations": self._registrations, **now, "pings": keep_alives}

    async def stop(self) -> None:
        """Leave: other instances see it within milliseconds. Idempotent."""
        if self._task is not None:
            await cancel_and_wait(self._task)

    async def _run(self) -> None:
        """Register, wait for the loss, register again."""
        loop = asyncio.get_running_loop()
        while True:
            current = self._current = self._current or loop.create_future()
            try:
                registration = await self._register()
            except PenstockError as error:
                current.set_exception(error)
                current.exception()  # retrieved here, because no caller may be waiting
                return
            self._registrations += 1
            self._lease = registration.lease
            current.set_result(registration)
            try:
                await registration.lost.wait()
            finally:
                self._keep_alives += self._lease.statistics()["pings"]
                self._lease = None
                self._current = loop.create_future()
                await asyncio.shield(registration.lease.close())
            _log.warning("%s is registered again", self.key)

    async def _register(self) -> Registration:
        namesake_until = self._now() + 2 * self._ttl_s
        while True:
            try:
                registration = await self._try_to_register()
            except RetriableError as error:
                _log.warning("cannot register %s: %s", self.key, error.diagnostic.message)
                namesake_until = self._now() + 2 * self._ttl_s
            else:
                if isinstance(registration, Registration):
                    return registration
                if self._now() > namesake_until:
                    raise _id_taken(self.key, registration)
            await asyncio.sleep(_RETRY_DELAY_S)

    async def _try_to_register(self) -> Registration | KeyValue:
        """Create the key; return the existing key when a namesake has it."""
        lease = await Lease.grant(self._client, self._ttl_s, self._now)
        keeps_lease = False
        try:
            registration = await self._create_key(lease)
            if self._confirm and isinstance(registration, Registration):
                await self._confirm()
            keeps_lease = isinstance(registration, Registration)
        finally:
            if not keeps_lease:
                await asyncio.shield(lease.close())
        return registration

    async def _create_key(self, lease: Lease) -> Registration | KeyValue:
        done = await self._client.txn(
            [operations.create_revision_is(self.key, 0)],
            [operations.put(self.key, self._member.encode(), lease.id)],
            [operations.read(self.key)],
            stage="register",
            repeat=True,
        )
        if done.succeeded:
            return Registration(lease, done.revision)
        (holder,) = done.reads[0].entries
        if holder.lease == lease.id:  # the answer to an earlier attempt was lost
            return Registration(lease, holder.create_revision)
        return holder


def _id_taken(key: str, holder: KeyValue) -> ConfigError:
    address = Member.decode(holder.value).address
    return ConfigError(
        "member.taken",
        f"`{key}` belongs to a running instance at {address}: two instances have the same id, or "
        "two clusters the same name",
        fix="Give every instance its own id, and every Penstock cluster in one etcd its own name.",
        config_path="instance.id",
    )


@dataclass(frozen=True, slots=True)
class Members:
    """The members of a service by id, as they were at a revision."""

    revision: int
    members: Mapping[str, Member]


_NO_MEMBERS = Members(0, MappingProxyType({}))


class Discovery:
    """Follows the members of one service from `start` until `stop`. Its creator owns it."""

    def __init__(self, client: Etcd, service: str, interval_s: float = LIST_INTERVAL_S) -> None:
        """`interval_s`: the time after which the members are listed also without a hint."""
        self._client, self._service, self._interval_s = client, service, interval_s
        self._prefix = f"{client.prefix}{MEMBERS}{service}/"
        self._current = _NO_MEMBERS
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def current(self) -> Members:
        """The members as last listed; revision 0 before the first list."""
        return self._current

    def start(self) -> None:
        """Start to follow."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def wait_for_change(self, revision: int) -> Members:
        """Wait for members newer than a revision and return them; 0 for any list.

        Raises:
            PenstockError: etcd refuses: credentials, permissions.
        """
        while self._current.revision <= revision:
            if self._task is not None and self._task.done():
                self._task.result()
                raise RuntimeError("the discovery was stopped")
            await self._changed.wait()
        return self._current

    async def stop(self) -> None:
        """Stop following; the last members stay readable. Idempotent."""
        if self._task is not None:
            await cancel_and_wait(self._task)
            self._wake()

    async def _run(self) -> None:
        try:
            async for snapshot in self._client.snapshots(self._prefix, interval_s=self._interval_s):
                members = dict(filter(None, map(self._decode, snapshot.entries)))
                if members != self._current.members or not self._current.revision:
                    self._current = Members(snapshot.revision, MappingProxyType(members))
                    self._wake()
        except PenstockError as error:
            _log.warning("cannot follow %s: %s", self._prefix, error)
            raise
        finally:
            self._wake()

    def _decode(self, entry: KeyValue) -> tuple[str, Member] | None:
        id_ = entry.key.removeprefix(self._prefix)
        try:
            return id_, Member.decode(entry.value)
        except (ValueError, KeyError, TypeError):
            _log.warning("the value of %s is not a member; it is left out", entry.key)
            return None

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
