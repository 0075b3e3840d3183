"""Which database, which schema, and how it is connected to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from penstock.model.errors import ConfigError
from penstock.store.postgresql.errors import translate
from penstock.telemetry import Secret

TRY_FOR: Final = 10.0
"""Seconds that a call is tried again while the server is away. Covers a restart after a crash;
longer hides from the caller that the server is gone."""

START_FOR: Final = 30.0
"""Seconds that a service waits for the server at its start."""

COMMAND_TIMEOUT: Final = 30.0
"""Seconds that one statement may take; a page of a million keys takes some."""

_SESSION: Final = {
    # Whatever the server's default is: acknowledged means durable (invariants 1 and 2).
    "synchronous_commit": "on",
    # A writer that hangs inside a transaction holds up all others for no longer than this.
    "idle_in_transaction_session_timeout": "5000",
    "lock_timeout": "10000",
    "application_name": "penstock",
}
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class PostgresqlSettings:
    """`url` as libpq takes it: `postgresql://user:password@host/database`. One schema a cluster."""

    url: Secret
    schema: str = "penstock"
    try_for: float = TRY_FOR
    start_for: float = START_FOR

    def __post_init__(self) -> None:
        """Refuse what cannot be.

        Raises:
            ConfigError: `store.bad_schema`.
        """
        if not _SCHEMA.fullmatch(self.schema):
            raise ConfigError(
                "store.bad_schema",
                f"`{self.schema}` cannot be the name of the schema",
                fix="Use a-z, 0-9 and `_`, not a digit first, at most 63.",
                config_path="store.schema",
            )

    def place(self) -> str:
        """Return which database and schema it is, without user, password and host: services may
        know the host by different names.
        """
        return f"{urlsplit(self.url.reveal()).path.strip('/')} {self.schema}"

    async def connect(self) -> Any:
        """Return a connection.

        Raises:
            PenstockError: `store.unreachable`, `store.credentials_refused`, ….
        """
        try:
            return await asyncpg().connect(self.url.reveal(), timeout=5.0, **self.session())
        except (ValueError, asyncpg().ClientConfigurationError) as error:
            raise ConfigError(
                "store.bad_url",
                f"the URL of the database is not one: {type(error).__name__}",
                fix="Write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE.",
                config_path="store.url",
            ) from None  # the text may quote the password
        except (OSError, asyncpg().PostgresError) as error:
            raise translate(error, "connect") from error

    def session(self) -> dict[str, Any]:
        """Return what every connection is opened with."""
        return {
            "command_timeout": COMMAND_TIMEOUT,
            "server_settings": {**_SESSION, "search_path": self.schema},
        }


def asyncpg() -> Any:
    """Return the driver's library.

    Raises:
        ConfigError: `store.no_driver`: it is an extra.
    """
    try:
        import asyncpg as library  # noqa: PLC0415 - an extra: only who asks for it needs it
    except ImportError as error:
        raise ConfigError(
            "store.no_driver",
            "the store `postgresql` needs asyncpg, which is not installed",
            fix="pip install 'penstock[postgresql]'",
        ) from error
    return library
