"""Refuses calls of those who may not make them, before they are answered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from penstock.model.errors import AuthError
from penstock.rpc.audit import NAMES, audited
from penstock.rpc.roles import ALLOWED, may_call, roles_of


class Admission(grpc.aio.ServerInterceptor):
    """Lets a call through when a role of the caller's certificate may make it."""

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

    async def call(request: Any, context: Any) -> Any:
        with audited(context, method, request):
            _admit(context, method)
            return await inner(request, context)

    make = (
        grpc.stream_unary_rpc_method_handler
        if handler.request_streaming
        else grpc.unary_unary_rpc_method_handler
    )
    return make(call, handler.request_deserializer, handler.response_serializer)


def _streaming(handler: Any, method: str) -> Any:
    inner = handler.stream_stream if handler.request_streaming else handler.unary_stream

    async def call(request: Any, context: Any) -> AsyncIterator[Any]:
        with audited(context, method, request):
            _admit(context, method)
            async for answer in inner(request, context):
                yield answer

    make = (
        grpc.stream_stream_rpc_method_handler
        if handler.request_streaming
        else grpc.unary_stream_rpc_method_handler
    )
    return make(call, handler.request_deserializer, handler.response_serializer)


def _admit(context: Any, method: str) -> None:
    roles = roles_of(context.auth_context().get(NAMES, ()))
    if may_call(method, roles):
        return
    name = method.rpartition("/")[2]
    raise AuthError(
        "rpc.denied",
        f"{', '.join(roles) or 'a caller without a role'} may not call {name}",
        fix=f"Use a certificate of one of: {', '.join(sorted(ALLOWED.get(method, ())))}.",
    )
