"""The audit log: a line for every requested change, with principal, connector and status."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("penstock.audit")

READ_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

_RELOAD: Final = "/plugin/reload"
"""Path of RocketMQ Connect whose GET changes something."""


def is_change(method: str, path: str) -> bool:
    """Return whether a request may change something. A path with a line break at its end has the
    same route.
    """
    return method not in READ_METHODS or path.removesuffix("\n") == _RELOAD


class AuditMiddleware:
    """Logs each request that may change something."""

    def __init__(self, app: ASGIApp, changes: Callable[[str, str], bool] = is_change) -> None:
        """`app` receives the requests; by method and path `changes` finds those that are logged."""
        self._app, self._changes = app, changes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http" or not self._changes(scope["method"], scope["path"]):
            await self._app(scope, receive, send)
            return
        logged = False

        async def send_logged(message: Message) -> None:
            nonlocal logged
            if message["type"] == "http.response.start" and not logged:
                logged = True  # before the response: a client that has it finds the line
                _log_request(scope, message["status"])
            await send(message)

        scope.setdefault("state", {})
        try:
            await self._app(scope, receive, send_logged)
        finally:
            if not logged:  # the client has disconnected, but the change may have been made
                _log_request(scope, None)


def _log_request(scope: Scope, status: int | None) -> None:
    state = scope["state"]
    principal = state.get("principal")
    line = {
        "who": principal.name if principal else None,
        "from": scope["client"][0] if scope.get("client") else None,
        "method": scope["method"],
        "path": scope["path"],
        "connector": state.get("connector"),
        "status": status,
    }
    # as JSON, so that a name cannot end the line and forge another one
    log.info("%s", json.dumps(line))
