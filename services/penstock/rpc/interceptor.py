"""What every call passes on its way in: errors become statuses, and watches end when draining."""

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
from penstock.rpc.status import status_of
from penstock.rpc.tracing import served

log = logging.getLogger(__name__)


UNREADABLE: Final = object()
"""Stands for a request that is no message of its method."""


def tolerant(read: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Return what reads a request, or says that it cannot be read."""

    def reading(data: bytes) -> Any:
        try:
            return read(data)
        except (DecodeError, ValueError):
            return UNREADABLE

    return reading


def checked(request: Any, method: str) -> Any:
    """Return a request.

    Raises:
        ConfigError: `rpc.unreadable`.
    """
    if request is UNREADABLE:
        raise ConfigError(
            "rpc.unreadable",
            f"the request of {method} is no message of it",
            fix="Send what its description says: `grpcurl describe`.",
        )
    return request


async def each_checked(requests: AsyncIterator[Any], method: str) -> AsyncIterator[Any]:
    """Yield the requests of a stream.

    Raises:
        ConfigError: as above.
    """
    async for request in requests:
        yield checked(request, method)


_DURATION: Final = metrics.get_meter("penstock").create_histogram(
    "rpc.server.call.duration", "s", "Duration of calls that were answered."
)


@contextmanager
def timed(method: str) -> Iterator[None]:
    """Measure a call while the body runs; an error is told by its code."""
    began, told = time.monotonic(), {"rpc.system.name": "grpc", "rpc.method": method}
    try:
        yield
    except PenstockError as error:
        told["error.type"] = error.code
        raise
    except Exception:
        told["error.type"] = "internal.unexpected"
        raise
    finally:
        _DURATION.record(time.monotonic() - began, told)


Handler: TypeAlias = Any
"""grpc.RpcMethodHandler: its stubs know only methods of synchronous servers."""
Context: TypeAlias = Any
"""grpc.aio.ServicerContext, for the same reason."""


class Statuses(grpc.aio.ServerInterceptor):
    """Turns errors into statuses; what is not a PenstockError becomes `internal.unexpected`.

    The text of an unexpected error may hold anything, a secret too: it goes to the log alone, and
    the caller gets the number that it has there (invariant 9).

    Methods named `Watch…`, `Inspect…` and `Session` have no near end of their own. They are ended
    when the server drains, so that it waits only for work.
    """

    def __init__(self, draining: asyncio.Event) -> None:
        """`draining` is set when the server wants to end."""
        self._draining = draining

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Wrap the method that answers a call."""
        handler = await continuation(handler_call_details)
        method = str(handler_call_details.method)
        if handler is None or method.startswith("/grpc."):  # unknown; or health and reflection
            return handler
        if handler.response_streaming:
            return self._streaming(handler, method)
        return self._single(handler, method)

    def _single(self, handler: Handler, method: str) -> Handler:
        inner = handler.stream_unary if handler.request_streaming else handler.unary_unary

        async def call(request: Any, context: Context) -> Any:
            began = time.monotonic()
            try:
                with (
                    timed(method.lstrip("/")),
                    served(method.lstrip("/"), context.invocation_metadata()),
                ):
                    return await inner(_read(handler, request, method), context)
            except Exception as error:  # noqa: BLE001 - the boundary: every error becomes a status
                await refuse(context, error, method)
            finally:
                log.debug("%s took %.1f ms", method, 1000 * (time.monotonic() - began))

        make = (
            grpc.stream_unary_rpc_method_handler
            if handler.request_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        return make(call, tolerant(handler.request_deserializer), handler.response_serializer)

    def _streaming(self, handler: Handler, method: str) -> Handler:
        inner = handler.stream_stream if handler.request_streaming else handler.unary_stream
        name = method.rpartition("/")[2]
        endless = name.startswith(("Watch", "Inspect")) or name == "Session"

        async def call(request: Any, context: Context) -> AsyncIterator[Any]:
            try:
                answers = inner(_read(handler, request, method), context)
                async for answer in self._until_drained(answers) if endless else answers:
                    yield answer
            except Exception as error:  # noqa: BLE001 - the boundary: every error becomes a status
                await refuse(context, error, method)

        make = (
            grpc.stream_stream_rpc_method_handler
            if handler.request_streaming
            else grpc.unary_stream_rpc_method_handler
        )
        return make(call, tolerant(handler.request_deserializer), handler.response_serializer)

    async def _until_drained(self, answers: AsyncIterator[Any]) -> AsyncIterator[Any]:
        drained = asyncio.ensure_future(self._draining.wait())
        following: asyncio.Future[Any] | None = None
        try:
            while True:
                following = asyncio.ensure_future(anext(answers))
                await asyncio.wait({drained, following}, return_when=asyncio.FIRST_COMPLETED)
                if drained.done():
                    raise RetriableError(
                        "rpc.draining",
                        "the service is about to end",
                        fix="Ask another instance, or this one when it is there again.",
                    )
                try:
                    yield following.result()
                except StopAsyncIteration:
                    return
        finally:
            drained.cancel()
            if following is not None:
                following.cancel()
                # it ends the watch, which lets go of its source, and may have ended by itself
                await asyncio.gather(following, return_exceptions=True)


def _read(handler: Handler, request: Any, method: str) -> Any:
    return (each_checked if handler.request_streaming else checked)(request, method)


async def refuse(context: Context, error: Exception, method: str) -> NoReturn:
    """End a call with the status of an error."""
    if isinstance(error, grpc.aio.AbortError):  # the method has ended it already
        raise error
    if not isinstance(error, PenstockError):
        error = _unexpected(error, method)
    code, text, trailing = status_of(error.diagnostic)
    await context.abort(code, text, trailing)
    raise AssertionError("abort returned")  # for the type checker: it never does


def _unexpected(error: Exception, method: str) -> InternalError:
    number = secrets.token_hex(4)
    log.error("unexpected error %s in %s", number, method, exc_info=error)
    return InternalError(
        "internal.unexpected",
        f"{method} failed unexpectedly ({type(error).__name__}, number {number})",
        fix=f"Look for {number} in the log of the service, and report it.",
    )
