"""The port of a secret provider, and the errors that all providers share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.model.errors import ConfigError, RetriableError


@dataclass(frozen=True, slots=True)
class ProviderResponse:
    """Values of a path by key; missing keys are absent."""

    values: Mapping[str, str]
    ttl_s: float | None = None
    """Seconds until the values are read again; None: never."""


class Provider(Protocol):
    """Reads secrets. It keeps no values: each read is a new one."""

    async def read(self, path: str, keys: Collection[str]) -> ProviderResponse:
        """Read keys at a path.

        Raises:
            ConfigError: `secrets.refused`, `secrets.not_found`: a retry does not help.
            RetriableError: `secrets.unreachable`: a retry may help.
        """

    async def close(self) -> None:
        """Close its connections. Idempotent."""


def refused(message: str, fix: str) -> ConfigError:
    """Return the error for a secret that may not be read."""
    return ConfigError("secrets.refused", message, fix=fix)


def not_found(message: str, fix: str) -> ConfigError:
    """Return the error for a secret that does not exist."""
    return ConfigError("secrets.not_found", message, fix=fix)


def unreachable(message: str, fix: str) -> RetriableError:
    """Return the error for a provider that does not answer."""
    return RetriableError("secrets.unreachable", message, fix=fix)
