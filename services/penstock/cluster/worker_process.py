"""A worker, as a process: holds the tasks that its session assigns, as long as it is a member."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from penstock.api.worker.v1.worker_service_pb2_grpc import add_WorkerServiceServicer_to_server
from penstock.client import ConfigClient, OffsetClient, SchedulerClient
from penstock.cluster.instance import Instance
from penstock.cluster.lost import EngineLostError
from penstock.cluster.settings import InstanceSettings
from penstock.etcd import Discovery, Election, Leader
from penstock.standalone.scratch import scratch
from penstock.worker.runtime.host import Hosting
from penstock.worker.runtime.scheduler_session import Identity, Session
from penstock.worker.runtime.service import WorkerService
from penstock.worker.runtime.task_registry import Holdings

log = logging.getLogger(__name__)


async def worker(settings: InstanceSettings) -> None:
    """Be a worker until cancelled; then it is drained: its tasks move before it ends.

    Raises:
        EngineLostError: the JVM is gone.
    """
    async with Instance(settings) as instance:
        runtime = instance.stack.enter_context(scratch())
        connectors = ConfigClient(await instance.route("config"), dial=instance.dial("config"))
        await instance.stack.enter_async_context(connectors)
        instance.keep_levels(connectors.watch_log_levels)
        offsets = OffsetClient(await instance.route("offset"), dial=instance.dial("offset"))
        await instance.stack.enter_async_context(offsets)
        way = Way(await instance.follow("scheduler"))
        schedulers = SchedulerClient(way, dial=instance.dial("scheduler"))
        await instance.stack.enter_async_context(schedulers)
        hosting = Hosting(settings.machine(), offsets, connectors, runtime)
        await instance.stack.enter_async_context(hosting)
        instance.numbers.append(hosting.numbers)
        service = WorkerService(hosting.worker)
        await instance.serve(add_WorkerServiceServicer_to_server, service)
        await hosting.ready()  # who takes tasks must be able to run them
        instance.join(settings.labels())
        who = Identity(
            instance.address,
            settings.name,
            settings.id,
            settings.labels(),
            settings.values["capacity"],
        )
        membership = Taking(instance, schedulers, hosting.worker.holdings, who)
        election = Election(instance.etcd, "scheduler", "")
        following = way.follow(election, membership)
        await taking_part(following, _until_lost(hosting), membership.run())


async def taking_part(
    following: Coroutine[Any, Any, None], *parts: Coroutine[Any, Any, None]
) -> None:
    """Run parts until cancelled, and follow who leads until the last of them has ended.

    A drain is the work of whoever leads. The leader may end with the machine that drains, so the
    next one has to be found while the parts are ending.
    """
    async with asyncio.TaskGroup() as outer:
        outer.create_task(following)
        async with asyncio.TaskGroup() as inner:
            for part in parts:
                inner.create_task(part)


class Way:
    """The way to the leading scheduler: to it where it is known, else to any that names it."""

    def __init__(self, schedulers: Discovery) -> None:
        self._schedulers = schedulers
        self._leader: Leader | None = None

    def __call__(self) -> list[str]:
        """Return addresses to try: the leader's first, but it may be gone before the news of it."""
        leader = [] if self._leader is None else [self._leader.address]
        others = (member.address for member in self._schedulers.now.members.values())
        return [*leader, *(address for address in others if address not in leader)]

    async def follow(self, election: Election, taking: Taking) -> None:
        """Follow who leads. A leader that hangs ends no session: only the election tells."""
        async for leader in election.observe():
            before, self._leader = self._leader, leader
            if leader is not None and leader != before:
                taking.restart(leader.address)


class Taking:
    """Takes part in the cluster while it is a member, and holds nothing while it is not."""

    def __init__(
        self, instance: Instance, schedulers: SchedulerClient, holdings: Holdings, who: Identity
    ) -> None:
        self._instance, self._schedulers = instance, schedulers
        self._holdings, self._who = holdings, who
        self._session: Session | None = None

    async def run(self) -> None:
        """Take part until cancelled, then be drained."""
        while True:
            registration = await self._instance.membership.registered()
            log.info("registered as %s, at %s", self._instance.membership.key, self._who.address)
            self._session = Session(self._schedulers, self._holdings, self._who)
            session = asyncio.create_task(self._session.run())
            lost = asyncio.create_task(registration.lost.wait())
            why = "no member any more"
            try:
                await asyncio.wait({lost, session}, return_when=asyncio.FIRST_COMPLETED)
                if session.done():
                    session.result()
            except asyncio.CancelledError:
                why = await self._drained(self._session, lost)
                raise
            finally:
                # first the session, so that it takes nothing in any more
                session.cancel()
                lost.cancel()
                await asyncio.gather(session, lost, return_exceptions=True)
                await self._cut_off(why)

    def restart(self, leader: str) -> None:
        """Have another session, with who leads now: the old leader may hang, and say nothing."""
        self._schedulers.turn_to(leader)
        if self._session is not None:
            self._session.restart()

    async def _drained(self, session: Session, lost: asyncio.Task[bool]) -> str:
        """Wait until the session has emptied us, as long as we are a member and it is in time.
        Return why it has not.
        """
        seconds = self._instance.settings.drain
        draining = asyncio.create_task(session.drain())
        try:
            await asyncio.wait(
                {draining, lost}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if lost.done():
                return "no member any more while it was drained"
            return f"stage worker.drain took longer than {seconds:g} s"
        finally:
            draining.cancel()
            await asyncio.gather(draining, return_exceptions=True)

    async def _cut_off(self, why: str) -> None:
        """Let go of what is held: others may begin with it from now on (self-fencing)."""
        if len(self._holdings):
            log.warning("%s: all tasks are cut off", why)
        await self._holdings.release(at_once=True)


async def _until_lost(hosting: Hosting) -> None:
    await hosting.lost()
    raise EngineLostError
