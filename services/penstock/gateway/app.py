"""The ASGI application: its routes, and what every request passes."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from fastapi import Depends, FastAPI
from starlette.types import ASGIApp

from penstock.gateway import documents
from penstock.gateway.access.audit import Audited
from penstock.gateway.access.guard import Guard, guard
from penstock.gateway.clients import Asks
from penstock.gateway.errors import answer_failures
from penstock.gateway.metrics import route as metrics
from penstock.gateway.paths import ExactPaths
from penstock.gateway.routes import (
    connectors,
    loggers,
    offsets,
    plugins,
    rocketmq,
    root,
    target_state,
    topics,
)
from penstock.gateway.server.http_server import served
from penstock.gateway.tracing import Traced
from penstock.gateway.v1 import cluster as cluster_routes
from penstock.gateway.v1 import (
    configurations,
    dead_letters,
    live_rows,
    logs,
    offset_history,
    replay,
    validation,
)

PARTS: Final = (
    *(root, connectors, target_state, offsets, plugins, loggers, rocketmq, topics),
    metrics,
)
"""The files of Kafka Connect's routes, and RocketMQ Connect's."""

MORE: Final = (
    *(configurations, validation, offset_history),
    *(live_rows, dead_letters, replay, logs, cluster_routes),
)
"""The files of our own."""


def application(
    asks: Asks, cluster: str, asked: Guard, tracking: topics.Tracking | None = None
) -> ASGIApp:
    """Return the application; `cluster` is the name of the cluster whose services `asks` are,
    `asked` says who may what, and `tracking` is that of topics.
    """
    return Traced(ExactPaths(Audited(framework(asks, cluster, asked, tracking))))


def framework(
    asks: Asks | None,
    cluster: str,
    asked: Guard | None = None,
    tracking: topics.Tracking | None = None,
) -> FastAPI:
    """Return what takes requests apart. Without `asks` it only has a document."""
    app = FastAPI(
        title="Penstock",
        summary="Kafka Connect's REST API, and more.",
        version=version("penstock"),
        docs_url=None,  # its pages fetch scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # a name may end with a slash
        openapi_url=None,  # a route of ours, which is guarded like the others
        dependencies=[Depends(served), Depends(guard)],
    )
    app.state.asks, app.state.cluster, app.state.was_healthy = asks, cluster, False
    app.state.guard, app.state.tracking = asked or Guard(), tracking or topics.Tracking()
    answer_failures(app)
    for part in (*PARTS, *MORE):
        app.include_router(part.routes, responses=documents.failures())
    return app
