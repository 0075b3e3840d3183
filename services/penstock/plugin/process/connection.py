"""The way to a plugin that runs: its channel, its credential, and what its silence means."""

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
from penstock.plugin.process.launch import CREDENTIAL_KEY
from penstock.plugin.process.logs import Redactor
from penstock.rpc.channels import authority
from penstock.rpc.status import cut_off
from penstock.rpc.tls import ClientTls
from penstock.rpc.tracing import span, with_trace


class Life(Protocol):
    """A plugin from its start to its end. Ends once; `end` is idempotent."""

    exited: asyncio.Future[int]
    """Its end, with its exit code."""

    @property
    def pid(self) -> int:
        """Its process here; 0 for one elsewhere."""

    async def ended(self, within: float) -> bool:
        """Find out, within so many seconds, whether it ended."""

    def death(self) -> PenstockError | None:
        """Return why it ended, None while it lives."""

    async def end(self) -> None:
        """Let go of it, and leave nothing of it that is ours."""


class Idleness:
    """Counts who uses something, and tells once nobody has for some seconds."""

    def __init__(self) -> None:
        self._users = 0
        self._seconds = 0.0
        self._then: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def tell(self, seconds: float, then: Callable[[], None]) -> None:
        """Call `then` when nobody has used it for so long, from now on."""
        self._seconds, self._then = seconds, then
        self.touch()

    def touch(self) -> None:
        """Note that somebody is about to use it: the time begins anew."""
        self._cancel()
        if self._then and not self._users:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._seconds, self._then)

    def begin(self) -> None:
        """Note a user; `end` is called for it."""
        self._users += 1
        self._cancel()

    def end(self, *_: Any) -> None:
        """Note that a user is done."""
        self._users -= 1
        self.touch()

    def close(self) -> None:
        """Tell nobody any more."""
        self._then = None
        self._cancel()

    def _cancel(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = None


_R = TypeVar("_R")

SERVING: Final = "SERVING"
_HEALTH_SERVICE: Final = "plugin"

_MOST_CONTROL_BYTES: Final = 64 << 20
"""Largest message on a control stream: a row that could not be read comes with its bytes, and a
checkpoint may move a hundred thousand partitions."""
_DEATH_NOTICE: Final = 1.0
"""Seconds from a socket that closed to the process seen to end. Shorter calls a crash
`unavailable`; longer delays the restart of a stream whose plugin lives but closed its socket."""


class Link:
    """One per process, shared by its calls and streams."""

    def __init__(
        self,
        who: str,
        address: str,
        credential: str,
        life: Life,
        redact: Redactor,
        tls: ClientTls | None = None,
    ) -> None:
        self.who = who
        self.address = address
        self.credential = credential
        self.tls = tls
        self.metadata = ((CREDENTIAL_KEY, credential),) if credential else ()
        self.redact = redact
        self.idleness = Idleness()
        self.life = life
        self.channel = _channel(address, tls)

    @property
    def exited(self) -> asyncio.Future[int]:
        """The end of the process."""
        return self.life.exited

    async def health(self, seconds: float, *, wait: bool = True) -> str:
        """Return the status that its health service tells, `wait` for one that listens soon.

        Raises:
            PenstockError: it does not answer.
        """
        stub: Any = health_pb2_grpc.HealthStub(self.channel)  # its stubs name no methods
        request = health_pb2.HealthCheckRequest(service=_HEALTH_SERVICE)
        try:
            answer = await stub.Check(
                request, timeout=seconds, wait_for_ready=wait, metadata=self.metadata
            )
        except grpc.aio.AioRpcError as error:
            raise errors.from_status(error, "plugin.health", seconds, self.redact) from None
        return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)

    async def call(
        self, stage: str, seconds: float, method: Callable[..., Awaitable[_R]], request: Any
    ) -> _R:
        """Make a unary call with a deadline that names its stage.

        Raises:
            PenstockError: the plugin's own diagnostic, or `plugin.*` for what happened to the call.
        """
        if death := self.death():
            raise death
        self.idleness.begin()
        try:
            with span(stage, SpanKind.CLIENT):
                return await method(request, timeout=seconds, **with_trace(self.metadata))
        except grpc.aio.AioRpcError as error:
            raise await self.failure(error, stage, seconds) from None
        finally:
            self.idleness.end()

    async def failure(
        self, error: grpc.aio.AioRpcError, stage: str, seconds: float | None = None
    ) -> PenstockError:
        """Return the error for a status; a process that ended meanwhile is the reason."""
        lost = cut_off(error.code(), error.details())
        if lost or error.code() is grpc.StatusCode.UNAVAILABLE:
            await self.life.ended(_DEATH_NOTICE)
        return self.death() or errors.from_status(error, stage, seconds, self.redact)

    def death(self) -> PenstockError | None:
        """Return the error for a process that ended, None while it lives."""
        return self.life.death()

    async def close(self, grace: float = 0.5) -> None:
        """End all calls; those that have their end in hand may still read it."""
        self.idleness.close()
        await self.channel.close(grace)


def _channel(address: str, tls: ClientTls | None) -> grpc.aio.Channel:
    options: list[tuple[str, int | str]] = [
        ("grpc.max_receive_message_length", _MOST_CONTROL_BYTES),
        ("grpc.max_send_message_length", -1),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
        *authority(address),
    ]
    if tls is None:
        return grpc.aio.insecure_channel(address, options=options)
    return grpc.aio.secure_channel(address, tls.credentials(), options=[*options, *tls.options()])
