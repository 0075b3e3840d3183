"""ServiceClient: one channel to a service, with a timeout, bounded retries and errors of the model.

`ProcessClient` is the client of the one service that every process has: its metrics.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, Self, TypeVar

import grpc
import grpc.aio
from opentelemetry.trace import SpanKind

from penstock.api.process.v1 import process_service_pb2 as pb
from penstock.api.process.v1 import process_service_pb2_grpc as grpc_api
from penstock.model.backoff import Backoff
from penstock.model.errors import PenstockError, RetriableError
from penstock.model.metrics import ProcessMetrics
from penstock.rpc.channels import Dial, RoutedChannel, ServiceAddress, open_channel
from penstock.rpc.status import DIAGNOSTIC_KEY, error_from, is_cut_off
from penstock.rpc.traces import span
from penstock.wire.process import PROCESS_METRICS

_A = TypeVar("_A")
_A_co = TypeVar("_A_co", covariant=True)

MAX_ATTEMPTS = 5
"""Attempts of an idempotent call. With the delays below they span about 1.5 s: enough for a service
that is restarted on the same machine. A longer outage is for the back-off of the caller."""

MIN_RETRY_DELAY_S = 0.1
MAX_RETRY_DELAY_S = 1.0

STARTING_CODES = frozenset({"scheduler.starting"})
"""Codes of a service that has just started and did not begin to process the call. The client
repeats the call for half of its timeout. The other half is for a caller that reports the delay."""

DEFAULT_TIMEOUT_S = 10.0
"""Seconds for a call, its retries included. Every store answers in milliseconds; a disk that needs
longer is broken, and the caller should know."""


UNAVAILABLE = "rpc.unavailable"


class _Method(Protocol[_A_co]):
    def __call__(self, request: Any, *, timeout: float) -> Awaitable[_A_co]: ...


class ServiceClient:
    """A channel to one service. The clients of the services derive from it.

    Owns its channel: use `async with Client(address)`, or call `close()`. Where several instances
    may answer, `place` finds them: a call goes to another instance when the present one is away.
    """

    def __init__(
        self, place: ServiceAddress, timeout_s: float = DEFAULT_TIMEOUT_S, dial: Dial = open_channel
    ) -> None:
        """`timeout_s` is for calls that set none; `dial` opens a channel."""
        self._timeout_s = timeout_s
        self._route = RoutedChannel(place, dial)
        self._channel = self._route.as_channel()

    @property
    def address(self) -> str:
        """The instance that calls go to now."""
        return self._route.address

    def prefer_address(self, address: str) -> None:
        """Send the next calls to this instance, for example to the new leader."""
        self._route.switch(address)

    async def close(self) -> None:
        """Close the channel and cancel its running calls. Idempotent."""
        await self._route.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _call(
        self,
        stage: str,
        method: _Method[_A],
        request: Any,
        *,
        idempotent: bool = True,
        timeout_s: float | None = None,
    ) -> _A:
        """Call a method, with retries.

        A call is repeated when the service was unavailable, if it is idempotent or never reached an
        instance. It is also repeated when the instance named another one to call, such as the
        leader: the first instance did not begin to process it.

        Raises:
            PenstockError: the error of the service, or `rpc.*`, or `deadline.exceeded`.
        """
        with span(stage, SpanKind.CLIENT):
            return await self._call_with_retries(
                stage, method, request, timeout_s or self._timeout_s, idempotent
            )

    async def _call_with_retries(
        self, stage: str, method: _Method[_A], request: Any, timeout_s: float, idempotent: bool
    ) -> _A:
        loop = asyncio.get_running_loop()
        end, attempt = loop.time() + timeout_s, 0
        backoff = Backoff(MIN_RETRY_DELAY_S, MAX_RETRY_DELAY_S)
        while True:
            address = ""
            try:
                self._route.channel()  # chooses the instance before the call is made
                address = self.address
                with _closed_channel_as_error(stage, address):
                    left = max(end - loop.time(), 0.001)
                    return await method(request, timeout=left)
            except (grpc.aio.AioRpcError, PenstockError) as failed:
                error, away, elsewhere = self._classify(failed, stage, address)
                pause = backoff.spread_delay_s()
                starting = (
                    error.code in STARTING_CODES and loop.time() + pause < end - timeout_s / 2
                )
                attempt += not starting
                repeatable = idempotent or _never_sent(failed)
                again = starting or elsewhere is not None or (away and repeatable)
                if attempt == MAX_ATTEMPTS or loop.time() + pause >= end or not again:
                    raise error from failed
            if not elsewhere:
                await asyncio.sleep(pause)
                backoff.advance()

    def _classify(
        self, failed: grpc.aio.AioRpcError | PenstockError, stage: str, address: str
    ) -> tuple[PenstockError, bool, str | None]:
        """Return the error of the model, whether no instance answered, and which other one to call.

        The route leaves the present instance when another one may answer, also when this call
        cannot be repeated there.
        """
        if isinstance(failed, PenstockError):  # no instance is known, or its channel was closed
            error, away, hung = failed, failed.code == UNAVAILABLE, False
        else:
            error = error_from(failed, f"{stage} at {address}")
            away, hung = _was_away(failed), _hung(failed)
        elsewhere = self._route.redirect(error)
        if away or hung or elsewhere is not None:
            self._route.leave(address, elsewhere or "")
        return error, away, elsewhere

    async def _stream(self, stage: str, answers: Any) -> AsyncIterator[Any]:
        """Iterate over a streamed answer. The call ends with the iteration.

        A stream is never repeated. After an error the next stream goes to another instance where
        that may help.

        Raises:
            PenstockError: the error of the service, or `rpc.*`.
        """
        address = self.address  # nothing was awaited since the stream was opened
        try:
            with _closed_channel_as_error(stage, address):
                async for answer in answers:
                    yield answer
        except grpc.aio.AioRpcError as failed:
            error, _, _ = self._classify(failed, stage, address)
            raise error from failed
        finally:
            answers.cancel()


def _never_sent(failed: BaseException) -> bool:
    """Return whether no instance received the request: there was no connection."""
    if not isinstance(failed, grpc.aio.AioRpcError):
        return False
    return (failed.details() or "").startswith("failed to connect")


def _was_away(error: grpc.aio.AioRpcError) -> bool:
    """Return whether the service was not reachable. An error that it answered is for the caller."""
    if is_cut_off(error.code(), error.details()):
        return True
    return error.code() is grpc.StatusCode.UNAVAILABLE and not _answered(error)


def _hung(error: grpc.aio.AioRpcError) -> bool:
    """Return whether the service did not answer within the deadline. There is no time left for
    another attempt, but the next call should go to another instance.
    """
    return error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and not _answered(error)


def _answered(error: grpc.aio.AioRpcError) -> bool:
    return any(key == DIAGNOSTIC_KEY for key, _ in error.trailing_metadata() or ())


@contextmanager
def _closed_channel_as_error(stage: str, address: str) -> Iterator[None]:
    """Raise `rpc.unavailable` when the channel was closed because the route left its instance.

    gRPC cancels the calls of a closed channel. A caller would take that for its own cancellation
    and stop for good.
    """
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RetriableError(
            UNAVAILABLE,
            f"{stage} at {address}: the client left this instance before it answered",
            fix="Try again: the call goes to the other instance.",
        ) from None


class ProcessClient(ServiceClient):
    """One process of a service. Its method may raise PenstockError."""

    def __init__(
        self,
        service: str,
        place: ServiceAddress,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        dial: Dial = open_channel,
    ) -> None:
        """`place` is `unix:/path` or `host:port`; see `ServiceClient`."""
        super().__init__(place, timeout_s, dial)
        self._service = service
        self._stub = grpc_api.ProcessServiceStub(self._channel)

    async def list_metrics(self) -> ProcessMetrics:
        """Return the counters and gauges of the process, as they are now."""
        request = pb.ListMetricsRequest()
        answer = await self._call("process.list_metrics", self._stub.ListMetrics, request)
        return PROCESS_METRICS.from_proto(answer, service=self._service)
