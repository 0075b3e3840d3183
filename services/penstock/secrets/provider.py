"""What a provider of secrets is, and the errors that all of them have in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.model.errors import ConfigError, RetriableError


@dataclass(frozen=True, slots=True)
class Answer:
    """What a provider knows of a path; keys that it has not are absent. `ttl`: seconds until it is
    to be asked again, None for never.
    """

    values: Mapping[str, str]
    ttl: float | None = None


class Provider(Protocol):
    """Reads secrets. Asked anew each time: it keeps no value."""

    async def read(self, path: str, keys: Collection[str]) -> Answer:
        """Read keys at a path.

        Raises:
            ConfigError: `secrets.refused`, `secrets.not_found`: asking again does not help.
            RetriableError: `secrets.unreachable`: it may.
        """

    async def close(self) -> None:
        """Let go of what it holds. Idempotent."""


def refused(what: str, fix: str) -> ConfigError:
    """Return the error of something that a reference may not read."""
    return ConfigError("secrets.refused", what, fix=fix)


def not_found(what: str, fix: str) -> ConfigError:
    """Return the error of something that is not there."""
    return ConfigError("secrets.not_found", what, fix=fix)


def unreachable(what: str, fix: str) -> RetriableError:
    """Return the error of a place that does not answer."""
    return RetriableError("secrets.unreachable", what, fix=fix)
