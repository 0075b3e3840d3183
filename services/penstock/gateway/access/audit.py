"""A line for every change that is asked for: who, what, of which connector, from where, and how it
ended.
"""

from __future__ import annotations

import json
import logging
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("penstock.audit")

READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})

CHANGING: Final = frozenset({"/plugin/reload"})
"""Paths by which a GET changes something, as RocketMQ Connect has it."""


class Audited:
    """Passes requests on, and tells of those that may have changed something."""

    def __init__(self, app: ASGIApp) -> None:
        """`app`: who gets the requests."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http" or (
            scope["method"] in READING and scope["path"] not in CHANGING
        ):
            await self._app(scope, receive, send)
            return
        written = False

        async def noted(message: Message) -> None:
            nonlocal written
            if message["type"] == "http.response.start" and not written:
                written = True  # before the answer: who has it can look it up
                _write(scope, message["status"])
            await send(message)

        scope.setdefault("state", {})
        try:
            await self._app(scope, receive, noted)
        finally:
            if not written:  # nobody waits for the answer any more, and it may have been done
                _write(scope, None)


def _write(scope: Scope, status: int | None) -> None:
    state = scope["state"]
    person = state.get("person")
    line = {
        "who": person.name if person else None,
        "from": scope["client"][0] if scope.get("client") else None,
        "method": scope["method"],
        "path": scope["path"],
        "connector": state.get("connector"),
        "status": status,
    }
    # JSON: a name can neither end the line nor forge another one
    log.info("%s", json.dumps(line))
