"""Being a member: a key that hangs on a lease, made again whenever the lease was lost.

membership = Membership(client, "worker", "w1", Member("10.0.0.7:7001"))
membership.start()
while True:
    registration = await membership.registered()
    …                                      # take part; ask registration.held() before acting
    await registration.lost.wait()
    …                                      # stop what runs: another may own it now
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from penstock.etcd import ops
from penstock.etcd.client import Etcd
from penstock.etcd.lease import Clock, Lease, clock
from penstock.etcd.ops import Kv
from penstock.etcd.settings import LEASE_TTL
from penstock.model.errors import ConfigError, PenstockError, RetriableError

log = logging.getLogger(__name__)

PLACE: Final = "members/"

_PAUSE: Final = 0.5
"""Seconds between attempts to register; also between looks whether a namesake has gone."""

Confirm = Callable[[], Awaitable[None]]

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Member:
    """What others learn about an instance: where it is, and what it says of itself."""

    address: str
    labels: Mapping[str, str] = field(default_factory=lambda: _NOTHING)

    def encoded(self) -> bytes:
        """Return its value in etcd."""
        return json.dumps({"address": self.address, "labels": dict(self.labels)}).encode()

    @staticmethod
    def decoded(value: bytes) -> Member:
        """Return what a value says; unknown fields of a newer version are passed over."""
        fields = json.loads(value)
        return Member(str(fields["address"]), dict(fields.get("labels", {})))


@dataclass(frozen=True, slots=True)
class Registration:
    """A time of being a member. `revision` is that of its key: a later one has a larger number."""

    lease: Lease
    revision: int

    @property
    def lost(self) -> asyncio.Event:
        """Set when the others may believe that we are gone."""
        return self.lease.lost

    def held(self) -> bool:
        """Tell whether the others must believe that we are here, by the clock, at once."""
        return self.lease.held()


class Membership:
    """Keeps one instance registered from `start` until `stop`. Owned by its service."""

    def __init__(
        self,
        client: Etcd,
        service: str,
        id_: str,
        member: Member,
        ttl: float = LEASE_TTL,
        now: Clock = clock,
        confirm: Confirm | None = None,
    ) -> None:
        """Prepare to be `members/<service>/<id>`. `confirm` is asked after each registration,
        before it counts: what only a member can know for sure.
        """
        self.key = f"{client.prefix}{PLACE}{service}/{id_}"
        self._client, self._member = client, member
        self._ttl, self._now, self._confirm = ttl, now, confirm
        self._times = 0
        self._pings = 0.0
        self._lease: Lease | None = None
        self._current: asyncio.Future[Registration] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to register."""
        self._current = asyncio.get_running_loop().create_future()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def registered(self) -> Registration:
        """Wait until the instance is a member, for as long as etcd is away.

        Raises:
            PenstockError: `member.taken`: a living instance has this id; or etcd refuses; or what
                `confirm` raised.
        """
        while True:
            if self._current is None:
                raise RuntimeError("the membership was not started")
            registration = await asyncio.shield(self._current)
            if registration.held():
                return registration
            await asyncio.sleep(0)  # the runner puts a new future there

    def statistics(self) -> dict[str, float]:
        """Return how often it was registered, how many pings were answered, and how much time its
        lease has left.
        """
        now = {"pings": 0.0, "left": 0.0} if self._lease is None else self._lease.statistics()
        return {"registrations": self._times, **now, "pings": self._pings + now["pings"]}

    async def stop(self) -> None:
        """Leave: the others see it within milliseconds. Idempotent."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        """Register, wait for the loss, register again."""
        loop = asyncio.get_running_loop()
        while True:
            current = self._current = self._current or loop.create_future()
            try:
                registration = await self._register()
            except PenstockError as error:
                current.set_exception(error)
                current.exception()  # nobody may be waiting
                return
            self._times += 1
            self._lease = registration.lease
            current.set_result(registration)
            try:
                await registration.lost.wait()
            finally:
                self._pings += self._lease.statistics()["pings"]
                self._lease = None
                self._current = loop.create_future()
                await asyncio.shield(registration.lease.close())
            log.warning("%s is registered again", self.key)

    async def _register(self) -> Registration:
        namesake_until = self._now() + 2 * self._ttl
        while True:
            try:
                registration = await self._try()
            except RetriableError as error:
                log.warning("cannot register %s: %s", self.key, error.diagnostic.message)
                namesake_until = self._now() + 2 * self._ttl
            else:
                if isinstance(registration, Registration):
                    return registration
                if self._now() > namesake_until:
                    raise _taken(self.key, registration)
            await asyncio.sleep(_PAUSE)

    async def _try(self) -> Registration | Kv:
        """Put the key; returns the namesake that has it, when there is one."""
        lease = await Lease.grant(self._client, self._ttl, self._now)
        stays = False
        try:
            registration = await self._put(lease)
            if self._confirm and isinstance(registration, Registration):
                await self._confirm()
            stays = isinstance(registration, Registration)
        finally:
            if not stays:
                await asyncio.shield(lease.close())
        return registration

    async def _put(self, lease: Lease) -> Registration | Kv:
        done = await self._client.txn(
            [ops.created(self.key, 0)],
            [ops.put(self.key, self._member.encoded(), lease.id)],
            [ops.read(self.key)],
            stage="register",
            repeat=True,
        )
        if done.succeeded:
            return Registration(lease, done.revision)
        (holder,) = done.found[0].entries
        if holder.lease == lease.id:  # the answer to an earlier attempt was lost
            return Registration(lease, holder.created)
        return holder


def _taken(key: str, holder: Kv) -> ConfigError:
    who = Member.decoded(holder.value).address
    return ConfigError(
        "member.taken",
        f"`{key}` is a living instance at {who}: two instances, or two clusters, have one name",
        fix="Give every instance an id, and every Penstock cluster in one etcd a name of its own.",
        config_path="instance.id",
    )
