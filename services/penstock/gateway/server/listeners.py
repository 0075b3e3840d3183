"""Where the gateway listens, as Kafka Connect's `listeners` says it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final
from urllib.parse import urlsplit

from penstock.model.errors import ConfigError

USUAL: Final = ("http://127.0.0.1:8083",)
"""Where nothing else is said: Kafka Connect's port, for this machine alone."""

NOWHERE: Final = "none"


class Serves(Enum):
    """What is answered at a place: everything, or what is for admins (`/admin/…`), or the rest."""

    ALL = auto()
    ADMIN = auto()
    REST = auto()


@dataclass(frozen=True, slots=True)
class Place:
    """HOST:PORT, whether TLS is spoken there, and what is answered."""

    address: str
    tls: bool = False
    serves: Serves = Serves.ALL

    @property
    def key(self) -> str:
        """The key that says it."""
        return "admin.listeners" if self.serves is Serves.ADMIN else "listeners"

    @property
    def url(self) -> str:
        """How it is written."""
        return f"{'https' if self.tls else 'http'}://{self.address}"


def places(listeners: Iterable[str], admin: Iterable[str] | None = None) -> list[Place]:
    """Return the places of listeners; `http://:8083` is every address of the machine. `admin` are
    those of what is for admins; where nothing is said (None), `listeners` have that too.

    Raises:
        ConfigError: `config.bad_value`.
    """
    if admin is None:
        return _places(listeners, Serves.ALL)
    return [*_places(listeners, Serves.REST), *_places(admin, Serves.ADMIN)]


def _places(listeners: Iterable[str], serves: Serves) -> list[Place]:
    return [_place(listener, serves) for listener in listeners if listener != NOWHERE]


def _place(listener: str, serves: Serves) -> Place:
    bad = _bad(listener, Place("", serves=serves).key)
    try:
        parts = urlsplit(listener)
        port = parts.port
    except ValueError:
        raise bad from None
    if parts.scheme not in {"http", "https"} or port is None or parts.path not in {"", "/"}:
        raise bad
    host = parts.hostname or "0.0.0.0"  # noqa: S104 - only where a person says so
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return Place(address, parts.scheme == "https", serves)


def _bad(listener: str, key: str) -> ConfigError:
    return ConfigError(
        "config.bad_value",
        f"`{key}` cannot be {listener[:200]!r}",
        fix=f"Write http://HOST:PORT, https://HOST:PORT, or {NOWHERE}.",
        config_path=key,
    )
