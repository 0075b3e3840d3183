"""Names in paths, whatever is in them: a name may hold `/`, spaces, `%`, any letter.

Servers hand applications a path that is decoded already, in which a `%2F` of a name can not be told
from a `/` between two parts. So the path is taken as it was sent and decoded part by part; within a
part `%` and `/` stay encoded for the router, and `Name` decodes what a parameter gets.
"""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import unquote_to_bytes

from fastapi import Path
from pydantic import AfterValidator
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.gateway.errors import refused

LONGEST: Final = 8 << 10
"""Bytes of a path: names are far shorter. What is longer is no name of anything here."""


class ExactPaths:
    """Passes requests on with paths that a router can take apart."""

    def __init__(self, app: ASGIApp) -> None:
        """`app`: who gets the requests."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http":
            raw: bytes = scope.get("raw_path") or scope["path"].encode()
            if len(raw) > LONGEST:
                await refused(414, "http.path", f"the path has {len(raw)} bytes")(
                    scope, receive, send
                )
                return
            try:
                scope = {**scope, "path": exact(raw.partition(b"?")[0])}
            except UnicodeDecodeError:
                await refused(400, "http.path", "the path is not UTF-8")(scope, receive, send)
                return
        await self._app(scope, receive, send)


def exact(raw: bytes) -> str:
    """Return a path whose parts are decoded but for `/` and `%`. A slash at its end, which some
    clients write, says nothing: that of a name is encoded.

    Raises:
        UnicodeDecodeError: a part is not UTF-8.
    """
    whole = raw.removesuffix(b"/") or raw
    parts = (unquote_to_bytes(part).decode() for part in whole.split(b"/"))
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


def decoded(part: str) -> str:
    """Return what a part of such a path means."""
    return part.replace("%2F", "/").replace("%25", "%")


def _validator(part: Any) -> str:
    return decoded(str(part))


Name = Annotated[str, Path(description="Name, percent-encoded."), AfterValidator(_validator)]
"""A parameter that is a name."""

MOST: Final = (1 << 63) - 1
"""Largest number that services take: one that is larger is the number of nothing."""

Number = Annotated[int, Path(ge=0, le=MOST)]
"""A parameter that is the number of a task, or of a version."""
