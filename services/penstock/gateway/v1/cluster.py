"""`/v1/cluster`, `/v1/workers/{worker}`, `/v1/status`: workers, and statuses with metrics."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from penstock.gateway.access.guard import Caller, require_level
from penstock.gateway.access.users import Level
from penstock.gateway.bodies import responses
from penstock.gateway.clients import Clients
from penstock.gateway.request_input import PathName
from penstock.gateway.v1.bodies import ClusterView, ConnectorNumbers, DrainProgress, StatusList

router = APIRouter(prefix="/v1", tags=["v1"])


@router.get("/cluster", responses=responses(200, ClusterView))
async def get_cluster(clients: Clients) -> Response:
    """Return the workers of the cluster, its leader, and unassigned and moving tasks."""
    return ClusterView.of(await clients.scheduler.get_cluster()).respond()


@router.put("/workers/{worker}/drain", responses=responses(200, DrainProgress))
async def drain_worker(clients: Clients, worker: PathName) -> Response:
    """Drain a worker: it gets no new tasks, and its tasks move to other workers. Repeat the request
    to read how many tasks are left.
    """
    return DrainProgress(tasks_left=await clients.scheduler.drain_worker(worker)).respond()


@router.delete("/workers/{worker}/drain", responses=responses(200, DrainProgress))
async def undrain_worker(clients: Clients, worker: PathName) -> Response:
    """Undo the drain of a worker: it gets tasks again."""
    tasks_left = await clients.scheduler.drain_worker(worker, undo=True)
    return DrainProgress(tasks_left=tasks_left).respond()


@router.get("/status", responses=responses(200, StatusList))
async def list_statuses(
    request: Request,
    clients: Clients,
    caller: Caller,
    connector: Annotated[str, Query(description="Only this connector.")] = "",
) -> Response:
    """Return the states of connectors and tasks, and the rows of each task since its start."""
    if connector:  # before the call, so that a caller without the role learns nothing
        require_level(request, connector, Level.VIEWER)
    found = caller.filter_visible(await clients.scheduler.list_statuses(connector))
    return StatusList(connectors=[ConnectorNumbers.of(one) for one in found]).respond()
