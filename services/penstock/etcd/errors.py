"""etcd's errors as coded ones: the one place where gRPC's exceptions of this room are translated.

A failed call is one of four kinds, and what may be done about it follows from the kind alone:

    REFUSED    etcd said no; saying it again changes nothing
    LOGIN      the token is too old; log in and repeat
    UNTOUCHED  nothing was done; repeat anywhere
    UNKNOWN    it may have been done; only what may happen twice is repeated
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

import grpc

from penstock.model.errors import (
    AuthError,
    ConfigError,
    InternalError,
    PenstockError,
    RetriableError,
)

OLDEST: Final = (3, 4)
"""The oldest etcd that is taken. Nobody mends those before, and none of them was tried."""


class Kind(Enum):
    """What is known after a failed call."""

    REFUSED = "refused"
    LOGIN = "login"
    UNTOUCHED = "untouched"
    UNKNOWN = "unknown"


class CompactedError(RetriableError):
    """The events that a watch or read asked for are forgotten. List again, go on after that."""

    def __init__(self, message: str) -> None:
        """Say what was asked for."""
        super().__init__("etcd.compacted", message, fix="List again, and watch from there.")


class OutcomeUnknownError(RetriableError):
    """A write may or may not have happened. Read before writing again."""

    def __init__(self, stage: str, reason: str) -> None:
        """Name the stage and why its end is not known."""
        super().__init__(
            "etcd.outcome_unknown",
            f"stage {stage}: no answer came, the write may have happened or not: {reason}",
            fix="Read again, and repeat the change when it is not there.",
        )


_UNTOUCHED: Final = (
    "etcdserver: no leader",
    "etcdserver: not capable",
    "etcdserver: too many requests",
    "etcdserver: unhealthy cluster",
    "rpc not supported for learner",
    "failed to connect",  # gRPC: the request never left
    "dns resolution failed",
    "name resolution failure",
    "empty address list",
)
_LOGIN: Final = ("invalid auth token", "revision of auth store is old")


def kind_of(code: grpc.StatusCode, details: str) -> Kind:
    """Return what is known after an answer with this status."""
    text = details.lower()
    if any(words in text for words in _LOGIN):
        return Kind.LOGIN
    if any(words in text for words in _UNTOUCHED):
        return Kind.UNTOUCHED
    if code in {
        grpc.StatusCode.INTERNAL,  # gRPC's own: etcd answers with no such code
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.ABORTED,
    }:
        return Kind.UNKNOWN
    return Kind.REFUSED


def refused(code: grpc.StatusCode, details: str, stage: str, user: str) -> PenstockError:
    """Return the coded error for a call that etcd refused."""
    text = details.lower()
    known = _of_credentials(text, stage, user) or _of_limits(text, stage)
    return known or InternalError(
        "etcd.failed", f"stage {stage}: etcd answered {code.name}: {text}"
    )


def unreachable(endpoints: tuple[str, ...], seconds: float, stage: str, why: str) -> RetriableError:
    """Return the error for members that did not answer in all that time."""
    within = f"{round(seconds, 1):g} s"
    return RetriableError(
        "etcd.unreachable",
        f"stage {stage}: none of {', '.join(endpoints)} answered within {within}: {why}",
        fix="See whether etcd runs there and can be reached, and whether it expects TLS.",
        config_path="etcd.endpoints",
    )


def other_cluster(endpoint: str, expected: int, found: int) -> ConfigError:
    """Return the error for an endpoint that belongs to another etcd cluster."""
    return ConfigError(
        "etcd.other_cluster",
        f"{endpoint} answers for etcd cluster {found:x}, the others are of {expected:x}",
        fix="Name members of one etcd cluster only; after a rebuild of etcd restart all services.",
        config_path="etcd.endpoints",
    )


def refuse_older(endpoint: str, version: str) -> None:
    """Refuse an etcd that is too old. What its version is cannot always be read: then it passes.

    Raises:
        ConfigError: `etcd.unsupported_version`.
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < OLDEST:
        raise ConfigError(
            "etcd.unsupported_version",
            f"{endpoint} is etcd {version}, the oldest that is taken is {OLDEST[0]}.{OLDEST[1]}",
            fix="Upgrade etcd, one minor version after the other.",
            config_path="etcd.endpoints",
        )


def _of_credentials(text: str, stage: str, user: str) -> PenstockError | None:
    if "invalid user id or password" in text:
        return AuthError(
            "etcd.credentials_refused",
            f"etcd refused the password of user `{user}`",
            fix="Check user and password: `etcdctl user get` shows whether the user exists.",
            config_path="etcd.user",
        )
    if "user name is empty" in text or "user name not found" in text:
        return AuthError(
            "etcd.credentials_missing",
            f"stage {stage}: etcd wants a user, and `{user}` is not one it knows",
            fix="Set etcd.user and etcd.password.",
            config_path="etcd.user",
        )
    if "permission denied" in text:
        return AuthError(
            "etcd.permission_denied",
            f"stage {stage}: etcd does not let user `{user}` do this",
            fix="Grant the user's role readwrite on the prefix of the cluster.",
            config_path="etcd.user",
        )
    return None


def _of_limits(text: str, stage: str) -> PenstockError | None:
    if "has been compacted" in text:
        return CompactedError(f"stage {stage}: the revision is older than what etcd remembers")
    if "too many operations" in text or "request is too large" in text:
        return ConfigError(
            "etcd.request_too_large",
            f"stage {stage}: over a limit of etcd: {text}",
            fix="Split the change, or raise --max-txn-ops and --max-request-bytes of etcd.",
        )
    if "received message larger than max" in text:
        return ConfigError(
            "etcd.answer_too_large",
            f"stage {stage}: the answer is larger than this client takes",
            fix="Read fewer keys at once.",
        )
    if "database space exceeded" in text:
        return RetriableError(
            "etcd.no_space",
            f"stage {stage}: etcd's database has reached its quota and takes no writes",
            fix="Compact and defragment etcd, raise --quota-backend-bytes, then disarm the alarm.",
            retry_after=5.0,
        )
    if "lease not found" in text:
        return RetriableError(
            "etcd.lease_lost",
            f"stage {stage}: the lease has ended",
            fix="A new one is made; if it repeats, see how slow etcd is, or raise lease.ttl.",
        )
    return None
