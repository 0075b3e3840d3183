"""The gRPC surface of the scheduler service: messages in, values through, messages out."""

# ruff: noqa: N802, ARG002 - names and arguments of methods are those of the wire

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.api.scheduler.v1 import scheduler_service_pb2_grpc as grpc_api
from penstock.model.errors import ConfigError, PenstockError, nearest
from penstock.model.status import ConnectorStatus
from penstock.scheduler.leading.leader import Leader
from penstock.scheduler.leading.scheduler import Scheduler
from penstock.scheduler.leading.sessions import Outbox
from penstock.scheduler.state.events import Member, Report
from penstock.scheduler.state.statuses import cluster_status, connector_status
from penstock.scheduler.state.wanted import Wanted
from penstock.wire.scheduler import cluster_to_proto, connector_status_to_proto
from penstock.wire.worker import status_from_proto

MERGE: Final = 0.1
"""Seconds between two looks of a watch: changes in between are told as one."""

MOST_TOGETHER: Final = 256 << 10
"""Bytes of statuses in one message; a single one may have more."""

_MOST_NAMED: Final = 5


class SchedulerService(grpc_api.SchedulerServiceServicer):
    """Serves `penstock.api.scheduler.v1.SchedulerService`; its maker runs the scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def Session(
        self, request_iterator: AsyncIterator[pb.SessionRequest], context: Any
    ) -> AsyncIterator[pb.SessionResponse]:
        """Be the other side of a worker."""
        leader = self._scheduler.leader()
        first = await anext(aiter(request_iterator), None)
        if first is None:
            return
        if not first.worker_id:
            raise _nameless()
        leader = self._scheduler.leader()
        outbox = leader.open(_member(first))
        leader.report(_report(first))
        listening = asyncio.ensure_future(_listen(leader, outbox, first, request_iterator))
        try:
            async for frame in outbox.frames():
                yield frame
        except _Over:
            return
        finally:
            listening.cancel()
            leader.close(first.worker_id, outbox)

    async def GetCluster(
        self, request: pb.GetClusterRequest, context: Any
    ) -> pb.GetClusterResponse:
        """Tell who is there."""
        cluster = self._knowing("assignments").cluster
        return cluster_to_proto(cluster_status(cluster, self._scheduler.leadership.leader()))

    async def ListStatus(
        self, request: pb.ListStatusRequest, context: Any
    ) -> AsyncIterator[pb.ListStatusResponse]:
        """Tell how connectors are."""
        leader = self._knowing("connectors")
        if request.connector:
            _find(leader, request.connector)
        told = map(connector_status_to_proto, _statuses(leader, request.connector))
        for answer in _together(told):
            yield answer

    async def WatchStatus(
        self, request: pb.WatchStatusRequest, context: Any
    ) -> AsyncIterator[pb.WatchStatusResponse]:
        """Tell how connectors are, and when that changes."""
        leader, turn = self._scheduler.leader(), 0
        told: dict[str, ConnectorStatus] = {}
        await context.send_initial_metadata(())
        while self._scheduler.leader() is leader:
            now = {s.generation: s for s in _statuses(leader, request.connector)}
            for generation in [id_ for id_ in told if id_ not in now]:
                gone = told.pop(generation)
                message = pb.ConnectorStatus(name=gone.name, generation=generation)
                yield pb.WatchStatusResponse(connector=message, gone=True)
            for generation, status in now.items():
                if told.get(generation) != _bare(status):
                    told[generation] = _bare(status)
                    yield pb.WatchStatusResponse(connector=connector_status_to_proto(status))
            turn = await leader.changed(turn)
            await asyncio.sleep(MERGE)

    async def ListHeldTasks(
        self, request: pb.ListHeldTasksRequest, context: Any
    ) -> pb.ListHeldTasksResponse:
        """Tell what of a connector may still move, after a turn: a leader that has not read what is
        stored, or does not know whether its last write was, would leave tasks out, and let a person
        change offsets that a task still writes.
        """
        leader = self._knowing("assignments")
        await leader.settled()
        cluster = leader.cluster
        held = sorted(
            id_ for id_, one in cluster.owned.items() if one.record.generation == request.generation
        )
        return pb.ListHeldTasksResponse(task_ids=held, revision=cluster.revision)

    async def DrainWorker(
        self, request: pb.DrainWorkerRequest, context: Any
    ) -> pb.DrainWorkerResponse:
        """Ask for a worker to be emptied."""
        leader = self._knowing("workers")
        worker = _meant(leader, request.worker_id)
        await leader.drain(worker, drain=not request.undo)
        left = sum(one.record.worker == worker for one in leader.cluster.owned.values())
        return pb.DrainWorkerResponse(tasks_left=left)

    def _knowing(self, what: str) -> Leader:
        """Return the leader, if it knows what an answer is made of."""
        leader = self._scheduler.leader()
        leader.must_know(what)
        return leader


class _Over(Exception):  # noqa: N818 - it is no error: the worker has said its last word
    """The worker has ended its side of the session."""


async def _listen(
    leader: Leader, outbox: Outbox, first: pb.SessionRequest, requests: AsyncIterator[Any]
) -> None:
    """Take in what a worker says, until it says no more."""
    try:
        _news(leader, first)
        async for request in requests:
            if request.worker_id not in {"", first.worker_id}:
                raise ConfigError(
                    "scheduler.worker_changed",
                    f"the session of {first.worker_id} speaks for {request.worker_id[:100]}",
                    fix="Open one session for each worker.",
                )
            whole = pb.SessionRequest()
            whole.CopyFrom(request)
            whole.worker_id = first.worker_id
            leader.declare(_member(whole))
            leader.report(_report(whole))
            _news(leader, whole)
    except PenstockError as error:
        outbox.end(error)
    else:
        outbox.end(_Over())
    finally:
        with suppress(asyncio.CancelledError):
            outbox.end(_Over())


def _news(leader: Leader, request: pb.SessionRequest) -> None:
    for news in request.monitors:
        if news.replan:
            leader.replan(news.generation)


def _member(request: pb.SessionRequest) -> Member:
    return Member(
        request.worker_id,
        request.name,
        request.address,
        dict(request.labels),
        request.capacity or 1.0,
        request.draining,
    )


def _report(request: pb.SessionRequest) -> Report:
    tasks = {task.task_id: status_from_proto(task) for task in request.tasks}
    return Report(request.worker_id, request.seen_revision, tasks)


def _statuses(leader: Leader, name: str) -> Iterator[ConnectorStatus]:
    wanted = sorted(leader.cluster.wanted.values(), key=lambda one: one.connector.name)
    for one in wanted:
        if not name or one.connector.name == name:
            yield connector_status(leader.cluster, leader.needs, one)


def _together(statuses: Iterable[pb.ConnectorStatus]) -> Iterator[pb.ListStatusResponse]:
    """Put as many into a message as fit: each message takes a turn of both event loops."""
    found: list[pb.ConnectorStatus] = []
    room = MOST_TOGETHER
    for status in statuses:
        size = status.ByteSize()
        if found and size > room:
            yield pb.ListStatusResponse(connector=found[0], following=found[1:])
            found, room = [], MOST_TOGETHER
        found.append(status)
        room -= size
    if found:
        yield pb.ListStatusResponse(connector=found[0], following=found[1:])


def _bare(status: ConnectorStatus) -> ConnectorStatus:
    """Return a status without the numbers, which are no reason to tell it."""
    return replace(status, tasks=tuple(replace(task, task=None) for task in status.tasks))


def _find(leader: Leader, name: str) -> Wanted:
    by_name = {one.connector.name: one for one in leader.cluster.wanted.values()}
    if name not in by_name:
        raise _not_found("connector", name, by_name)
    return by_name[name]


def _meant(leader: Leader, word: str) -> str:
    workers = leader.cluster.workers
    ids = workers.called(word)
    if not ids:
        raise _not_found("worker", word, workers.members)
    if len(ids) > 1:
        raise ConfigError(
            "scheduler.worker_ambiguous",
            f"{len(ids)} workers have the name {word[:200]!r}",
            fix=f"Say which, by its id: {' or '.join(ids[:_MOST_NAMED])}.",
        )
    return ids[0]


def _nameless() -> ConfigError:
    return ConfigError(
        "scheduler.worker_nameless",
        "a session was opened without an id of the worker",
        fix="Send the worker's id in the first message.",
        config_path="worker_id",
    )


def _not_found(what: str, name: str, there: Any) -> ConfigError:
    near = nearest(name, there)
    return ConfigError(
        "scheduler.not_found",
        f"there is no {what} {name[:200]!r}",
        fix=f"Did you mean {' or '.join(near)}?" if near else f"List what is there: no {what} is.",
    )
