"""The ASGI application: its routes, and the middleware that every request passes."""

from __future__ import annotations

import time
from importlib.metadata import version
from typing import Any, Final

from fastapi import Depends, FastAPI
from opentelemetry.metrics import get_meter
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.gateway import cluster_metrics
from penstock.gateway.access.audit import AuditMiddleware, is_change
from penstock.gateway.access.guard import Guard, authorize
from penstock.gateway.access.users import REQUIRED_LEVELS
from penstock.gateway.bodies import error_responses
from penstock.gateway.clients import ServiceClients
from penstock.gateway.errors import install_error_handlers
from penstock.gateway.head_requests import HeadMiddleware
from penstock.gateway.http_server import listener_scope, refuse_other_listener
from penstock.gateway.listeners import ListenerScope
from penstock.gateway.request_input import ExactPathMiddleware
from penstock.gateway.rocketmq_connect import build_rocketmq_api
from penstock.gateway.rocketmq_connect import is_change as is_rocketmq_change
from penstock.gateway.routes import connectors, loggers, offsets, page, plugins, rocketmq, root
from penstock.gateway.v1 import cluster as cluster_routes
from penstock.gateway.v1 import (
    dead_letters,
    events,
    history,
    kept_offsets,
    live_streams,
    replay,
    signals,
    validation,
)
from penstock.rpc.traces import server_span

_DURATION: Final = get_meter("penstock").create_histogram(
    "http.server.request.duration", "s", "Duration of requests."
)

_STATUS: Final = "http.response.status_code"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class TraceMiddleware:
    """Records a span and the duration of each request. Continues the trace of the sender."""

    def __init__(self, app: ASGIApp) -> None:
        """`app` receives the requests."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = [
            (name.decode("latin-1"), one.decode("latin-1")) for name, one in scope["headers"]
        ]
        began = time.monotonic()
        attributes: dict[str, Any] = {"http.request.method": _known_method(scope["method"])}
        with server_span(scope["method"], headers) as span:

            async def send_recorded(message: Message) -> None:
                if message["type"] == "http.response.start":
                    attributes[_STATUS] = message["status"]
                    span.set_attribute(_STATUS, message["status"])
                await send(message)

            await self._app(scope, receive, send_recorded)
            # the route, not the path, which has names: their number is not bounded
            route = getattr(scope.get("route"), "path", "")
            span.update_name(f"{scope['method']} {route}".strip())
        _DURATION.record(time.monotonic() - began, {**attributes, "http.route": route})


def _known_method(method: str) -> str:
    """Return a method as a label. Unknown ones are `_OTHER`, to bound the labels (invariant 12)."""
    return method if method in _METHODS else "_OTHER"


KAFKA_ROUTERS: Final = (
    root.router,
    connectors.router,
    offsets.router,
    plugins.router,
    loggers.router,
    rocketmq.router,
    rocketmq.information,
    cluster_metrics.router,
)
"""Kafka Connect's routes, and those of RocketMQ Connect that do not clash with them."""

NATIVE_ROUTERS: Final = (
    history.router,
    validation.router,
    live_streams.router,
    events.router,
    dead_letters.router,
    replay.router,
    cluster_routes.router,
    page.router,
    kept_offsets.router,
    signals.router,
)
"""The routes that only Penstock has."""


def build_app(
    clients: ServiceClients,
    cluster: str,
    guard: Guard,
    rules: connectors.ConnectorRules | None = None,
) -> ASGIApp:
    """Return the application with its middleware.

    `clients` call the services of the cluster that is called `cluster`. `guard` authenticates the
    callers.
    """
    ours: ASGIApp = AuditMiddleware(build_api(clients, cluster, guard, rules), is_change)
    theirs: ASGIApp = AuditMiddleware(build_rocketmq_api(clients, guard, rules), is_rocketmq_change)

    ours, theirs = HeadMiddleware(ours, is_change), HeadMiddleware(theirs, is_rocketmq_change)
    if guard.origins:
        ours = CORSMiddleware(
            ours,
            allow_origins=sorted(guard.origins),
            allow_methods=guard.methods,
            allow_headers=("Accept", "Authorization", "Content-Type", "X-Requested-With"),
        )

    async def by_listener(scope: Scope, receive: Receive, send: Send) -> None:
        is_theirs = listener_scope(scope) is ListenerScope.ROCKETMQ
        await (theirs if is_theirs else ours)(scope, receive, send)

    return TraceMiddleware(ExactPathMiddleware(by_listener))


def build_api(
    clients: ServiceClients | None,
    cluster: str,
    guard: Guard | None = None,
    rules: connectors.ConnectorRules | None = None,
) -> FastAPI:
    """Return the application without middleware. Without `clients` it has only the document."""
    app = FastAPI(
        title="Penstock",
        summary="Kafka Connect's REST API, and more.",
        version=version("penstock"),
        docs_url=None,  # its pages load scripts from other sites
        redoc_url=None,
        redirect_slashes=False,  # a name may end with a slash
        openapi_url=None,  # routes.root has the route, which needs a role like the others
        dependencies=[Depends(refuse_other_listener), Depends(authorize)],
    )
    app.state.clients, app.state.cluster, app.state.was_healthy = clients, cluster, False
    app.state.guard, app.state.rules = guard or Guard(), rules or connectors.ConnectorRules()
    app.state.levels, app.state.is_change = REQUIRED_LEVELS, is_change
    install_error_handlers(app)
    for router in (*KAFKA_ROUTERS, *NATIVE_ROUTERS):
        app.include_router(router, responses=error_responses())
    return app
