"""`/v1/cluster`, `/v1/workers/{worker}`: who is there, and emptying one."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from penstock.gateway import documents
from penstock.gateway.asks import Services
from penstock.gateway.paths import Name
from penstock.gateway.v1.documents import ClusterView, Drained
from penstock.model.status import WorkerStatus

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
