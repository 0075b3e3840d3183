"""Errors of etcd with their codes. Only this module interprets the statuses of gRPC.

A failed call is of one of four kinds. The kind alone decides what is done next:

    REFUSED    etcd refused the call; repeating it changes nothing
    LOGIN      the token has expired; log in and repeat
    UNTOUCHED  the call had no effect; repeat it at any member
    UNKNOWN    the call may have had its effect; repeat it only when it may have it twice
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

MIN_VERSION: Final = (3, 4)
"""The oldest supported version of etcd. Older ones get no fixes and are not tested."""


class FailureKind(Enum):
    """What a failed call means for its effect."""

    REFUSED = "refused"
    LOGIN = "login"
    UNTOUCHED = "untouched"
    UNKNOWN = "unknown"


class CompactedError(RetriableError):
    """etcd no longer has the requested revision. List again, and continue from there."""

    def __init__(self, message: str) -> None:
        super().__init__("etcd.compacted", message, fix="List again, and watch from there.")


class OutcomeUnknownError(RetriableError):
    """A write may or may not have been made. Read before writing again."""

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(
            "etcd.outcome_unknown",
            f"stage {stage}: no answer came; the write may have been made or not: {reason}",
            fix="Read again, and repeat the change if it was not made.",
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


def classify_failure(code: grpc.StatusCode, details: str) -> FailureKind:
    """Return the kind of a failed call with this status."""
    text = details.lower()
    if any(phrase in text for phrase in _LOGIN):
        return FailureKind.LOGIN
    if any(phrase in text for phrase in _UNTOUCHED):
        return FailureKind.UNTOUCHED
    if code in {
        grpc.StatusCode.INTERNAL,  # from gRPC itself: etcd does not use this code
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.ABORTED,
    }:
        return FailureKind.UNKNOWN
    return FailureKind.REFUSED


def refusal_error(code: grpc.StatusCode, details: str, stage: str, user: str) -> PenstockError:
    """Return the coded error for a call that etcd refused."""
    text = details.lower()
    known = _credentials_error(text, stage, user) or _limit_error(text, stage)
    return known or InternalError(
        "etcd.failed", f"stage {stage}: etcd answered {code.name}: {text}"
    )


def unreachable(
    endpoints: tuple[str, ...], timeout_s: float, stage: str, why: str
) -> RetriableError:
    """Return the error when no member answered within `timeout_s`."""
    within = f"{round(timeout_s, 1):g} s"
    return RetriableError(
        "etcd.unreachable",
        f"stage {stage}: none of {', '.join(endpoints)} answered within {within}: {why}",
        fix="Check that etcd runs there, that it can be reached, and whether it expects TLS.",
        config_path="etcd.endpoints",
    )


def other_cluster(endpoint: str, expected: int, found: int) -> ConfigError:
    """Return the error for an endpoint that belongs to another etcd cluster."""
    return ConfigError(
        "etcd.other_cluster",
        f"{endpoint} belongs to etcd cluster {found:x}, the other endpoints to {expected:x}",
        fix="Name members of one etcd cluster only. After a rebuild of etcd restart all services.",
        config_path="etcd.endpoints",
    )


def check_version(endpoint: str, version: str) -> None:
    """Refuse an etcd that is too old. A version that cannot be parsed passes.

    Raises:
        ConfigError: `etcd.unsupported_version`.
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < MIN_VERSION:
        raise ConfigError(
            "etcd.unsupported_version",
            f"{endpoint} is etcd {version}; the oldest supported version is "
            f"{MIN_VERSION[0]}.{MIN_VERSION[1]}",
            fix="Upgrade etcd, one minor version at a time.",
            config_path="etcd.endpoints",
        )


def _credentials_error(text: str, stage: str, user: str) -> PenstockError | None:
    if "invalid user id or password" in text:
        return AuthError(
            "etcd.credentials_refused",
            f"etcd refused the password of user `{user}`",
            fix="Check user and password. `etcdctl user get` shows whether the user exists.",
            config_path="etcd.user",
        )
    if "user name is empty" in text or "user name not found" in text:
        return AuthError(
            "etcd.credentials_missing",
            f"stage {stage}: etcd requires a user and does not know `{user}`",
            fix="Set etcd.user and etcd.password.",
            config_path="etcd.user",
        )
    if "permission denied" in text:
        return AuthError(
            "etcd.permission_denied",
            f"stage {stage}: user `{user}` of etcd lacks the permission",
            fix="Grant the role of the user readwrite on the prefix of the cluster.",
            config_path="etcd.user",
        )
    return None


def _limit_error(text: str, stage: str) -> PenstockError | None:
    if "has been compacted" in text:
        return CompactedError(f"stage {stage}: etcd has compacted the revision")
    if "too many operations" in text or "request is too large" in text:
        return ConfigError(
            "etcd.request_too_large",
            f"stage {stage}: the request exceeds a limit of etcd: {text}",
            fix="Split the change, or raise --max-txn-ops and --max-request-bytes of etcd.",
        )
    if "received message larger than max" in text:
        return ConfigError(
            "etcd.answer_too_large",
            f"stage {stage}: the response is larger than this client accepts",
            fix="Read fewer keys at once.",
        )
    if "database space exceeded" in text:
        return RetriableError(
            "etcd.no_space",
            f"stage {stage}: the database of etcd has reached its quota and accepts no writes",
            fix="Compact and defragment etcd, raise --quota-backend-bytes, then disarm the alarm.",
            retry_after_s=5.0,
        )
    if "lease not found" in text:
        return RetriableError(
            "etcd.lease_lost",
            f"stage {stage}: the lease has ended",
            fix="A new lease is granted. If it repeats, raise `lease.ttl`, or speed up etcd.",
        )
    return None
