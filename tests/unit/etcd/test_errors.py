"""What a failed call means, from what etcd and gRPC say."""

import pytest
from grpc import StatusCode

from penstock.etcd.errors import Kind, kind_of, refused
from penstock.model.errors import ErrorClass


@pytest.mark.parametrize(
    ("code", "words", "kind"),
    [
        (StatusCode.UNAVAILABLE, "etcdserver: no leader", Kind.UNTOUCHED),
        (StatusCode.UNAVAILABLE, "failed to connect to all addresses; …", Kind.UNTOUCHED),
        (StatusCode.RESOURCE_EXHAUSTED, "etcdserver: too many requests", Kind.UNTOUCHED),
        (StatusCode.UNAVAILABLE, "etcdserver: leader changed", Kind.UNKNOWN),
        (StatusCode.UNAVAILABLE, "etcdserver: request timed out", Kind.UNKNOWN),
        (StatusCode.UNAVAILABLE, "Socket closed", Kind.UNKNOWN),
        (StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", Kind.UNKNOWN),
        (StatusCode.CANCELLED, "", Kind.UNKNOWN),
        (StatusCode.INTERNAL, "Internal error from Core", Kind.UNKNOWN),
        (StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token", Kind.LOGIN),
        (StatusCode.INVALID_ARGUMENT, "etcdserver: revision of auth store is old", Kind.LOGIN),
        (StatusCode.PERMISSION_DENIED, "etcdserver: permission denied", Kind.REFUSED),
        (StatusCode.INVALID_ARGUMENT, "etcdserver: request is too large", Kind.REFUSED),
    ],
)
def test_what_is_known_after_a_failure(code, words, kind):
    """Taking an UNKNOWN for an UNTOUCHED would write twice."""
    assert kind_of(code, words) is kind


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
    error = refused(StatusCode.UNKNOWN, words, "stage", "someone")
    assert (error.code, error.diagnostic.error_class) == (code, kind)
