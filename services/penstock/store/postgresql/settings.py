"""Settings and connections of a PostgreSQL store, and errors of asyncpg with their codes.

Only `translate_error` interprets errors of asyncpg, by their SQLSTATE.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from penstock.model.errors import (
    AuthError,
    ConfigError,
    InternalError,
    PenstockError,
    RetriableError,
)
from penstock.telemetry.redaction import Secret

_UNAVAILABLE: Final = ("08", "57P", "53300", "25P03")
"""SQLSTATEs of broken connections, a server that stops or starts, no free connection, and a hanging
transaction: the server has rolled back, or will soon."""

_BUSY: Final = ("40", "55P03", "57014")

RETRY_TIMEOUT_S: Final = 10.0
"""Time that a call is repeated while the server is unavailable. Covers a restart after a crash; a
longer time hides from the caller that the server is down."""

CONNECT_TIMEOUT_S: Final = 30.0
"""Time that a service waits for the server at its start."""

COMMAND_TIMEOUT_S: Final = 30.0
"""Time of one statement; a page of a million keys takes several seconds."""

_SESSION: Final = {
    # Independent of the default of the server: acknowledged means durable (invariants 1 and 2).
    "synchronous_commit": "on",
    # A writer that hangs in a transaction blocks all others for at most this time.
    "idle_in_transaction_session_timeout": "5000",
    "lock_timeout": "10000",
    "application_name": "penstock",
}

_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class PostgresqlSettings:
    """The database (`postgresql://user:password@host/database`) and the schema of a cluster."""

    url: Secret
    schema: str = "penstock"
    retry_timeout_s: float = RETRY_TIMEOUT_S
    connect_timeout_s: float = CONNECT_TIMEOUT_S

    def __post_init__(self) -> None:
        """Check the name of the schema.

        Raises:
            ConfigError: `store.bad_schema`.
        """
        if not _SCHEMA.fullmatch(self.schema):
            raise ConfigError(
                "store.bad_schema",
                f"`{self.schema}` is not a valid name of a schema",
                fix="Use at most 63 of a-z, 0-9 and `_`, without a digit at the beginning.",
                config_path="store.schema",
            )

    def location(self) -> str:
        """Return database and schema, without user, password and host: services may use
        different names of the host.
        """
        return f"{urlsplit(self.url.reveal()).path.strip('/')} {self.schema}"

    async def connect(self) -> Any:
        """Open a connection.

        Raises:
            PenstockError: `store.unreachable`, `store.credentials_refused`, ….
        """
        try:
            return await asyncpg().connect(self.url.reveal(), timeout=5.0, **self.session())
        except (ValueError, asyncpg().ClientConfigurationError) as error:
            raise ConfigError(
                "store.bad_url",
                f"the URL of the database is invalid: {type(error).__name__}",
                fix="Write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE.",
                config_path="store.url",
            ) from None  # the text may quote the password
        except (OSError, asyncpg().PostgresError) as error:
            raise translate_error(error, "connect") from error

    def session(self) -> dict[str, Any]:
        """Return the options of every connection."""
        return {
            "command_timeout": COMMAND_TIMEOUT_S,
            "server_settings": {**_SESSION, "search_path": self.schema},
        }


def asyncpg() -> Any:
    """Return the module asyncpg.

    Raises:
        ConfigError: `store.no_driver`: asyncpg is not installed; it is an extra.
    """
    try:
        import asyncpg as library  # noqa: PLC0415 - an extra, needed by this store only
    except ImportError as error:
        raise ConfigError(
            "store.no_driver",
            "the store `postgresql` needs asyncpg, which is not installed",
            fix="pip install 'penstock[postgresql]'",
        ) from error
    return library


def translate_error(error: BaseException, stage: str) -> PenstockError:
    """Return the coded error for an error of asyncpg or of the connection."""
    state = str(getattr(error, "sqlstate", "") or "")
    text = " ".join(str(error).split()) or type(error).__name__
    known = _server_error(state, text, stage) or _settings_error(state, text)
    if known is not None:
        return known
    # A connection that breaks during a statement raises one of many errors of asyncpg itself.
    is_of_asyncpg = type(error).__module__.startswith("asyncpg.")
    if not state and (is_of_asyncpg or isinstance(error, OSError | TimeoutError)):
        return _unreachable(text, stage)
    return InternalError("store.failed", f"stage {stage}: PostgreSQL answered {state}: {text}")


def _unreachable(text: str, stage: str) -> RetriableError:
    return RetriableError(
        "store.unreachable",
        f"stage {stage}: PostgreSQL does not answer: {text}",
        fix="Check that the server runs and can be reached.",
        config_path="store.url",
    )


def _server_error(state: str, text: str, stage: str) -> PenstockError | None:
    if state.startswith(_BUSY):
        return RetriableError(
            "store.busy",
            f"stage {stage}: PostgreSQL waits for a lock: {text}",
            fix="Find the session that holds locks in pg_stat_activity.",
            retry_after_s=0.2,
        )
    if state.startswith(_UNAVAILABLE):
        return _unreachable(text, stage)
    if state == "53100":
        return RetriableError(
            "store.full",
            f"stage {stage}: PostgreSQL has no space left: {text}",
            fix="Free space on the server. Nothing of this write was stored.",
            retry_after_s=1.0,
        )
    if state == "25006":
        return ConfigError(
            "store.read_only",
            "the PostgreSQL server accepts no writes: it is a replica, or read-only",
            fix="Name the primary, or add target_session_attrs=read-write to the URL.",
            config_path="store.url",
        )
    return None


def _settings_error(state: str, text: str) -> PenstockError | None:
    if state.startswith("28"):
        return AuthError(
            "store.credentials_refused",
            f"PostgreSQL refused the user: {text}",
            fix="Check user and password in the URL, and pg_hba.conf of the server.",
            config_path="store.url",
        )
    if state == "3D000":
        return ConfigError(
            "store.no_database",
            f"PostgreSQL: {text}",
            fix="Create the database. Its schema is created at the first use.",
            config_path="store.url",
        )
    if state == "42501":
        return AuthError(
            "store.permission_denied",
            f"PostgreSQL: {text}",
            fix="Allow the user to create the schema, or make the user its owner.",
            config_path="store.url",
        )
    return None
