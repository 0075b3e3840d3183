"""The interceptor of every call: turns errors into statuses and ends watches when draining."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from opentelemetry import metrics

from penstock.model.errors import ConfigError, InternalError, PenstockError, RetriableError
from penstock.rpc.status import status_from_diagnostic
from penstock.rpc.tracing import server_span

log = logging.getLogger(__name__)

UNREADABLE: Final = object()
"""Stands for a request that is not a message of its method."""

Handler: TypeAlias = Any
"""A grpc.RpcMethodHandler. Its type stubs know only the methods of synchronous servers."""
Context: TypeAlias = Any
"""A grpc.aio.ServicerContext, for the same reason."""

_DURATION: Final = metrics.get_meter("penstock").create_histogram(
    "rpc.server.call.duration", "s", "Duration of calls that were answered."
)


class StatusInterceptor(grpc.aio.ServerInterceptor):
    """Turns errors into statuses; an error that is not a PenstockError is `internal.unexpected`.

    The text of an unexpected error may contain anything, also a secret. It is only logged, and the
    caller gets the number under which it is logged (invariant 9).

    Methods named `Watch…`, `Inspect…` and `Session` do not end by themselves. They end when the
    server drains, so that the server waits only for work.
    """

    def __init__(self, draining: asyncio.Event) -> None:
        """`draining` is set when the server stops."""
        self._draining = draining

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Wrap the handler of a call."""
        handler = await continuation(handler_call_details)
        method = str(handler_call_details.method)
        if handler is None or method.startswith("/grpc."):  # unknown; or health and reflection
            return handler
        if handler.response_streaming:
            return self._streaming_handler(handler, method)
        return self._unary_handler(handler, method)

    def _unary_handler(self, handler: Handler, method: str) -> Handler:
        inner = handler.stream_unary if handler.request_streaming else handler.unary_unary

        async def call(request: Any, context: Context) -> Any:
            started_at = time.monotonic()
            try:
                with (
                    record_duration(method.lstrip("/")),
                    server_span(method.lstrip("/"), context.invocation_metadata()),
                ):
                    return await inner(_check(handler, request, method), context)
            except Exception as error:  # noqa: BLE001 - the boundary: every error becomes a status
                await abort_call(context, error, method)
            finally:
                log.debug("%s took %.1f ms", method, 1000 * (time.monotonic() - started_at))

        make = (
            grpc.stream_unary_rpc_method_handler
            if handler.request_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        return make(
            call, tolerant_deserializer(handler.request_deserializer), handler.response_serializer
        )

    def _streaming_handler(self, handler: Handler, method: str) -> Handler:
        inner = handler.stream_stream if handler.request_streaming else handler.unary_stream
        name = method.rpartition("/")[2]
        is_endless = name.startswith(("Watch", "Inspect")) or name == "Session"

        async def call(request: Any, context: Context) -> AsyncIterator[Any]:
            try:
                responses = inner(_check(handler, request, method), context)
                async for one in self._until_draining(responses) if is_endless else responses:
                    yield one
            except Exception as error:  # noqa: BLE001 - the boundary: every error becomes a status
                await abort_call(context, error, method)

        make = (
            grpc.stream_stream_rpc_method_handler
            if handler.request_streaming
            else grpc.unary_stream_rpc_method_handler
        )
        return make(
            call, tolerant_deserializer(handler.request_deserializer), handler.response_serializer
        )

    async def _until_draining(self, responses: AsyncIterator[Any]) -> AsyncIterator[Any]:
        draining = asyncio.ensure_future(self._draining.wait())
        pending: asyncio.Future[Any] | None = None
        try:
            while True:
                pending = asyncio.ensure_future(anext(responses))
                await asyncio.wait({draining, pending}, return_when=asyncio.FIRST_COMPLETED)
                if draining.done():
                    raise RetriableError(
                        "rpc.draining",
                        "the service is stopping",
                        fix="Call another instance, or this one after its restart.",
                    )
                try:
                    yield pending.result()
                except StopAsyncIteration:
                    return
        finally:
            draining.cancel()
            if pending is not None:
                pending.cancel()
                # ends the watch, which releases its source; it may have ended by itself
                await asyncio.gather(pending, return_exceptions=True)


@contextmanager
def record_duration(method: str) -> Iterator[None]:
    """Record the duration of a call, and the code of its error, as a metric."""
    started_at, attributes = time.monotonic(), {"rpc.system.name": "grpc", "rpc.method": method}
    try:
        yield
    except PenstockError as error:
        attributes["error.type"] = error.code
        raise
    except Exception:
        attributes["error.type"] = "internal.unexpected"
        raise
    finally:
        _DURATION.record(time.monotonic() - started_at, attributes)


def tolerant_deserializer(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Return a deserializer that returns UNREADABLE where `deserialize` fails."""

    def deserialize_tolerantly(data: bytes) -> Any:
        try:
            return deserialize(data)
        except (DecodeError, ValueError):
            return UNREADABLE

    return deserialize_tolerantly


def check_request(request: Any, method: str) -> Any:
    """Return a request that is readable.

    Raises:
        ConfigError: `rpc.unreadable`.
    """
    if request is UNREADABLE:
        raise ConfigError(
            "rpc.unreadable",
            f"the request of {method} is not a message of this method",
            fix="Send the message that its description names: `grpcurl describe`.",
        )
    return request


async def check_requests(requests: AsyncIterator[Any], method: str) -> AsyncIterator[Any]:
    """Yield the requests of a stream, each one checked."""
    async for request in requests:
        yield check_request(request, method)


def _check(handler: Handler, request: Any, method: str) -> Any:
    return (check_requests if handler.request_streaming else check_request)(request, method)


async def abort_call(context: Context, error: Exception, method: str) -> NoReturn:
    """End a call with the status of an error."""
    if isinstance(error, grpc.aio.AbortError):  # the method has already ended it
        raise error
    if not isinstance(error, PenstockError):
        error = _unexpected_error(error, method)
    code, text, trailing = status_from_diagnostic(error.diagnostic)
    await context.abort(code, text, trailing)
    raise AssertionError("abort returned")  # for the type checker: it never does


def _unexpected_error(error: Exception, method: str) -> InternalError:
    number = secrets.token_hex(4)
    log.error("unexpected error %s in %s", number, method, exc_info=error)
    return InternalError(
        "internal.unexpected",
        f"{method} failed unexpectedly ({type(error).__name__}, number {number})",
        fix=f"Look for {number} in the log of the service, and report it.",
    )
