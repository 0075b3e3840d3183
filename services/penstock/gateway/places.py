"""Where the gateway listens, as Kafka Connect's `listeners` says it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from penstock.model.errors import ConfigError

USUAL: Final = ("http://127.0.0.1:8083",)
"""Where nothing else is said: Kafka Connect's port, for this machine alone."""

NOWHERE: Final = "none"


@dataclass(frozen=True, slots=True)
class Place:
    """HOST:PORT, and whether TLS is spoken there."""

    address: str
    tls: bool = False

    @property
    def url(self) -> str:
        """How it is written."""
        return f"{'https' if self.tls else 'http'}://{self.address}"


def places(listeners: Iterable[str]) -> list[Place]:
    """Return the places of listeners; `http://:8083` is every address of the machine.

    Raises:
        ConfigError: `config.bad_value`.
    """
    return [_place(listener) for listener in listeners if listener != NOWHERE]


def _place(listener: str) -> Place:
    try:
        parts = urlsplit(listener)
        port = parts.port
    except ValueError:
        raise _bad(listener) from None
    if parts.scheme not in {"http", "https"} or port is None or parts.path not in {"", "/"}:
        raise _bad(listener)
    host = parts.hostname or "0.0.0.0"  # noqa: S104 - only where a person says so
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return Place(address, parts.scheme == "https")


def _bad(listener: str) -> ConfigError:
    return ConfigError(
        "config.bad_value",
        f"`listeners` cannot be {listener[:200]!r}",
        fix=f"Write http://HOST:PORT, https://HOST:PORT, or {NOWHERE}.",
        config_path="listeners",
    )
