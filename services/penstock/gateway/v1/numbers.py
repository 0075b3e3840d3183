"""`/v1/status`: how everything is, with its numbers, for whoever draws rates of them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from penstock.gateway import documents, shapes
from penstock.gateway.access.guard import Sender, require
from penstock.gateway.access.people import Level
from penstock.gateway.asks import Services
from penstock.gateway.v1.documents import Everything
from penstock.model.status import ConnectorStatus, RunStatus

routes = APIRouter(prefix="/v1", tags=["v1"])


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
        **shapes.task_state(task),
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
