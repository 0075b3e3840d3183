"""Interceptors of calls: what they share; statuses of errors, and the end of watches when the
server drains; access by certificate.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    aclosing,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from opentelemetry import metrics

from penstock.aio import cancel_and_wait, wait_for_first
from penstock.model.errors import ConfigError, InternalError, PenstockError, RetriableError
from penstock.rpc.access_control import audit_call, check_access
from penstock.rpc.status import status_from_diagnostic
from penstock.rpc.traces import server_span

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


@dataclass(frozen=True, slots=True)
class Method:
    """The method of a call, by its full name, and which of its sides are streams."""

    name: str
    streams_requests: bool
    streams_responses: bool


class CallInterceptor(grpc.aio.ServerInterceptor, ABC):
    """Runs the method of every call inside a context manager."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Return the handler of a call, with its method wrapped."""
        handler = await continuation(handler_call_details)
        if handler is None:  # an unknown method
            return None
        streams = bool(handler.request_streaming), bool(handler.response_streaming)
        return self.wrap(handler, Method(str(handler_call_details.method), *streams))

    def wrap(self, handler: Handler, method: Method) -> Handler:
        """Return a handler that calls the method inside `run`."""
        return wrap_handler(handler, method, self.run)

    @abstractmethod
    def run(
        self, method: Method, request: Any, context: Context
    ) -> AbstractAsyncContextManager[Any]:
        """Run the call in the block. Yields the request, or the stream of requests."""


def wrap_handler(
    handler: Handler,
    method: Method,
    run: Callable[[Method, Any, Context], AbstractAsyncContextManager[Any]],
    *,
    deserialize: Callable[[bytes], Any] | None = None,
    streams_requests: bool | None = None,
    transform: Callable[[AsyncGenerator[Any, None]], AsyncGenerator[Any, None]] | None = None,
) -> Handler:
    """Return a handler like another one, whose method runs inside a context manager.

    `deserialize` and `streams_requests` replace those of the handler; `transform` replaces the
    stream of responses.
    """
    streams_responses = method.streams_responses
    inner = {
        (False, False): handler.unary_unary,
        (False, True): handler.unary_stream,
        (True, False): handler.stream_unary,
        (True, True): handler.stream_stream,
    }[method.streams_requests, streams_responses]

    async def respond(request: Any, context: Context) -> Any:
        """Return the one response; None of a method that writes to the context."""
        async with run(method, request, context) as received:
            return await inner(received, context)

    async def stream(request: Any, context: Context) -> AsyncIterator[Any]:
        """Yield the responses. The method has ended when the call has."""
        async with run(method, request, context) as received:
            responses = inner(received, context)
            async with aclosing(transform(responses) if transform else responses) as sent:
                async for response in sent:
                    yield response

    make = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[
        method.streams_requests if streams_requests is None else streams_requests,
        streams_responses,
    ]
    # grpc.health writes its responses to the context
    is_writer = not streams_responses or inspect.iscoroutinefunction(inner)
    return make(
        respond if is_writer else stream,
        deserialize or handler.request_deserializer,
        handler.response_serializer,
    )


class StatusInterceptor(CallInterceptor):
    """Turns errors into statuses; an error that is not a PenstockError is `internal.unexpected`.

    The text of an unexpected error may contain anything, also a secret. It is only logged, and the
    caller gets the number under which it is logged (invariant 9).

    Methods named `Watch…`, `Inspect…` and `Session` do not end by themselves. They end when the
    server drains, so that the server waits only for work.
    """

    def __init__(self, draining: asyncio.Event) -> None:
        """`draining` is set when the server stops."""
        self._draining = draining

    def wrap(self, handler: Handler, method: Method) -> Handler:
        """Return a handler whose errors become statuses. Health and reflection stay as they are."""
        if method.name.startswith("/grpc."):
            return handler
        name = method.name.rpartition("/")[2]
        is_endless = name.startswith(("Watch", "Inspect")) or name == "Session"
        return wrap_handler(
            handler,
            method,
            self.run,
            deserialize=tolerant_deserializer(handler.request_deserializer),
            transform=self._until_draining if is_endless else None,
        )

    @asynccontextmanager
    async def run(self, method: Method, request: Any, context: Context) -> AsyncIterator[Any]:
        """Run the call in the block: its errors become statuses. A call with one response is timed
        and traced.
        """
        started_at, name = time.monotonic(), method.name.lstrip("/")
        try:
            with ExitStack() as stack:
                if not method.streams_responses:
                    stack.enter_context(record_duration(name))
                    stack.enter_context(server_span(name, context.invocation_metadata()))
                check = check_requests if method.streams_requests else check_request
                yield check(request, method.name)
        except Exception as error:  # noqa: BLE001 - the boundary: every error becomes a status
            await abort_call(context, error, method.name)
        finally:
            if not method.streams_responses:
                log.debug("%s took %.1f ms", method.name, 1000 * (time.monotonic() - started_at))

    async def _until_draining(
        self, responses: AsyncGenerator[Any, None]
    ) -> AsyncGenerator[Any, None]:
        draining = asyncio.ensure_future(self._draining.wait())
        pending: asyncio.Future[Any] | None = None
        try:
            while True:
                pending = asyncio.ensure_future(anext(responses))
                await wait_for_first(draining, pending)
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
                # ends the watch, which releases its source; it may have ended by itself
                await cancel_and_wait(pending)


class AccessInterceptor(CallInterceptor):
    """Refuses calls that no role of the caller's certificate may make, and audits calls."""

    @asynccontextmanager
    async def run(self, method: Method, request: Any, context: Context) -> AsyncIterator[Any]:
        """Run the call in the block, if the caller may make it."""
        with audit_call(context, method.name, request):
            check_access(context, method.name)
            yield request


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
