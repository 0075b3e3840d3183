"""The connection to a plugin: its channel, its credential, its health, and its use.

`ProcessHandle` is the process behind it: a `LocalProcess` or a `RemotePlugin`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from opentelemetry.trace import SpanKind

from penstock.model.errors import PenstockError
from penstock.plugin import errors
from penstock.plugin.process.logs import Redactor
from penstock.rpc.channels import ClientTls, authority_options
from penstock.rpc.status import is_cut_off
from penstock.rpc.traces import span, trace_arguments

CREDENTIAL_KEY: Final = "penstock-credential"
"""gRPC metadata key of the credential. Each launch has a new credential."""

SERVING: Final = "SERVING"
_HEALTH_SERVICE: Final = "plugin"

_MAX_CONTROL_BYTES: Final = 64 << 20
"""Largest message on a control stream: a row that could not be read is sent with its bytes, and a
checkpoint may have the offsets of a hundred thousand partitions."""
_EXIT_NOTICE_S: Final = 1.0
"""Time from a closed socket to the end of the process. With a shorter time a crash is reported as
`unavailable`; a longer one delays the restart of a stream whose plugin runs but closed its
socket."""

_R = TypeVar("_R")


class ProcessHandle(Protocol):
    """A plugin process, local or remote. It ends once; `terminate` is idempotent."""

    exited: asyncio.Future[int]
    """Done, with the exit code, when the process has ended."""

    @property
    def pid(self) -> int:
        """The local process; 0 for a remote plugin."""

    async def wait_for_exit(self, timeout_s: float) -> bool:
        """Return, after at most `timeout_s`, whether it has ended."""

    def exit_error(self) -> PenstockError | None:
        """Return why it ended; None while it runs."""

    async def terminate(self) -> None:
        """End a local process and clean up; disconnect from a remote plugin."""


class IdleTimer:
    """Counts the users of a connection and calls back when it was unused for some time."""

    def __init__(self) -> None:
        self._users = 0
        self._timeout_s = 0.0
        self._on_idle: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, timeout_s: float, on_idle: Callable[[], None]) -> None:
        """From now on, call `on_idle` when there was no user for `timeout_s`."""
        self._timeout_s, self._on_idle = timeout_s, on_idle
        self.restart()

    def restart(self) -> None:
        """Restart the time, because a user is about to come."""
        self._cancel()
        if self._on_idle and not self._users:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._timeout_s, self._on_idle)

    def begin_use(self) -> None:
        """Count a user. Call `end_use` for each."""
        self._users += 1
        self._cancel()

    def end_use(self, *_: Any) -> None:
        """Discount a user. Takes any arguments, to be a callback of calls."""
        self._users -= 1
        self.restart()

    def close(self) -> None:
        """Stop: `on_idle` is not called any more."""
        self._on_idle = None
        self._cancel()

    def _cancel(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = None


class Connection:
    """The connection to one plugin process, shared by its calls and streams."""

    def __init__(
        self,
        name: str,
        address: str,
        credential: str,
        process: ProcessHandle,
        redact: Redactor,
        tls: ClientTls | None = None,
    ) -> None:
        self.name = name
        self.address = address
        self.credential = credential
        self.tls = tls
        self.metadata = ((CREDENTIAL_KEY, credential),) if credential else ()
        self.redact = redact
        self.idle_timer = IdleTimer()
        self.process = process
        self.channel = _open_channel(address, tls)

    @property
    def exited(self) -> asyncio.Future[int]:
        """The end of the process."""
        return self.process.exited

    async def check_health(self, timeout_s: float, *, wait: bool = True) -> str:
        """Return the status of its health service; `wait` for a server that listens soon.

        Raises:
            PenstockError: the health service does not answer.
        """
        stub: Any = health_pb2_grpc.HealthStub(self.channel)  # its stubs name no methods
        request = health_pb2.HealthCheckRequest(service=_HEALTH_SERVICE)
        try:
            response = await stub.Check(
                request, timeout=timeout_s, wait_for_ready=wait, metadata=self.metadata
            )
        except grpc.aio.AioRpcError as error:
            raise errors.error_from_status(error, "plugin.health", timeout_s, self.redact) from None
        return health_pb2.HealthCheckResponse.ServingStatus.Name(response.status)

    async def call(
        self, stage: str, timeout_s: float, method: Callable[..., Awaitable[_R]], request: Any
    ) -> _R:
        """Make a unary call; `stage` is its name in errors and traces.

        Raises:
            PenstockError: the diagnostic of the plugin, or `plugin.*` for what happened to the
                call.
        """
        if exit_error := self.exit_error():
            raise exit_error
        self.idle_timer.begin_use()
        try:
            with span(stage, SpanKind.CLIENT):
                return await method(request, timeout=timeout_s, **trace_arguments(self.metadata))
        except grpc.aio.AioRpcError as error:
            raise await self.call_error(error, stage, timeout_s) from None
        finally:
            self.idle_timer.end_use()

    async def call_error(
        self, error: grpc.aio.AioRpcError, stage: str, timeout_s: float | None = None
    ) -> PenstockError:
        """Return the error for a failed call: the end of the process when it ended meanwhile."""
        lost = is_cut_off(error.code(), error.details())
        if lost or error.code() is grpc.StatusCode.UNAVAILABLE:
            await self.process.wait_for_exit(_EXIT_NOTICE_S)
        return self.exit_error() or errors.error_from_status(error, stage, timeout_s, self.redact)

    def exit_error(self) -> PenstockError | None:
        """Return why the process ended; None while it runs."""
        return self.process.exit_error()

    async def close(self, grace_s: float = 0.5) -> None:
        """End all calls; a call whose end has been received may still read it."""
        self.idle_timer.close()
        await self.channel.close(grace_s)


def _open_channel(address: str, tls: ClientTls | None) -> grpc.aio.Channel:
    options: list[tuple[str, int | str]] = [
        ("grpc.max_receive_message_length", _MAX_CONTROL_BYTES),
        ("grpc.max_send_message_length", -1),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
        *authority_options(address),
    ]
    if tls is None:
        return grpc.aio.insecure_channel(address, options=options)
    return grpc.aio.secure_channel(address, tls.credentials(), options=[*options, *tls.options()])
