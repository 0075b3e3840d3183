"""The edge between gRPC and everything else: how a call fails, and who may call."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Any, Final, NoReturn

import grpc
import grpc.aio

from penstock_connector._errors import DIAGNOSTIC_KEY, AuthError, ConnectorError

CREDENTIAL_KEY: Final = "penstock-credential"
"""Metadata key of the per-launch credential."""

_OPEN_TO_ALL: Final = "/grpc.health.v1.Health/"


async def fail(context: grpc.aio.ServicerContext[Any, Any], error: ConnectorError) -> NoReturn:
    """End a call with an error, which has the diagnostic of the connector."""
    await context.abort(
        error.status,
        f"[{error.code}] {error.message[:500]}",
        ((DIAGNOSTIC_KEY, error.diagnostic().SerializeToString()),),
    )


async def refuse_unimplemented(context: grpc.aio.ServicerContext[Any, Any], what: str) -> NoReturn:
    """End a call that a connector does not implement, as a server does that lacks the method."""
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, what)


class CredentialCheck(grpc.aio.ServerInterceptor):
    """Refuses every call but health checks without the credential of this launch (invariant 9's
    neighbour: another process of the machine must not reach a plugin's secrets).
    """

    def __init__(self, credential: str) -> None:
        self._credential = credential.encode()

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Let a call through, or answer it with UNAUTHENTICATED."""
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or method.startswith(_OPEN_TO_ALL) or self._knows(handler_call_details):
            return handler
        return _refusing(handler)

    def _knows(self, details: grpc.HandlerCallDetails) -> bool:
        given = dict(details.invocation_metadata or ()).get(CREDENTIAL_KEY, "")
        text = given.encode() if isinstance(given, str) else given
        return hmac.compare_digest(text, self._credential)


def _refusing(handler: grpc.RpcMethodHandler[Any, Any]) -> grpc.RpcMethodHandler[Any, Any]:
    """Return a handler of the same shape that only refuses."""

    async def refuse(_: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        error = AuthError(
            "plugin.credential_refused",
            "the call does not carry the credential of this plugin's launch",
            fix="Only the host that started the plugin may call it; use --listen to debug.",
        )
        await context.abort(
            grpc.StatusCode.UNAUTHENTICATED,
            str(error),
            ((DIAGNOSTIC_KEY, error.diagnostic().SerializeToString()),),
        )

    if handler.response_streaming:
        kind = (
            grpc.stream_stream_rpc_method_handler
            if handler.request_streaming
            else grpc.unary_stream_rpc_method_handler
        )
    else:
        kind = (
            grpc.stream_unary_rpc_method_handler
            if handler.request_streaming
            else grpc.unary_unary_rpc_method_handler
        )
    return kind(refuse, handler.request_deserializer, handler.response_serializer)
