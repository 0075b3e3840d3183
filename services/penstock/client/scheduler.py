"""SchedulerClient: sessions of workers, the cluster, statuses and plans of connectors."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.api.scheduler.v1 import scheduler_service_pb2_grpc as grpc_api
from penstock.client.service_client import DEFAULT_TIMEOUT_S, ServiceClient
from penstock.model.connector import TaskPlan
from penstock.model.events import Event
from penstock.model.logs import LogFilter, StoredLogLine
from penstock.model.status import ClusterStatus, ConnectorStatus, HeldTasks
from penstock.rpc.channels import Dial, ServiceAddress, open_channel
from penstock.wire.connector import PLAN
from penstock.wire.scheduler import (
    CLUSTER,
    EVENT,
    HELD_TASKS,
    LOG_LINE_FILTER,
    STORED_LOG_LINE,
    connector_status_from_proto,
)

PLANS_TIMEOUT_S: Final = 60.0
"""Seconds for the plans of a connector with ten thousand tasks."""


class SchedulerClient(ServiceClient):
    """An instance of the scheduler service.

    Every method may raise PenstockError. The suggestion of `scheduler.not_leader` is the address of
    the leader.
    """

    def __init__(
        self, place: ServiceAddress, timeout_s: float = DEFAULT_TIMEOUT_S, dial: Dial = open_channel
    ) -> None:
        """`place` is `unix:/path` or `host:port`, or finds such addresses; see `ServiceClient`."""
        super().__init__(place, timeout_s, dial)
        self._stub = grpc_api.SchedulerServiceStub(self._channel)

    async def open_session(
        self, reports: AsyncIterator[pb.SessionRequest]
    ) -> AsyncGenerator[pb.SessionResponse, None]:
        """Open the session of a worker: send reports, and iterate over frames of assignments.

        Both are messages of the protocol, because a worker starts a task from a message.
        """
        async for frame in self._stream("scheduler.session", self._stub.Session(reports)):
            yield frame

    async def get_cluster(self) -> ClusterStatus:
        """Return the workers of the cluster and its leader."""
        request = pb.GetClusterRequest()
        answer = await self._call("scheduler.cluster", self._stub.GetCluster, request)
        return CLUSTER.from_proto(answer)

    async def list_statuses(self, connector: str = "") -> list[ConnectorStatus]:
        """Return the status of a connector, or of all connectors, ordered by name."""

        async def listed(
            request: pb.ListStatusRequest,
            *,
            timeout: float,  # noqa: ASYNC109 - gRPC's
        ) -> list[pb.ListStatusResponse]:
            """Return all messages of the stream."""
            return [answer async for answer in self._stub.ListStatus(request, timeout=timeout)]

        # all messages or none: the call can be repeated, and can go to the leader
        request = pb.ListStatusRequest(connector=connector)
        answers = await self._call("scheduler.statuses", listed, request)
        found = (one for answer in answers for one in (answer.connector, *answer.following))
        return list(map(connector_status_from_proto, found))

    async def list_events(
        self, connector: str, after: int, limit: int, generation: str = ""
    ) -> list[Event]:
        """Return the latest events behind a number, oldest first: of a connector, or all for "".
        With its `generation`, without those of an earlier connector of the same name.
        """
        request = pb.ListEventsRequest(
            connector=connector, after=after, limit=limit, generation=generation
        )
        answer = await self._call("scheduler.events", self._stub.ListEvents, request)
        return [EVENT.from_proto(event) for event in answer.events]

    async def list_log_lines(self, log_filter: LogFilter) -> list[StoredLogLine]:
        """Return the latest warnings in the logs of workers, oldest first, also of workers that are
        gone.
        """
        request = LOG_LINE_FILTER.to_proto(log_filter)
        answer = await self._call("scheduler.log_lines", self._stub.ListLogLines, request)
        return [STORED_LOG_LINE.from_proto(line) for line in answer.lines]

    async def list_plans(self, generation: str) -> tuple[TaskPlan, ...]:
        """Return the plans in force of a generation, ordered by task number. None: it has no plans
        yet, or does not exist.
        """

        async def listed(
            request: pb.ListTaskPlansRequest,
            *,
            timeout: float,  # noqa: ASYNC109 - gRPC's
        ) -> list[pb.ListTaskPlansResponse]:
            """Return all messages of the stream."""
            return [answer async for answer in self._stub.ListTaskPlans(request, timeout=timeout)]

        # all messages or none, as above
        answers = await self._call(
            "scheduler.plans",
            listed,
            pb.ListTaskPlansRequest(generation=generation),
            timeout_s=PLANS_TIMEOUT_S,
        )
        return tuple(PLAN.from_proto(plan) for answer in answers for plan in answer.plans)

    async def list_held_tasks(self, generation: str) -> HeldTasks:
        """Return the tasks of a generation that a worker holds or has not released yet."""
        request = pb.ListHeldTasksRequest(generation=generation)
        answer = await self._call("scheduler.held", self._stub.ListHeldTasks, request)
        return HELD_TASKS.from_proto(answer)

    async def drain_worker(self, worker: str, *, undo: bool = False) -> int:
        """Drain a worker, or undo it. Returns how many tasks the worker still has."""
        request = pb.DrainWorkerRequest(worker_id=worker, undo=undo)
        answer = await self._call("scheduler.drain", self._stub.DrainWorker, request)
        return answer.tasks_left
