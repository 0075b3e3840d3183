"""A worker, as a process: it runs the tasks that its session assigns, as long as it is a member."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from penstock.aio import cancel_and_wait, run_together, wait_for_first
from penstock.api.worker.v1.worker_service_pb2_grpc import add_WorkerServiceServicer_to_server
from penstock.client import ConfigClient, OffsetClient, SchedulerClient
from penstock.cluster import EngineLostError
from penstock.cluster.instance import Instance
from penstock.cluster.settings import InstanceSettings
from penstock.etcd import Discovery, Election, Leader
from penstock.standalone.settings import scratch_folder
from penstock.worker.runtime.scheduler_session import SchedulerSession, WorkerIdentity
from penstock.worker.runtime.service import WorkerService
from penstock.worker.runtime.task_registry import TaskRegistry
from penstock.worker.runtime.worker import WorkerHost

log = logging.getLogger(__name__)


async def worker(settings: InstanceSettings) -> None:
    """Run a worker until cancelled. Then it is drained: its tasks move before it ends.

    Raises:
        EngineLostError: the JVM is lost.
    """
    async with Instance(settings) as instance:
        runtime = instance.stack.enter_context(scratch_folder())
        connectors = ConfigClient(await instance.route("config"), dial=instance.dial("config"))
        await instance.stack.enter_async_context(connectors)
        instance.apply_log_levels(connectors.watch_log_levels)
        offsets = OffsetClient(await instance.route("offset"), dial=instance.dial("offset"))
        await instance.stack.enter_async_context(offsets)
        route = SchedulerRoute(await instance.follow("scheduler"))
        schedulers = SchedulerClient(route, dial=instance.dial("scheduler"))
        await instance.stack.enter_async_context(schedulers)
        host = WorkerHost(settings.worker(), offsets, connectors, schedulers, runtime)
        await instance.stack.enter_async_context(host)
        instance.metrics.append(host.metrics)
        service = WorkerService(host.worker)
        await instance.serve(add_WorkerServiceServicer_to_server, service)
        await host.wait_until_ready()  # a member must be able to run tasks
        instance.join(settings.labels())
        identity = WorkerIdentity(
            instance.address,
            settings.name,
            settings.id,
            settings.labels(),
            settings.values["capacity"],
        )
        membership = ClusterMembership(instance, schedulers, host.worker.task_registry, identity)
        election = Election(instance.etcd, "scheduler", "")
        following = route.follow(election, membership)
        await run_with_leader(following, _until_lost(host), membership.run())


async def run_with_leader(
    following: Coroutine[Any, Any, None], *parts: Coroutine[Any, Any, None]
) -> None:
    """Run parts until cancelled, and follow the leader until the last of them has ended.

    The leader carries out a drain. It may end together with the machine that drains, so the next
    one has to be found while the parts are ending.
    """
    async with asyncio.TaskGroup() as outer:
        outer.create_task(following)
        async with asyncio.TaskGroup() as inner:
            for part in parts:
                inner.create_task(part)


class SchedulerRoute:
    """The route to the leading scheduler, or to any scheduler while the leader is not known."""

    def __init__(self, schedulers: Discovery) -> None:
        self._schedulers = schedulers
        self._leader: Leader | None = None

    def __call__(self) -> list[str]:
        """Return the addresses to try: that of the leader first, which may already be gone."""
        leader = [] if self._leader is None else [self._leader.address]
        others = (member.address for member in self._schedulers.current.members.values())
        return [*leader, *(address for address in others if address not in leader)]

    async def follow(self, election: Election, membership: ClusterMembership) -> None:
        """Follow the leader. A leader that hangs ends no session: only the election shows the
        change.
        """
        async for leader in election.observe():
            before, self._leader = self._leader, leader
            if leader is not None and leader != before:
                membership.restart(leader.address)


class ClusterMembership:
    """Runs tasks while this process is a member, and none while it is not."""

    def __init__(
        self,
        instance: Instance,
        schedulers: SchedulerClient,
        task_registry: TaskRegistry,
        identity: WorkerIdentity,
    ) -> None:
        self._instance, self._schedulers = instance, schedulers
        self._task_registry, self._identity = task_registry, identity
        self._session: SchedulerSession | None = None

    async def run(self) -> None:
        """Take part until cancelled, then be drained."""
        while True:
            registration = await self._instance.membership.wait_until_registered()
            log.info(
                "registered as %s, at %s", self._instance.membership.key, self._identity.address
            )
            self._session = SchedulerSession(self._schedulers, self._task_registry, self._identity)
            session = asyncio.create_task(self._session.run())
            lost = asyncio.create_task(registration.lost.wait())
            why = "no longer a member"
            try:
                await wait_for_first(lost, session)
                if session.done():
                    session.result()
            except asyncio.CancelledError:
                why = await self._drain(self._session, lost)
                raise
            finally:
                # the session first, so that it assigns no more tasks
                await cancel_and_wait(session, lost)
                await self._release_tasks(why)

    def restart(self, leader: str) -> None:
        """Open another session with the present leader: the old one may hang silently."""
        self._schedulers.prefer_address(leader)
        if self._session is not None:
            self._session.restart()

    async def _drain(self, session: SchedulerSession, lost: asyncio.Task[bool]) -> str:
        """Wait until the session is drained, as long as this process is a member and in time.
        Returns why it is not drained.
        """
        seconds = self._instance.settings.drain
        async with run_together(session.drain()) as (draining,):
            await wait_for_first(draining, lost, timeout_s=seconds)
            if lost.done():
                return "no longer a member during the drain"
            return f"stage worker.drain took longer than {seconds:g} s"

    async def _release_tasks(self, why: str) -> None:
        """Release all tasks: other workers may start them from now on (self-fencing)."""
        if len(self._task_registry):
            log.warning("%s: all tasks are cancelled", why)
        await self._task_registry.release(immediately=True)


async def _until_lost(host: WorkerHost) -> None:
    await host.wait_until_lost()
    raise EngineLostError
