"""One instance of a service: its etcd, its server, its registration, and where the others are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

from penstock.client import keep_levels
from penstock.cluster.settings import InstanceSettings, advertised
from penstock.cluster.topics import agree
from penstock.etcd import Discovery, Etcd, Member, Membership, claim, verify
from penstock.model.connector import LogLevel
from penstock.model.metrics import ReadNumbers, numbers_of
from penstock.rpc import Server, open_channel
from penstock.rpc.channels import Dial
from penstock.rpc.process import tell_numbers
from penstock.rpc.route import Route
from penstock.store import EtcdStore, PostgresqlStore, Store
from penstock.store.sealed import Seal, SealedStore, seal_of

log = logging.getLogger(__name__)

_S = TypeVar("_S")


class Instance:
    """`async with Instance(settings) as instance`: then open what it needs, `serve`, `join`.

    Ends in the reverse order: it leaves the cluster, drains its server, lets go of the rest.
    """

    def __init__(self, settings: InstanceSettings) -> None:
        """Prepare; nothing is asked yet."""
        self.settings = settings
        self.stack = AsyncExitStack()
        self.etcd: Etcd
        self.address = ""
        self.membership: Membership
        self.numbers: list[ReadNumbers] = []
        """What tells the numbers of the parts of this process."""

    async def __aenter__(self) -> Self:
        try:
            self.etcd = await Etcd.connect(self.settings.etcd)
            self.stack.push_async_callback(self.etcd.close)
            await self._agree()
        except BaseException:
            await self.stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stack.aclose()

    async def store(self) -> Store:
        """Open the store of the service, and refuse one that others of this service do not use.

        Its place is written down only when it could be opened: a misspelt one binds nobody.
        """
        settings = self.settings.postgresql()
        place = "etcd" if settings is None else f"postgresql {settings.place()}"
        traits = {f"{self.settings.service}.store": place}
        await verify(self.etcd, traits)
        store: Store
        if settings is None:
            store = await EtcdStore.open(self.settings.etcd)
        else:
            store = await PostgresqlStore.open(settings)
        self.stack.push_async_callback(store.close)
        await claim(self.etcd, traits)
        self.numbers.append(lambda: numbers_of("store", store.statistics()))
        keys = self.settings.values["store.seal.keys"]
        return SealedStore(store, seal_of(Path(keys)) if keys else Seal())

    async def follow(self, service: str) -> Discovery:
        """Follow the members of a service from now on."""
        discovery = Discovery(self.etcd, service)
        discovery.start()
        self.stack.push_async_callback(discovery.stop)
        return discovery

    async def route(self, service: str) -> Route:
        """Return the way to any instance of a service."""
        return way_to(await self.follow(service))

    def dial(self, service: str) -> Dial:
        """Return what opens channels to instances of a service."""
        return self.settings.tls.dial(service) if self.settings.tls else open_channel

    def server(self) -> Server:
        """Return a server that has an address, and answers nobody yet."""
        settings = self.settings
        server = Server(settings.listen, grace=settings.drain, tls=settings.tls)
        tell_numbers(server, settings.name, settings.id, self.numbers)
        server.listen()
        self.address = advertised(self.settings.advertise, server.address)
        return server

    async def serve(self, register: Callable[[_S, Any], None], servicer: _S) -> None:
        """Answer from now on, at `address`."""
        server = self.server()
        server.add(register, servicer)
        await self.stack.enter_async_context(server)

    def join(self, labels: Mapping[str, str] | None = None) -> None:
        """Be found from now on. Called last: whoever is found has to answer."""
        settings = self.settings
        member = Member(self.address, labels or {})
        self.membership = Membership(
            self.etcd, settings.service, settings.id, member, settings.ttl, confirm=self._agree
        )
        self.numbers.append(lambda: numbers_of("member", self.membership.statistics()))
        self.membership.start()
        self.stack.push_async_callback(self.membership.stop)

    def keep_levels(self, watch: Callable[[], AsyncGenerator[Sequence[LogLevel], None]]) -> None:
        """Have the loggers of this process at the levels that the config service tells, from now
        on.
        """
        keeping = asyncio.create_task(keep_levels(watch, [self.settings.service]))
        self.stack.push_async_callback(_ended, keeping)

    async def _agree(self) -> None:
        if self.settings.service == "worker":
            await agree(self.etcd, self.settings.machine().topics_dir)

    async def stay(self) -> None:
        """Wait until it can be no member any more.

        Raises:
            PenstockError: `member.taken`, or etcd refuses it.
        """
        while True:
            registration = await self.membership.registered()
            log.info("registered as %s, reached at %s", self.membership.key, self.address)
            await registration.lost.wait()
            await asyncio.sleep(0)


def way_to(members: Discovery) -> Route:
    """Return the way to any of the members of a service."""
    return lambda: [member.address for member in members.now.members.values()]


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
