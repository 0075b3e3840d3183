"""HEAD: a GET whose answer has no body, as Kafka Connect's server answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.aio import cancel_and_wait

END_S: Final = 1.0
"""Time for the end of a route whose answer has been sent. Then it is a stream that waits for lines,
and is cancelled."""


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
        is_sent = asyncio.Event()

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                # at once: the next request of the connection waits for the end of this answer
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                is_sent.set()

        app = asyncio.ensure_future(self._app({**scope, "method": "GET"}, receive, send_head))
        sent = asyncio.ensure_future(is_sent.wait())
        try:
            await asyncio.wait({app, sent}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({app}, timeout=END_S)
            if app.done():
                app.result()
        finally:
            await cancel_and_wait(app)
            await cancel_and_wait(sent)
