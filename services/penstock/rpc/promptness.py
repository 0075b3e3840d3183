"""Who begins a call sends what it asks, soon: gRPC itself waits for ever, and such a call takes the
place of another one (invariant 12).
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final

import grpc
import grpc.aio

from penstock.model.errors import ConfigError, RetriableError
from penstock.rpc.deadlines import deadline
from penstock.rpc.interceptor import refuse

FIRST_WITHIN: Final = 30.0
"""Seconds from the head of a call to the end of its first message. The largest takes that long at
0.5 MiB/s; a longer time lets a few peers that drip hold more calls."""


class Promptness(grpc.aio.ServerInterceptor):
    """Reads the first message of a call, for every kind of method, before it is answered."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wrap the method that answers a call."""
        handler = await continuation(handler_call_details)
        method = str(handler_call_details.method)
        if handler is None:
            return None
        if handler.response_streaming:
            return _streaming(handler, method)
        return _single(handler, method)


def _single(handler: Any, method: str) -> Any:
    inner = handler.stream_unary if handler.request_streaming else handler.unary_unary

    async def call(requests: Any, context: Any) -> Any:
        return await inner(await _request(handler, requests, context, method), context)

    # to gRPC a single request is a stream of one; only so it hands the waiting over
    return grpc.stream_unary_rpc_method_handler(
        call, handler.request_deserializer, handler.response_serializer
    )


def _streaming(handler: Any, method: str) -> Any:
    inner = handler.stream_stream if handler.request_streaming else handler.unary_stream

    async def answers(requests: Any, context: Any) -> AsyncIterator[Any]:
        found = inner(await _request(handler, requests, context, method), context)
        async with aclosing(found):
            async for answer in found:
                yield answer

    async def writes(requests: Any, context: Any) -> None:
        await inner(await _request(handler, requests, context, method), context)

    return grpc.stream_stream_rpc_method_handler(
        answers if inspect.isasyncgenfunction(inner) else writes,  # health writes by itself
        handler.request_deserializer,
        handler.response_serializer,
    )


async def _request(handler: Any, requests: Any, context: Any, method: str) -> Any:
    """Return what the method takes: its request, or the stream of them."""
    following = aiter(requests)
    try:
        async with deadline(f"first message of {method}", FIRST_WITHIN):
            first = await anext(following, None)
        if handler.request_streaming:
            return _all(first, following)
        if first is None:
            raise ConfigError(
                "rpc.no_request", f"{method} was called without a request", fix="Send one message."
            )
    except (ConfigError, RetriableError) as error:
        await refuse(context, error, method)
    return first


async def _all(first: Any, following: AsyncIterator[Any]) -> AsyncIterator[Any]:
    if first is None:  # none came
        return
    yield first
    async for request in following:
        yield request
