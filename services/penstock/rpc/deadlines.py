"""Deadlines of calls that name their stage, so that an error shows what hung (invariant 8)."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final, TypeVar, cast

from penstock.model.errors import ConfigError, RetriableError
from penstock.rpc.interceptor import CallInterceptor, Method, abort_call, wrap_handler

FIRST_MESSAGE_TIMEOUT_S: Final = 30.0
"""Seconds from the start of a call to the end of its first message. The largest message takes that
long at 0.5 MiB/s; a longer time lets a few slow peers hold more calls."""

_Call = TypeVar("_Call", bound=Callable[..., Any])


@asynccontextmanager
async def deadline(stage: str, timeout_s: float) -> AsyncIterator[None]:
    """Cancel the body after a time.

    Raises:
        RetriableError: `deadline.exceeded`, with the stage. The outcome of the work is unknown.
    """
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():  # a timeout of the body itself
            raise
        raise RetriableError(
            "deadline.exceeded",
            f"stage {stage} took longer than {timeout_s:g} s",
            fix="Check that what it waits for is reachable and not overloaded.",
        ) from error


def unary_deadline(timeout_s: float) -> Callable[[_Call], _Call]:
    """Limit a method with one response, also for callers that set no deadline."""

    def decorate(method: _Call) -> _Call:
        @functools.wraps(method)
        async def _call(self: Any, request: Any, context: Any) -> Any:
            async with deadline(_stage(self, method), timeout_s):
                return await method(self, request, context)

        return cast("_Call", _call)

    return decorate


def streaming_deadline(timeout_s: float) -> Callable[[_Call], _Call]:
    """Limit the time to each response of a streaming method. The whole stream may take longer."""

    def decorate(method: _Call) -> _Call:
        @functools.wraps(method)
        async def _call(self: Any, request: Any, context: Any) -> AsyncIterator[Any]:
            async with aclosing(method(self, request, context)) as responses:
                while True:
                    async with deadline(_stage(self, method), timeout_s):
                        try:
                            response = await anext(responses)
                        except StopAsyncIteration:
                            return
                    yield response

        return cast("_Call", _call)

    return decorate


class FirstMessageInterceptor(CallInterceptor):
    """Ends calls whose first message does not arrive in time. gRPC has no such timeout.

    It reads the first message of every kind of method before it calls the method. So every method
    is registered with a stream of requests: gRPC then leaves the wait to it.
    """

    def wrap(self, handler: Any, method: Method) -> Any:
        """Return a handler that receives a stream of requests."""
        return wrap_handler(handler, method, self.run, streams_requests=True)

    @asynccontextmanager
    async def run(self, method: Method, request: Any, context: Any) -> AsyncIterator[Any]:
        """Run the call in the block, once its first message is there."""
        yield await _first_request(method, request, context)


async def _first_request(method: Method, requests: Any, context: Any) -> Any:
    """Return the argument of the method: its request, or the stream of requests."""
    remaining = aiter(requests)
    try:
        async with deadline(f"first message of {method.name}", FIRST_MESSAGE_TIMEOUT_S):
            first = await anext(remaining, None)
        if method.streams_requests:
            return _all_requests(first, remaining)
        if first is None:
            raise ConfigError(
                "rpc.no_request",
                f"{method.name} was called without a request",
                fix="Send one message.",
            )
    except (ConfigError, RetriableError) as error:
        await abort_call(context, error, method.name)
    return first


async def _all_requests(first: Any, remaining: AsyncIterator[Any]) -> AsyncIterator[Any]:
    if first is None:  # the stream was empty
        return
    yield first
    async for request in remaining:
        yield request


def _stage(service: Any, method: Callable[..., Any]) -> str:
    return f"{type(service).__name__}.{method.__name__}"
