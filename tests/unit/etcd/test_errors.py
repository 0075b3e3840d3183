"""What a failed call means, from what etcd and gRPC say."""

import pytest
from grpc import StatusCode

from penstock.etcd.errors import FailureKind, classify_failure, refusal_error
from penstock.model.errors import ErrorClass


@pytest.mark.parametrize(
    ("code", "words", "kind"),
    [
        (StatusCode.UNAVAILABLE, "etcdserver: no leader", FailureKind.UNTOUCHED),
        (StatusCode.UNAVAILABLE, "failed to connect to all addresses; …", FailureKind.UNTOUCHED),
        (StatusCode.RESOURCE_EXHAUSTED, "etcdserver: too many requests", FailureKind.UNTOUCHED),
        (StatusCode.UNAVAILABLE, "etcdserver: leader changed", FailureKind.UNKNOWN),
        (StatusCode.UNAVAILABLE, "etcdserver: request timed out", FailureKind.UNKNOWN),
        (StatusCode.UNAVAILABLE, "Socket closed", FailureKind.UNKNOWN),
        (StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", FailureKind.UNKNOWN),
        (StatusCode.CANCELLED, "", FailureKind.UNKNOWN),
        (StatusCode.INTERNAL, "Internal error from Core", FailureKind.UNKNOWN),
        (StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token", FailureKind.LOGIN),
        (
            StatusCode.INVALID_ARGUMENT,
            "etcdserver: revision of auth store is old",
            FailureKind.LOGIN,
        ),
        (StatusCode.PERMISSION_DENIED, "etcdserver: permission denied", FailureKind.REFUSED),
        (StatusCode.INVALID_ARGUMENT, "etcdserver: request is too large", FailureKind.REFUSED),
    ],
)
def test_what_is_known_after_a_failure(code, words, kind):
    """Taking an UNKNOWN for an UNTOUCHED would write twice."""
    assert classify_failure(code, words) is kind


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        (
            "etcdserver: authentication failed, invalid user ID or password",
            "etcd.credentials_refused",
            ErrorClass.AUTH,
        ),
        ("etcdserver: user name is empty", "etcd.credentials_missing", ErrorClass.AUTH),
        ("etcdserver: permission denied", "etcd.permission_denied", ErrorClass.AUTH),
        (
            "etcdserver: mvcc: required revision has been compacted",
            "etcd.compacted",
            ErrorClass.RETRIABLE,
        ),
        (
            "etcdserver: too many operations in txn request",
            "etcd.request_too_large",
            ErrorClass.CONFIG,
        ),
        ("etcdserver: mvcc: database space exceeded", "etcd.no_space", ErrorClass.RETRIABLE),
        ("etcdserver: requested lease not found", "etcd.lease_lost", ErrorClass.RETRIABLE),
        ("etcdserver: something new", "etcd.failed", ErrorClass.INTERNAL),
    ],
)
def test_every_refusal_has_its_code(words, code, kind):
    error = refusal_error(StatusCode.UNKNOWN, words, "stage", "someone")
    assert (error.code, error.diagnostic.error_class) == (code, kind)
