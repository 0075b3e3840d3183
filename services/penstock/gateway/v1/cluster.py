"""`/v1/cluster`, `/v1/workers/{worker}`, `/v1/status`: who is there, and how everything is."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from penstock.gateway import documents, response_bodies
from penstock.gateway.access.guard import Sender, require
from penstock.gateway.access.users import Level
from penstock.gateway.clients import Services
from penstock.gateway.paths import Name
from penstock.gateway.v1.documents import ClusterView, Drained, Everything
from penstock.model.status import ConnectorStatus, RunStatus, WorkerStatus

routes = APIRouter(prefix="/v1", tags=["v1"])


@routes.get("/cluster", responses=documents.answers(200, ClusterView))
async def cluster(asks: Services) -> Response:
    """Tell who is there, and what is not where it should be."""
    found = await asks.scheduler.cluster()
    return JSONResponse(
        {
            "leader": found.leader,
            "revision": found.revision,
            "unassigned": found.unassigned,
            "moving": found.moving,
            "workers": [_worker(one) for one in found.workers],
        }
    )


@routes.put("/workers/{worker}/drain", responses=documents.answers(200, Drained))
async def drain(asks: Services, worker: Name) -> Response:
    """Have a worker emptied: it gets no more tasks, and those that it has move. Repeat it to see
    how many are left.
    """
    return JSONResponse({"tasks_left": await asks.scheduler.drain(worker)})


@routes.delete("/workers/{worker}/drain", responses=documents.answers(200, Drained))
async def undrain(asks: Services, worker: Name) -> Response:
    """Let a worker have tasks again."""
    return JSONResponse({"tasks_left": await asks.scheduler.drain(worker, undo=True)})


def _worker(worker: WorkerStatus) -> dict[str, Any]:
    return {
        "id": worker.id,
        "name": worker.name,
        "address": worker.address,
        "labels": dict(worker.labels),
        "draining": worker.draining,
        "connected": worker.connected,
        "tasks": worker.tasks,
        "leaving": worker.leaving,
    }


@routes.get("/status", responses=documents.answers(200, Everything))
async def status(
    request: Request,
    asks: Services,
    sender: Sender,
    connector: Annotated[str, Query(description="One of them alone.")] = "",
) -> Response:
    """Return the states of connectors and tasks, and what each task has moved since it began."""
    if connector:  # before it is looked for: who may not see it learns nothing by it
        require(request, connector, Level.VIEWER)
    found = sender.sees(await asks.scheduler.statuses(connector))
    return JSONResponse({"connectors": [_connector(one) for one in found]})


def _connector(status: ConnectorStatus) -> dict[str, Any]:
    return {
        "name": status.name,
        "kind": status.kind.name.lower(),
        "state": status.state.name,
        "worker": status.worker,
        "why": str(status.diagnostic) if status.diagnostic else None,
        "tasks": [_task(task) for task in status.tasks],
    }


def _task(task: RunStatus) -> dict[str, Any]:
    body: dict[str, Any] = {
        **response_bodies.task_state(task),
        "state": task.state.name,
        "epoch": task.epoch,
        "restarts": task.restarts,
    }
    if task.task is None:
        return body
    return body | {
        "rows_read": task.task.rows_read,
        "rows_written": task.task.rows_written,
        "rows_failed": task.task.rows_failed,
        "bytes_read": task.task.bytes_read,
        "batches": task.task.batches,
        "rows_left": None if task.task.rows_left < 0 else task.task.rows_left,
        "bytes_left": None if task.task.bytes_left < 0 else task.task.bytes_left,
    }
