"""One instance of a service: its connection to etcd, its store, its server and its registration.

Workers also agree on one place of topics: a sink on a worker that looked elsewhere would find an
empty topic and wait for ever. The first worker writes the place down. It binds as long as any
worker is alive; then the next worker may set another, which is how the topics of a cluster are
moved.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from penstock.aio import cancel_and_wait
from penstock.client import apply_log_levels
from penstock.cluster.settings import InstanceSettings, resolve_advertised
from penstock.etcd import (
    Discovery,
    Etcd,
    Member,
    Membership,
    agree_on_trait,
    claim_cluster,
    verify_cluster,
)
from penstock.model.errors import ConfigError
from penstock.model.logs import LogLevel
from penstock.model.metrics import ReadMetrics, metrics_from_statistics
from penstock.rpc.channels import Dial, Resolver, open_channel
from penstock.rpc.server import Server, add_process_service
from penstock.store.etcd import EtcdStore, refuse_restoring
from penstock.store.port import Store
from penstock.store.postgresql.store import PostgresqlStore
from penstock.store.sealed_store import Seal, SealedStore, read_seal_file

log = logging.getLogger(__name__)

_S = TypeVar("_S")


class Instance:
    """`async with Instance(settings) as instance`: then open what it needs, `serve`, `join`.

    It ends in the reverse order: it leaves the cluster, drains its server, and closes the rest.
    """

    def __init__(self, settings: InstanceSettings) -> None:
        """Connects when it is entered."""
        self.settings = settings
        self.stack = AsyncExitStack()
        self.etcd: Etcd
        self.address = ""
        self.membership: Membership
        self.metrics: list[ReadMetrics] = []
        """Return the metrics of the parts of this process."""

    async def __aenter__(self) -> Self:
        try:
            self.etcd = await Etcd.connect(self.settings.etcd)
            self.stack.push_async_callback(self.etcd.close)
            await self._agree_on_topics()
        except BaseException:
            await self.stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stack.aclose()

    async def store(self) -> Store:
        """Open the store of the service, and refuse one that other instances of the service do not
        use.

        Its place is written down only after it could be opened: a misspelt one binds no other
        instance.
        """
        settings = self.settings.postgresql()
        place = "etcd" if settings is None else f"postgresql {settings.location()}"
        traits = {f"{self.settings.service}.store": place}
        await verify_cluster(self.etcd, traits)
        store: Store
        if settings is None:
            store = await EtcdStore.open(self.settings.etcd)
        else:
            await refuse_restoring(self.etcd)  # of a backup that comes into both
            store = await PostgresqlStore.open(settings)
        self.stack.push_async_callback(store.close)
        await claim_cluster(self.etcd, traits)
        self.metrics.append(lambda: metrics_from_statistics("store", store.statistics()))
        return SealedStore(store, self.seal())

    def seal(self) -> Seal:
        """Return what encrypts the values of a store."""
        keys = self.settings.values["store.seal.keys"]
        return read_seal_file(Path(keys)) if keys else Seal()

    async def follow(self, service: str) -> Discovery:
        """Follow the members of a service from now on."""
        discovery = Discovery(self.etcd, service)
        discovery.start()
        self.stack.push_async_callback(discovery.stop)
        return discovery

    async def route(self, service: str) -> Resolver:
        """Return the route to any instance of a service."""
        return make_route(service, await self.follow(service))

    def dial(self, service: str) -> Dial:
        """Return what opens channels to instances of a service."""
        return self.settings.tls.dial(service) if self.settings.tls else open_channel

    def server(self) -> Server:
        """Return a server that has an address and no services yet."""
        settings = self.settings
        server = Server(settings.listen, grace_s=settings.drain, tls=settings.tls)
        add_process_service(server, settings.name, settings.id, self.metrics)
        server.listen()
        self.address = resolve_advertised(self.settings.advertise, server.address)
        return server

    async def serve(self, register: Callable[[_S, Any], None], servicer: _S) -> None:
        """Serve from now on, at `address`."""
        server = self.server()
        server.add(register, servicer)
        await self.stack.enter_async_context(server)

    def join(self, labels: Mapping[str, str] | None = None) -> None:
        """Register this instance. Called last: a registered instance has to answer."""
        settings = self.settings
        member = Member(self.address, labels or {})
        self.membership = Membership(
            self.etcd,
            settings.service,
            settings.id,
            member,
            settings.ttl,
            confirm=self._agree_on_topics,
        )
        self.metrics.append(lambda: metrics_from_statistics("member", self.membership.statistics()))
        self.membership.start()
        self.stack.push_async_callback(self.membership.stop)

    def apply_log_levels(
        self, watch: Callable[[], AsyncGenerator[Sequence[LogLevel], None]]
    ) -> None:
        """Apply the log levels of the config service to this process from now on."""
        applying = asyncio.create_task(apply_log_levels(watch, [self.settings.service]))
        self.stack.push_async_callback(cancel_and_wait, applying)

    async def _agree_on_topics(self) -> None:
        if self.settings.service == "worker":
            await agree_on_topics_dir(self.etcd, self.settings.worker().topics_dir)

    async def wait_until_lost(self) -> None:
        """Wait until this instance can no longer be a member.

        Raises:
            PenstockError: `member.taken`, or etcd refuses it.
        """
        while True:
            registration = await self.membership.wait_until_registered()
            log.info("registered as %s, reached at %s", self.membership.key, self.address)
            await registration.lost.wait()
            await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class _MemberRoute:
    """The route to any of the members of a service."""

    service: str
    members: Discovery

    def __call__(self) -> list[str]:
        return [member.address for member in self.members.current.members.values()]


def make_route(service: str, members: Discovery) -> Resolver:
    """Return the route to any of the members of a service."""
    return _MemberRoute(service, members)


TOPICS_TRAIT: Final = "topics"

_FILE: Final = "file://"


def normalize_topics_dir(topics_dir: str) -> str:
    """Return a place as all workers write it: an absolute path, or a URL without credentials."""
    if "://" in topics_dir and not topics_dir.startswith(_FILE):
        return re.sub(r"://[^/@]*@", "://", topics_dir).rstrip("/")  # invariant 9
    # links are not resolved: they differ between machines, while the configured paths can be equal
    return os.path.abspath(topics_dir.removeprefix(_FILE))  # noqa: PTH100 - pathlib keeps `..`


async def agree_on_topics_dir(client: Etcd, topics_dir: str) -> None:
    """Write down the place of topics, or refuse one that differs from that of the other workers.

    Called before a worker registers and again after it: of two that start together with different
    places, each sees a cluster without workers, and only one may stay.

    Raises:
        ConfigError: `cluster.topics_elsewhere`.
    """
    own = normalize_topics_dir(topics_dir)
    agreed = await agree_on_trait(client, TOPICS_TRAIT, own, "worker")
    if agreed != own:
        raise ConfigError(
            "cluster.topics_elsewhere",
            f"`topics.dir` is {own} here, and {agreed} on the other workers of "
            f"`{client.settings.cluster}`",
            fix=f"Set `topics.dir` to {agreed} if all workers share that folder, or set all of "
            "them to one that they share. To move the topics of the cluster, stop all workers, "
            "move the files, and start the workers with the new place.",
            config_path="topics.dir",
        )
