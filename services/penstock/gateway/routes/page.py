"""`/ui`: a page that shows the cluster in a browser, by routes under `/v1`, and changes nothing."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response

router = APIRouter(include_in_schema=False)

_HEADERS: Final = {
    # the page asks its own gateway and nobody else, and nothing in it is read as a script
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


@router.get("/ui")
async def get_page() -> Response:
    """Return the page."""
    return _respond("index.html", "text/html")


@router.get("/ui/page.css")
async def get_style() -> Response:
    """Return how the page looks."""
    return _respond("page.css", "text/css")


@router.get("/ui/page.mjs")
async def get_script() -> Response:
    """Return what the page does."""
    return _respond("page.mjs", "text/javascript")


def _respond(file: str, media_type: str) -> Response:
    return Response(_read(file), media_type=media_type, headers=_HEADERS)


@lru_cache
def _read(file: str) -> bytes:
    return (files("penstock.gateway") / "page" / file).read_bytes()
