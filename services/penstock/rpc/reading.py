"""Requests as they come: bytes that are no message are the caller's mistake, and told as one.

gRPC itself would answer INTERNAL, which tells people to look for a defect of the service.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from google.protobuf.message import DecodeError

from penstock.model.errors import ConfigError

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
