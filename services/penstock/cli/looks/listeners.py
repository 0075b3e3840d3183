"""Whether the places that a gateway is to listen at are free, or a gateway's already."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, Final

import httpx

from penstock.cli.looks.found import Found, refused
from penstock.gateway.server.certificates import shown_of
from penstock.gateway.server.http_server import required
from penstock.gateway.server.listeners import Place, places
from penstock.model.errors import ConfigError

WITHIN: Final = 5.0
"""Seconds for an answer of whoever is there."""

_NOTHING: Final = "/v1/doctor"
"""A path of nothing: a gateway of ours says so with a code, whoever asks; no other has codes."""


def listeners(values: Mapping[str, Any]) -> list[Found]:
    """Return how each place is, and whether what https listeners show can be read."""
    try:
        wanted = places(values["listeners"] or (), values["admin.listeners"])
        if any(place.tls for place in wanted):
            required(shown_of(values)).context()
    except ConfigError as error:
        return [refused("listeners", error, "listeners")]
    return [_one(place) for place in wanted]


def _one(place: Place) -> Found:
    what = f"listener {place.url}"
    host, _, port = place.address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host.strip("[]"), int(port)), family=family):
            return Found(what, ok=True, found="free")
    except OSError as error:
        why = error.strerror or str(error)
    if _is_ours(place):
        return Found(what, ok=True, found="a gateway answers there")
    return Found(
        what,
        ok=False,
        found=f"cannot be listened at: {why}",
        fix=f"Stop the program that is there, or name another place in `{place.key}`.",
        code="rpc.address_in_use",
        place=place.key,
    )


def _is_ours(place: Place) -> bool:
    # what listens everywhere is here, too
    url = place.url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    try:
        # who it is is not what is asked, and nothing is sent
        answer = httpx.get(f"{url}{_NOTHING}", timeout=WITHIN, verify=False)  # noqa: S501
        told = answer.json()
    except (httpx.HTTPError, ValueError):
        return False
    return isinstance(told, dict) and str(told.get("code", "")).startswith("http.")
