"""etcd's methods by their paths, each with what it takes and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from google.protobuf.message import Message

from penstock.api.etcd.v3 import etcd_pb2 as pb

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[Q, A]):
    """A method of etcd. `answer` makes an answer of bytes."""

    path: str
    request: type[Q]
    answer: Callable[[bytes], A]


RANGE: Final = Method("/etcdserverpb.KV/Range", pb.RangeRequest, pb.RangeResponse.FromString)
TXN: Final = Method("/etcdserverpb.KV/Txn", pb.TxnRequest, pb.TxnResponse.FromString)
WATCH: Final = Method("/etcdserverpb.Watch/Watch", pb.WatchRequest, pb.WatchResponse.FromString)
GRANT: Final = Method(
    "/etcdserverpb.Lease/LeaseGrant", pb.LeaseGrantRequest, pb.LeaseGrantResponse.FromString
)
REVOKE: Final = Method(
    "/etcdserverpb.Lease/LeaseRevoke", pb.LeaseRevokeRequest, pb.LeaseRevokeResponse.FromString
)
KEEP_ALIVE: Final = Method(
    "/etcdserverpb.Lease/LeaseKeepAlive",
    pb.LeaseKeepAliveRequest,
    pb.LeaseKeepAliveResponse.FromString,
)
AUTHENTICATE: Final = Method(
    "/etcdserverpb.Auth/Authenticate", pb.AuthenticateRequest, pb.AuthenticateResponse.FromString
)
STATUS: Final = Method(
    "/etcdserverpb.Maintenance/Status", pb.StatusRequest, pb.StatusResponse.FromString
)
