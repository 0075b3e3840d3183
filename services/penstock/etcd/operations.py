"""Conditions, operations and results of transactions, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.api.etcd.v3 import etcd_pb2 as pb

MAX_OPS: Final = 128
"""Operations of one transaction: the default of etcd for --max-txn-ops."""


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key as it was read. `create_revision` changes only when it is removed and put again."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    lease: int


@dataclass(frozen=True, slots=True)
class RangeResult:
    """Keys in order, as they were at `revision`. `has_more`: others follow the last one."""

    entries: tuple[KeyValue, ...]
    revision: int
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class TxnResult:
    """The result of a transaction; `succeeded`: its conditions held."""

    succeeded: bool
    revision: int
    reads: tuple[RangeResult, ...]


def mod_revision_is(key: str, revision: int) -> pb.Compare:
    """Return the condition that a key was last put at `revision`; 0: it does not exist."""
    return pb.Compare(target=pb.COMPARE_TARGET_MOD, key=key.encode(), mod_revision=revision)


def create_revision_is(key: str, revision: int) -> pb.Compare:
    """Return the condition that a key was created at `revision`; 0: it does not exist."""
    return pb.Compare(target=pb.COMPARE_TARGET_CREATE, key=key.encode(), create_revision=revision)


def prefix_is_empty(prefix: str) -> pb.Compare:
    """Return the condition that no key starts with a prefix."""
    end = prefix_end(prefix)
    target = pb.COMPARE_TARGET_CREATE  # every existing key was created after revision 0
    return pb.Compare(target=target, key=prefix.encode(), create_revision=0, range_end=end)


def put(key: str, value: bytes, lease: int = 0) -> pb.RequestOp:
    """Return the operation that puts a key; with a lease, it is removed when the lease ends."""
    return pb.RequestOp(request_put=pb.PutRequest(key=key.encode(), value=value, lease=lease))


def remove(key: str) -> pb.RequestOp:
    """Return the operation that removes a key, if it exists."""
    return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key.encode()))


def read(key: str, *, keys_only: bool = False, revision: int = 0) -> pb.RequestOp:
    """Return the operation that reads a key, now or at a revision."""
    request = pb.RangeRequest(key=key.encode(), keys_only=keys_only, revision=revision)
    return pb.RequestOp(request_range=request)


def prefix_end(prefix: str) -> bytes:
    """Return the end of the range of a prefix. Keys are UTF-8, which never contains 0xFF."""
    return prefix.encode() + b"\xff"


def pack(
    operations: Sequence[pb.RequestOp], conditions: int, max_ops: int
) -> list[pb.RequestOp] | None:
    """Return the operations of one transaction; too many are packed into inner transactions.

    etcd counts the operations of each level and subtracts the size of the outer level from the
    limit of the inner one: `n` inner transactions may have `max_ops - max(n, conditions)`
    operations each. Returns None when the operations do not fit.
    """
    if max(len(operations), conditions) <= max_ops:
        return list(operations)
    for inner in range(1, max_ops):
        size = max_ops - max(inner, conditions)
        if size > 0 and inner * size >= len(operations):
            starts = range(0, len(operations), size)
            chunks = (operations[start : start + size] for start in starts)
            return [pb.RequestOp(request_txn=pb.TxnRequest(success=chunk)) for chunk in chunks]
    return None


def range_from_proto(response: pb.RangeResponse, revision: int) -> RangeResult:
    """Return the result of a read."""
    return RangeResult(tuple(map(_key_value, response.kvs)), revision, response.more)


def txn_from_proto(response: pb.TxnResponse) -> TxnResult:
    """Return the result of a transaction."""
    revision = response.header.revision
    reads: Iterable[pb.RangeResponse] = (
        one.response_range
        for one in response.responses
        if one.WhichOneof("response") == "response_range"
    )
    results = tuple(range_from_proto(read, revision) for read in reads)
    return TxnResult(response.succeeded, revision, results)


def _key_value(kv: pb.KeyValue) -> KeyValue:
    return KeyValue(kv.key.decode(), kv.value, kv.create_revision, kv.mod_revision, kv.lease)
