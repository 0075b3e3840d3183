"""The ASGI application: its routes, and what every request passes."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from fastapi import Depends, FastAPI
from starlette.types import ASGIApp

from penstock.gateway import (
    about,
    connectors,
    documents,
    loggers,
    metrics,
    offsets,
    plugins,
    rocketmq,
    steering,
    topics,
)
from penstock.gateway.access.audit import Audited
from penstock.gateway.access.guard import Guard, guard
from penstock.gateway.asks import Asks
from penstock.gateway.failures import answer_failures
from penstock.gateway.paths import ExactPaths
from penstock.gateway.serving import served
from penstock.gateway.tracing import Traced
from penstock.gateway.v1 import (
    checking,
    configurations,
    letters,
    logs,
    looking,
    machines,
    numbers,
    rehearsing,
    replaying,
    times,
)

PARTS: Final = (
    *(about, connectors, steering, offsets, plugins, loggers, rocketmq, topics),
    metrics,
)
"""The files of Kafka Connect's routes, and RocketMQ Connect's."""

MORE: Final = (
    *(configurations, checking, rehearsing, times),
    *(looking, letters, replaying, logs, machines, numbers),
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
