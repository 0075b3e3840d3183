"""Conditions and operations of a transaction, and what is read, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.api.etcd.v3 import etcd_pb2 as pb

MOST_OPS: Final = 128
"""Operations in one transaction; etcd's default for --max-txn-ops."""


@dataclass(frozen=True, slots=True)
class Kv:
    """A key as it was read. `created` changes only when it is removed and made again."""

    key: str
    value: bytes
    created: int
    revision: int
    lease: int


@dataclass(frozen=True, slots=True)
class Found:
    """Keys in order, as they were at `revision`. `more`: others follow the last one."""

    entries: tuple[Kv, ...]
    revision: int
    more: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """A transaction: whether its conditions held, its revision, what its reads found."""

    succeeded: bool
    revision: int
    found: tuple[Found, ...]


def unchanged(key: str, revision: int) -> pb.Compare:
    """Hold when the key was last put at `revision`; 0 = it does not exist."""
    return pb.Compare(target=pb.COMPARE_TARGET_MOD, key=key.encode(), mod_revision=revision)


def created(key: str, revision: int) -> pb.Compare:
    """Hold when the key was created at `revision`; 0 = it does not exist."""
    return pb.Compare(target=pb.COMPARE_TARGET_CREATE, key=key.encode(), create_revision=revision)


def nobody(prefix: str) -> pb.Compare:
    """Hold when there is no key under a prefix."""
    end = end_of(prefix)
    target = pb.COMPARE_TARGET_CREATE  # what is there was created after revision 0
    return pb.Compare(target=target, key=prefix.encode(), create_revision=0, range_end=end)


def leased(key: str, lease: int) -> pb.Compare:
    """Hold when the key hangs on a lease."""
    return pb.Compare(target=pb.COMPARE_TARGET_LEASE, key=key.encode(), lease=lease)


def put(key: str, value: bytes, lease: int = 0) -> pb.RequestOp:
    """Put a key; with a lease it ends with it."""
    return pb.RequestOp(request_put=pb.PutRequest(key=key.encode(), value=value, lease=lease))


def remove(key: str) -> pb.RequestOp:
    """Remove a key, if it is there."""
    return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key.encode()))


def read(key: str, *, keys_only: bool = False, revision: int = 0) -> pb.RequestOp:
    """Read one key, now or as it was at a revision."""
    request = pb.RangeRequest(key=key.encode(), keys_only=keys_only, revision=revision)
    return pb.RequestOp(request_range=request)


def end_of(prefix: str) -> bytes:
    """Return the first key after all that start with `prefix`. Keys are UTF-8: 0xFF is in none."""
    return prefix.encode() + b"\xff"


def packed(ops: Sequence[pb.RequestOp], conditions: int, most: int) -> list[pb.RequestOp] | None:
    """Fit operations into a transaction, as transactions inside it when they are too many.

    etcd counts each level for itself and takes the outer one's size off the inner one's limit: `n`
    inner transactions may have `most - max(n, conditions)` operations each. None: they do not fit.
    """
    if max(len(ops), conditions) <= most:
        return list(ops)
    for inner in range(1, most):
        room = most - max(inner, conditions)
        if room > 0 and inner * room >= len(ops):
            chunks = (ops[start : start + room] for start in range(0, len(ops), room))
            return [pb.RequestOp(request_txn=pb.TxnRequest(success=chunk)) for chunk in chunks]
    return None


def found(answer: pb.RangeResponse, revision: int) -> Found:
    """Return what a read found."""
    return Found(tuple(map(_kv, answer.kvs)), revision, answer.more)


def done(answer: pb.TxnResponse) -> Done:
    """Return what a transaction did."""
    revision = answer.header.revision
    reads: Iterable[pb.RangeResponse] = (
        response.response_range
        for response in answer.responses
        if response.WhichOneof("response") == "response_range"
    )
    return Done(answer.succeeded, revision, tuple(found(read, revision) for read in reads))


def _kv(kv: pb.KeyValue) -> Kv:
    return Kv(kv.key.decode(), kv.value, kv.create_revision, kv.mod_revision, kv.lease)
