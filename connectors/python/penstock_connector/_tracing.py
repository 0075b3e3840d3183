"""The trace that the host's call is a part of, for connectors that send it on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import grpc
import grpc.aio

_KEY: Final = "traceparent"
"""Metadata key of the trace, as the W3C names it."""

_PARENT: Final = ContextVar("traceparent", default="")


def trace_parent() -> str:
    """Return the trace that the host's call is a part of, as the W3C's `traceparent` writes it; ""
    when there is none. What a connector sends on with it, to a database or a server, is seen in the
    trace of the micro-batch that wrote the rows, or of the request that checked.
    """
    return _PARENT.get()


@contextmanager
def within(parent: str) -> Iterator[None]:
    """Have methods of the author that run meanwhile be a part of a trace."""
    before = _PARENT.set(parent)
    try:
        yield
    finally:
        _PARENT.reset(before)


class Tracing(grpc.aio.ServerInterceptor):
    """Takes over the trace that a call carries; each call has a context of its own."""

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Let the call through."""
        given = dict(handler_call_details.invocation_metadata or ()).get(_KEY, "")
        _PARENT.set(given if isinstance(given, str) else "")
        return await continuation(handler_call_details)
