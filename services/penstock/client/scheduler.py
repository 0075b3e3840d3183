"""SchedulerClient: who does what."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from penstock.api.scheduler.v1 import scheduler_service_pb2 as pb
from penstock.api.scheduler.v1 import scheduler_service_pb2_grpc as grpc_api
from penstock.client.call import DEADLINE, Caller
from penstock.model.status import ClusterStatus, ConnectorStatus
from penstock.rpc.channels import Dial, open_channel
from penstock.rpc.route import Place
from penstock.wire.scheduler import cluster_from_proto, connector_status_from_proto


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """Tasks that are held. Every epoch that is given out after the answer is above `revision`."""

    tasks: tuple[str, ...]
    revision: int


class SchedulerClient(Caller):
    """An instance of the scheduler service. Every method may raise PenstockError;
    `scheduler.not_leader` has the leader's address as its suggestion.
    """

    def __init__(self, place: Place, deadline: float = DEADLINE, dial: Dial = open_channel) -> None:
        """`place` is `unix:/path` or `host:port`, or finds such addresses; see `Caller`."""
        super().__init__(place, deadline, dial)
        self._stub = grpc_api.SchedulerServiceStub(self._channel)

    async def session(
        self, reports: AsyncIterator[pb.SessionRequest]
    ) -> AsyncGenerator[pb.SessionResponse, None]:
        """Be a worker: reports go up, frames of assignments come down. They are messages, because
        what a worker starts is a message.
        """
        async for frame in self._stream("scheduler.session", self._stub.Session(reports)):
            yield frame

    async def cluster(self) -> ClusterStatus:
        """Tell who is there."""
        request = pb.GetClusterRequest()
        answer = await self._call("scheduler.cluster", self._stub.GetCluster, request)
        return cluster_from_proto(answer)

    async def statuses(self, connector: str = "") -> list[ConnectorStatus]:
        """Tell how a connector is, or all are, ordered by name."""

        async def listed(
            request: pb.ListStatusRequest,
            *,
            timeout: float,  # noqa: ASYNC109 - gRPC's
        ) -> list[pb.ListStatusResponse]:
            """Take the whole stream."""
            return [answer async for answer in self._stub.ListStatus(request, timeout=timeout)]

        # all or nothing, so it is repeated like any call, and follows the leader
        request = pb.ListStatusRequest(connector=connector)
        answers = await self._call("scheduler.statuses", listed, request)
        told = (one for answer in answers for one in (answer.connector, *answer.following))
        return list(map(connector_status_from_proto, told))

    async def watch(self, connector: str = "") -> AsyncIterator[tuple[ConnectorStatus, bool]]:
        """Iterate over changes of status, each with whether the connector is gone."""
        answers = self._stub.WatchStatus(pb.WatchStatusRequest(connector=connector))
        async for answer in self._stream("scheduler.watch", answers):
            yield connector_status_from_proto(answer.connector), answer.gone

    async def held(self, generation: str) -> HeldTasks:
        """Tell which tasks of a generation a worker holds, or has not let go of yet."""
        request = pb.ListHeldTasksRequest(generation=generation)
        answer = await self._call("scheduler.held", self._stub.ListHeldTasks, request)
        return HeldTasks(tuple(answer.task_ids), answer.revision)

    async def drain(self, worker: str, *, undo: bool = False) -> int:
        """Ask for a worker to be emptied; returns how many tasks it still has."""
        request = pb.DrainWorkerRequest(worker_id=worker, undo=undo)
        answer = await self._call("scheduler.drain", self._stub.DrainWorker, request)
        return answer.tasks_left
