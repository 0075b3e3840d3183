"""HEAD: a GET whose answer has no body, as Kafka Connect's server answers it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadMiddleware:
    """Handles a HEAD as the GET of the same path, unless that GET changes something."""

    def __init__(self, app: ASGIApp, is_change: Callable[[str, str], bool]) -> None:
        """`app` receives the requests; `is_change` tells it of a method and path."""
        self._app, self._is_change = app, is_change

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        is_head = scope["type"] == "http" and scope["method"] == "HEAD"
        if not is_head or self._is_change("GET", scope["path"]):
            await self._app(scope, receive, send)
            return
        is_sent = False

        async def send_head(message: Message) -> None:
            nonlocal is_sent
            if message["type"] != "http.response.body":
                await send(message)
            elif is_sent:
                raise OSError("the answer to a HEAD has ended")  # ends a stream, as a lost client
            else:
                is_sent = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        with suppress(ClientDisconnect, OSError):
            await self._app({**scope, "method": "GET"}, receive, send_head)
