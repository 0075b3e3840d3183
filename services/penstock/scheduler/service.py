"""The gRPC service of the scheduler: converts messages to values, calls the leader, and converts
the results back.
"""

# ruff: noqa: N802 - names of methods are those of the wire

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.api.scheduler.v1 import scheduler_service_pb2_grpc as grpc_api
from penstock.model.connector import TaskPlan
from penstock.model.errors import ConfigError, PenstockError, nearest_names
from penstock.model.events import MAX_EVENTS
from penstock.model.status import ConnectorStatus
from penstock.scheduler.leader.leader import Leader, Scheduler
from penstock.scheduler.leader.sessions import Outbox
from penstock.scheduler.state.statuses import derive_cluster_status, derive_connector_status
from penstock.scheduler.state.workers import Member, Report
from penstock.wire.connector import PLAN
from penstock.wire.scheduler import (
    CLUSTER,
    EVENT,
    LOG_LINE_FILTER,
    STORED_LOG_LINE,
    connector_status_to_proto,
)
from penstock.wire.worker import TASK_STATUS

MAX_BATCH_BYTES: Final = 256 << 10
"""Bytes of statuses in one message. A single status may be larger."""

MAX_PLANS_BYTES: Final = 1 << 20
"""Bytes of plans in one message. A single plan may be larger."""

_MAX_SUGGESTED_IDS: Final = 5


class SchedulerService(grpc_api.SchedulerServiceServicer):
    """Serves `penstock.api.scheduler.v1.SchedulerService`. Its owner runs the scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def Session(
        self, request_iterator: AsyncIterator[pb.SessionRequest], context: Any
    ) -> AsyncIterator[pb.SessionResponse]:
        """Read the reports of a worker, and send its assignments."""
        leader = self._scheduler.leader()
        first = await anext(aiter(request_iterator), None)
        if first is None:
            return
        if not first.worker_id:
            raise _missing_worker_id()
        if first.partial:
            raise ConfigError(
                "scheduler.partial_first_report",
                f"the first report of worker {first.worker_id[:100]} names only some of its tasks",
                fix="Name all tasks in the first report of a session.",
            )
        leader = self._scheduler.leader()
        outbox = leader.open_session(_member(first))
        leader.record_report(_report(first))
        reading = asyncio.ensure_future(_read_requests(leader, outbox, first, request_iterator))
        try:
            async for frame in outbox.frames():
                yield frame
        except _SessionEnd:
            return
        finally:
            reading.cancel()
            leader.close_session(first.worker_id, outbox)

    async def GetCluster(
        self, request: pb.GetClusterRequest, context: Any
    ) -> pb.GetClusterResponse:
        """Return the workers of the cluster."""
        cluster = self._leader_that_knows("assignments").cluster
        address = self._scheduler.leadership.leader_address()
        return CLUSTER.to_proto(derive_cluster_status(cluster, address))

    async def ListStatus(
        self, request: pb.ListStatusRequest, context: Any
    ) -> AsyncIterator[pb.ListStatusResponse]:
        """Send the statuses of all connectors, or of one."""
        leader = self._leader_that_knows("connectors")
        if request.connector:
            _require_connector(leader, request.connector)
        statuses = map(connector_status_to_proto, _statuses(leader, request.connector))
        for response in _batches(statuses):
            yield response

    async def ListHeldTasks(
        self, request: pb.ListHeldTasksRequest, context: Any
    ) -> pb.ListHeldTasksResponse:
        """Return the tasks of a connector that a worker may still run, after a turn, and those that
        are completed: they go with the stop, once it is read. A leader that has not read the stored
        records, or does not know the outcome of its last write, would leave tasks out, and an
        operator could change offsets that a task still commits.
        """
        leader = self._leader_that_knows("assignments")
        await leader.wait_for_turn()
        cluster = leader.cluster
        held = {
            id_ for id_, one in cluster.owned.items() if one.record.generation == request.generation
        }
        # altered offsets would have no effect on a task that stays completed
        held |= {id_ for id_ in cluster.completed if id_.rpartition("-")[0] == request.generation}
        return pb.ListHeldTasksResponse(task_ids=sorted(held), revision=cluster.revision)

    async def ListEvents(
        self, request: pb.ListEventsRequest, context: Any
    ) -> pb.ListEventsResponse:
        """Return the latest events."""
        events = self._leader_that_knows("assignments").events
        limit = min(request.limit, MAX_EVENTS)
        found = events.latest(request.connector, request.after, limit, request.generation)
        return pb.ListEventsResponse(events=map(EVENT.to_proto, found))

    async def ListLogLines(
        self, request: pb.ListLogLinesRequest, context: Any
    ) -> pb.ListLogLinesResponse:
        """Return the latest warnings in the logs of workers."""
        log_lines = self._leader_that_knows("assignments").log_lines
        found = log_lines.latest(LOG_LINE_FILTER.from_proto(request))
        return pb.ListLogLinesResponse(lines=map(STORED_LOG_LINE.to_proto, found))

    async def ListTaskPlans(
        self, request: pb.ListTaskPlansRequest, context: Any
    ) -> AsyncIterator[pb.ListTaskPlansResponse]:
        """Send the plans in force of a connector."""
        connectors = self._leader_that_knows("connectors").cluster.connectors
        desired = connectors.get(request.generation)
        for response in _plan_messages(desired.plans if desired else ()):
            yield response

    async def DrainWorker(
        self, request: pb.DrainWorkerRequest, context: Any
    ) -> pb.DrainWorkerResponse:
        """Drain a worker, or undo that."""
        leader = self._leader_that_knows("workers")
        worker = _find_worker(leader, request.worker_id)
        await leader.set_drained(worker, drain=not request.undo)
        left = sum(one.record.worker == worker for one in leader.cluster.owned.values())
        return pb.DrainWorkerResponse(tasks_left=left)

    def _leader_that_knows(self, what: str) -> Leader:
        """Return the leader, if it has read the input of the answer."""
        leader = self._scheduler.leader()
        leader.require_known(what)
        return leader


class _SessionEnd(Exception):  # noqa: N818 - not an error: the worker ended its stream
    """The worker has ended its side of the session."""


async def _read_requests(
    leader: Leader, outbox: Outbox, first: pb.SessionRequest, requests: AsyncIterator[Any]
) -> None:
    """Pass the requests of a worker to the leader until the stream ends."""
    try:
        _request_replans(leader, first)
        async for request in requests:
            if request.worker_id not in {"", first.worker_id}:
                raise ConfigError(
                    "scheduler.worker_changed",
                    f"the session of worker {first.worker_id} got a request of "
                    f"{request.worker_id[:100]}",
                    fix="Open one session for each worker.",
                )
            whole = pb.SessionRequest()
            whole.CopyFrom(request)
            whole.worker_id = first.worker_id
            leader.declare(_member(whole))
            leader.record_report(_report(whole))
            _request_replans(leader, whole)
    except PenstockError as error:
        outbox.end(error)
    else:
        outbox.end(_SessionEnd())
    finally:
        with suppress(asyncio.CancelledError):
            outbox.end(_SessionEnd())


def _request_replans(leader: Leader, request: pb.SessionRequest) -> None:
    for news in request.monitors:
        if news.replan:
            leader.request_replan(news.generation)


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
    tasks = {task.task_id: TASK_STATUS.from_proto(task) for task in request.tasks}
    released = frozenset(request.released_tasks) if request.partial else None
    return Report(request.worker_id, request.seen_revision, tasks, released)


def _statuses(leader: Leader, name: str) -> Iterator[ConnectorStatus]:
    """Yield the status of the connector with a name, or of all for "", ordered by name."""
    connectors = leader.cluster.connectors.values()
    for desired in sorted(connectors, key=lambda one: one.connector.name):
        if not name or desired.connector.name == name:
            yield derive_connector_status(leader.cluster, leader.plan_schedule, desired)


def _batches(statuses: Iterable[pb.ConnectorStatus]) -> Iterator[pb.ListStatusResponse]:
    """Yield messages with as many statuses as fit. Each message costs a turn of two event loops."""
    batch: list[pb.ConnectorStatus] = []
    bytes_left = MAX_BATCH_BYTES
    for status in statuses:
        size = status.ByteSize()
        if batch and size > bytes_left:
            yield pb.ListStatusResponse(connector=batch[0], following=batch[1:])
            batch, bytes_left = [], MAX_BATCH_BYTES
        batch.append(status)
        bytes_left -= size
    if batch:
        yield pb.ListStatusResponse(connector=batch[0], following=batch[1:])


def _plan_messages(plans: Iterable[TaskPlan]) -> Iterator[pb.ListTaskPlansResponse]:
    """Yield messages of bounded size for plans."""
    response, size = pb.ListTaskPlansResponse(), 0
    for plan in plans:
        message = PLAN.to_proto(plan)
        size += message.ByteSize()
        if size > MAX_PLANS_BYTES and response.plans:
            yield response
            response, size = pb.ListTaskPlansResponse(), message.ByteSize()
        response.plans.append(message)
    if response.plans:
        yield response


def _require_connector(leader: Leader, name: str) -> None:
    by_name = {one.connector.name for one in leader.cluster.connectors.values()}
    if name not in by_name:
        raise _not_found("connector", name, by_name)


def _find_worker(leader: Leader, id_or_name: str) -> str:
    workers = leader.cluster.workers
    ids = workers.find_ids(id_or_name)
    if not ids:
        raise _not_found("worker", id_or_name, workers.members)
    if len(ids) > 1:
        raise ConfigError(
            "scheduler.worker_ambiguous",
            f"{len(ids)} workers have the name {id_or_name[:200]!r}",
            fix=f"Name one by its id: {' or '.join(ids[:_MAX_SUGGESTED_IDS])}.",
        )
    return ids[0]


def _missing_worker_id() -> ConfigError:
    return ConfigError(
        "scheduler.worker_nameless",
        "the first message of a session has no worker id",
        fix="Send the id of the worker in the first message.",
        config_path="worker_id",
    )


def _not_found(kind: str, name: str, known: Any) -> ConfigError:
    near = nearest_names(name, known)
    return ConfigError(
        "scheduler.not_found",
        f"no {kind} {name[:200]!r} exists",
        fix=f"Did you mean {' or '.join(near)}?" if near else f"List the existing {kind}s.",
    )
