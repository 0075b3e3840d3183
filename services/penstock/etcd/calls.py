"""Calls to etcd: its methods, one channel at a time, and attempts at one member after the other.

The error of a call names its stage. A write is repeated only when the first attempt cannot have
had an effect (see `errors`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from penstock.api.etcd.v3 import etcd_pb2 as pb
from penstock.etcd.errors import (
    FailureKind,
    OutcomeUnknownError,
    classify_failure,
    other_cluster,
    refusal_error,
    unreachable,
)
from penstock.etcd.settings import EtcdSettings, Tls
from penstock.model.backoff import Backoff
from penstock.model.errors import ConfigError, InternalError

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[RequestT, ResponseT]):
    """A gRPC method of etcd, by its path."""

    path: str
    request: type[RequestT]
    decode_response: Callable[[bytes], ResponseT]


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


MAX_RESPONSE_BYTES: Final = 64 << 20
"""Size of one response (invariant 12): a page of values. etcd cuts watch responses at 2 MB."""

_CHANNEL_GRACE_S: Final = 0.5
"""Time that calls on an abandoned channel may still take."""

_CONNECT_MS: Final = 3000
"""Time that a connection may take before another member is tried."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
    (
        "grpc.max_send_message_length",
        MAX_RESPONSE_BYTES,
    ),  # etcd refuses with a reason, gRPC without
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", _CONNECT_MS),  # despite its name, a connect timeout
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
    # Even a watch that waits for events abandons a hanging member after 8 s. etcd closes
    # connections that ping more often than every 5 s.
    ("grpc.keepalive_time_ms", 6000),
    ("grpc.keepalive_timeout_ms", 2000),
    ("grpc.keepalive_permit_without_calls", 0),
    # Clients of one process share no connection: a test that cuts one must not cut the other.
    ("grpc.use_local_subchannel_pool", 1),
)


class Channel:
    """The channel to the current member. Belongs to one event loop; `close` ends it."""

    def __init__(self, settings: EtcdSettings) -> None:
        """Choose the first member; the connection is made at the first use."""
        self._settings = settings
        self.generation = 0
        self._closing: set[asyncio.Task[None]] = set()
        self._open()

    @property
    def endpoint(self) -> str:
        """The current member."""
        endpoints = self._settings.endpoints
        return endpoints[self.generation % len(endpoints)]

    def unary(
        self, method: Method[RequestT, ResponseT]
    ) -> grpc.aio.UnaryUnaryMultiCallable[RequestT, ResponseT]:
        """Return the unary call of a method."""
        call: grpc.aio.UnaryUnaryMultiCallable[RequestT, ResponseT] = self._callable(
            "unary_unary", method
        )
        return call

    def stream(
        self, method: Method[RequestT, ResponseT]
    ) -> grpc.aio.StreamStreamMultiCallable[RequestT, ResponseT]:
        """Return the bidirectional call of a method."""
        call: grpc.aio.StreamStreamMultiCallable[RequestT, ResponseT] = self._callable(
            "stream_stream", method
        )
        return call

    def switch_member(self, generation: int) -> None:
        """Switch to the next member, unless another call has switched since `generation`."""
        if generation != self.generation:
            return
        self.generation += 1
        self._close_later(self._channel)
        self._open()

    async def close(self) -> None:
        """Cancel every call. Idempotent."""
        await self._channel.close()
        for task in tuple(self._closing):
            await task

    def _open(self) -> None:
        options = list(_OPTIONS)
        tls = self._settings.tls
        self._callables: dict[str, Any] = {}
        if tls is None:
            self._channel = grpc.aio.insecure_channel(self.endpoint, options)
        else:
            self._channel = grpc.aio.secure_channel(self.endpoint, _credentials(tls), options)

    def _close_later(self, channel: grpc.aio.Channel) -> None:
        task = asyncio.get_running_loop().create_task(channel.close(_CHANNEL_GRACE_S))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _callable(self, kind: str, method: Method[RequestT, ResponseT]) -> Any:
        if method.path not in self._callables:
            create = getattr(self._channel, kind)
            self._callables[method.path] = create(
                method.path,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.decode_response,
            )
        return self._callables[method.path]


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        *(_read_pem(getattr(tls, name), name) for name in ("authority", "key", "certificate"))
    )


def _read_pem(file: Path | None, name: str) -> bytes | None:
    if file is None:
        return None
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(
            "etcd.tls_unreadable",
            f"{file} cannot be read: {error.strerror}",
            fix="Check the path and the permissions of the file.",
            config_path=f"etcd.tls.{name}",
        ) from error


_log = logging.getLogger(__name__)

MIN_RETRY_DELAY_S: Final = 0.05
MAX_RETRY_DELAY_S: Final = 0.5
"""Delay between attempts, doubling. A shorter delay floods members that elect a leader; a longer
one uses up the time of a lease."""

# With it, a member that has lost its leader refuses at once and the call does not time out.
_REQUIRE_LEADER: Final = ("hasleader", "true")

Metadata = tuple[tuple[str, str], ...]


class AttemptFailedError(Exception):
    """One attempt of a call failed; the call decides whether it is repeated. Not raised outside."""

    def __init__(self, kind: FailureKind, code: grpc.StatusCode, details: str) -> None:
        super().__init__(f"{code.name}: {details}")
        self.kind, self.code, self.details = kind, code, details


class Calls:
    """Makes all calls of one client: attempts, token, and a check which cluster answers."""

    def __init__(self, settings: EtcdSettings) -> None:
        """Connects at the first call."""
        self.settings = settings
        self.channel = Channel(settings)
        self.revision = 0
        self._closed = False
        self._cluster_id = 0
        self._token = ""
        self._needs_no_login = not settings.user
        self._login_lock = asyncio.Lock()

    async def call(
        self,
        method: Method[RequestT, ResponseT],
        request: RequestT,
        stage: str,
        *,
        repeat: bool = True,
        timeout_s: float | None = None,
    ) -> ResponseT:
        """Return the response of the first member that answers.

        Args:
            method: The method.
            request: Its request.
            stage: Name of the call in errors.
            repeat: Whether the call may have its effect twice, so that it is repeated also when
                the outcome of an attempt is unknown.
            timeout_s: Time for all attempts; default: `retry_timeout_s` of the settings.

        Raises:
            PenstockError: `etcd.unreachable`, `etcd.outcome_unknown` (only with `repeat=False`), or
                the error of a refusal.
        """
        limit = self.settings.retry_timeout_s if timeout_s is None else timeout_s
        end = asyncio.get_running_loop().time() + limit
        backoff = Backoff(MIN_RETRY_DELAY_S, MAX_RETRY_DELAY_S)
        while True:
            try:
                return await self.attempt(method, request)
            except AttemptFailedError as failed:
                if failed.kind is FailureKind.REFUSED:
                    raise self.refusal_error(failed, stage) from None
                if failed.kind is FailureKind.UNKNOWN and not repeat:
                    raise OutcomeUnknownError(stage, str(failed)) from None
                if asyncio.get_running_loop().time() + backoff.delay_s > end:
                    endpoints = self.settings.endpoints
                    raise unreachable(endpoints, limit, stage, str(failed)) from None
            await asyncio.sleep(backoff.delay_s)
            backoff.advance()

    async def attempt(self, method: Method[RequestT, ResponseT], request: RequestT) -> ResponseT:
        """Make one attempt, at the current member.

        Raises:
            AttemptFailedError: no answer, or a refusal.
        """
        async with self.translate_errors():
            metadata = await self.metadata()
            call = self.channel.unary(method)
            response = await call(request, timeout=self.settings.call_timeout_s, metadata=metadata)
            self.record_header(response)
            return response

    @asynccontextmanager
    async def translate_errors(self) -> AsyncIterator[None]:
        """Raise `AttemptFailedError` for errors of gRPC; switch member when one does not answer."""
        if self._closed:
            raise AttemptFailedError(FailureKind.REFUSED, grpc.StatusCode.CANCELLED, "closed")
        generation = self.channel.generation
        try:
            yield
        except AttemptFailedError as failed:
            self._handle_failure(failed.kind, generation)
            raise
        except grpc.aio.AioRpcError as error:
            kind = classify_failure(error.code(), _details(error))
            self._handle_failure(kind, generation)
            raise AttemptFailedError(kind, error.code(), _details(error)) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # The call was cancelled and not this task: another call abandoned the channel.
            raise AttemptFailedError(
                FailureKind.UNKNOWN, grpc.StatusCode.CANCELLED, "the channel was closed"
            ) from None

    async def metadata(self) -> Metadata:
        """Return the metadata of a call; log in when there is no token."""
        if self._needs_no_login:
            return (_REQUIRE_LEADER,)
        async with self._login_lock:
            if not self._token and not self._needs_no_login:
                await self._authenticate()
        return (_REQUIRE_LEADER, ("token", self._token)) if self._token else (_REQUIRE_LEADER,)

    def record_header(self, response: object) -> None:
        """Record the revision of the cluster, and check that the same etcd cluster answers.

        Raises:
            ConfigError: `etcd.other_cluster`.
        """
        header = getattr(response, "header", None)
        if header is None or not header.cluster_id:
            return
        if self._cluster_id and header.cluster_id != self._cluster_id:
            raise other_cluster(self.channel.endpoint, self._cluster_id, header.cluster_id)
        self._cluster_id = header.cluster_id
        self.revision = max(self.revision, header.revision)

    def refusal_error(self, failed: AttemptFailedError, stage: str) -> Exception:
        """Return the coded error for a refused attempt."""
        if self._closed:
            return InternalError("etcd.closed", "the client of etcd was closed already")
        return refusal_error(failed.code, failed.details, stage, self.settings.user)

    def is_closed(self) -> bool:
        """Return whether it was closed."""
        return self._closed

    async def close(self) -> None:
        """Cancel every call. Idempotent."""
        self._closed = True
        await self.channel.close()

    def _handle_failure(self, kind: FailureKind, generation: int) -> None:
        if kind is FailureKind.LOGIN:
            self._token = ""
        elif kind is not FailureKind.REFUSED:
            self.channel.switch_member(generation)

    async def _authenticate(self) -> None:
        password = self.settings.password
        method = AUTHENTICATE
        request = method.request(
            name=self.settings.user, password=password.reveal() if password else ""
        )
        try:
            response = await self.channel.unary(method)(
                request, timeout=self.settings.call_timeout_s
            )
        except grpc.aio.AioRpcError as error:
            if "authentication is not enabled" not in _details(error):
                raise
            _log.warning("authentication is not enabled in etcd: the configured user is not used")
            self._needs_no_login = True
            return
        self._token = response.token


def _details(error: grpc.aio.AioRpcError) -> str:
    return error.details() or ""
