"""asyncpg's errors as coded ones, by SQLSTATE: the one place where they are translated."""

from __future__ import annotations

from typing import Final

from penstock.model.errors import (
    AuthError,
    ConfigError,
    InternalError,
    PenstockError,
    RetriableError,
)

_AWAY: Final = ("08", "57P", "53300", "25P03")
"""Connections that broke, a server that stops or starts, no free connection, a transaction that
hung: the server has rolled back, or soon will."""

_BUSY: Final = ("40", "55P03", "57014")


def translate(error: BaseException, stage: str) -> PenstockError:
    """Return the coded error for one of asyncpg's, or of the connection's."""
    state = str(getattr(error, "sqlstate", "") or "")
    words = " ".join(str(error).split()) or type(error).__name__
    known = _of_the_server(state, words, stage) or _of_the_settings(state, words)
    if known is not None:
        return known
    # A connection that breaks amid a statement shows as one of many errors of asyncpg's own.
    ours = type(error).__module__.startswith("asyncpg.")
    if not state and (ours or isinstance(error, OSError | TimeoutError)):
        return _unreachable(words, stage)
    return InternalError("store.failed", f"stage {stage}: PostgreSQL answered {state}: {words}")


def _unreachable(words: str, stage: str) -> RetriableError:
    return RetriableError(
        "store.unreachable",
        f"stage {stage}: PostgreSQL does not answer: {words}",
        fix="See whether the server runs and can be reached.",
        config_path="store.url",
    )


def _of_the_server(state: str, words: str, stage: str) -> PenstockError | None:
    if state.startswith(_BUSY):
        return RetriableError(
            "store.busy",
            f"stage {stage}: PostgreSQL is held up: {words}",
            fix="See what holds locks in pg_stat_activity.",
            retry_after=0.2,
        )
    if state.startswith(_AWAY):
        return _unreachable(words, stage)
    if state == "53100":
        return RetriableError(
            "store.full",
            f"stage {stage}: PostgreSQL has no space left: {words}",
            fix="Free space there; nothing of this write was stored.",
            retry_after=1.0,
        )
    if state == "25006":
        return ConfigError(
            "store.read_only",
            "the PostgreSQL server takes no writes: it is a replica, or set read-only",
            fix="Name the primary, or add target_session_attrs=read-write to the URL.",
            config_path="store.url",
        )
    return None


def _of_the_settings(state: str, words: str) -> PenstockError | None:
    if state.startswith("28"):
        return AuthError(
            "store.credentials_refused",
            f"PostgreSQL refused the user: {words}",
            fix="Check user and password in the URL, and the server's pg_hba.conf.",
            config_path="store.url",
        )
    if state == "3D000":
        return ConfigError(
            "store.no_database",
            f"PostgreSQL: {words}",
            fix="Create the database; the schema in it is made on first use.",
            config_path="store.url",
        )
    if state == "42501":
        return AuthError(
            "store.permission_denied",
            f"PostgreSQL: {words}",
            fix="Let the user create the schema, or make it the schema's owner.",
            config_path="store.url",
        )
    return None
