"""A trace for each request: it goes on from the sender's, and in the services that are asked; and
how long it took.
"""

from __future__ import annotations

import time
from typing import Any, Final

from opentelemetry import metrics
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.rpc.tracing import served

_DURATION: Final = metrics.get_meter("penstock").create_histogram(
    "http.server.request.duration", "s", "Duration of requests."
)

_STATUS: Final = "http.response.status_code"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Traced:
    """Passes requests on, each as a part of a trace."""

    def __init__(self, app: ASGIApp) -> None:
        """`app`: who gets the requests."""
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
        told: dict[str, Any] = {"http.request.method": _method(scope["method"])}
        with served(scope["method"], headers) as span:

            async def noted(message: Message) -> None:
                if message["type"] == "http.response.start":
                    told[_STATUS] = message["status"]
                    span.set_attribute(_STATUS, message["status"])
                await send(message)

            await self._app(scope, receive, noted)
            # the route, never the path: names are many, and may be anything
            route = getattr(scope.get("route"), "path", "")
            span.update_name(f"{scope['method']} {route}".strip())
        _DURATION.record(time.monotonic() - began, {**told, "http.route": route})


def _method(sent: str) -> str:
    """Return a method as it may be a label: anybody can send any word (invariant 12)."""
    return sent if sent in _METHODS else "_OTHER"
