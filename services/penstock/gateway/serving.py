"""What is for admins (`/admin/…`) has listeners of its own, where Kafka Connect's `admin.listeners`
says so.
"""

from __future__ import annotations

from typing import Final

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.gateway.places import Serves
from penstock.model.errors import ConfigError

_ADMIN: Final = "/admin/"
_SERVES: Final = "penstock.serves"


class Served:
    """Passes the requests of a listener on, with what is answered there."""

    def __init__(self, app: ASGIApp, serves: Serves) -> None:
        """`app`: who gets the requests."""
        self._app, self._serves = app, serves

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        await self._app({**scope, _SERVES: self._serves}, receive, send)


async def served(request: Request) -> None:
    """Refuse what another listener answers, as if it were not. A dependency of every route.

    Raises:
        ConfigError: `http.other_listener`.
    """
    serves = request.scope.get(_SERVES, Serves.ALL)
    is_admin = request.scope["route"].path.startswith(_ADMIN)
    if serves is Serves.ALL or is_admin is (serves is Serves.ADMIN):
        return
    key = "admin.listeners" if is_admin else "listeners"
    raise ConfigError(
        "http.other_listener",
        f"there is nothing at {request.url.path[:200]} of this listener",
        fix=f"Ask where `{key}` of the gateway says.",
    )
