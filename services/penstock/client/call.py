"""One call of a service: its deadline, its bounded retries, its errors as ours."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable
from typing import Any, Protocol, Self, TypeVar

import grpc
import grpc.aio

from penstock.rpc.channels import open_channel
from penstock.rpc.status import DIAGNOSTIC_KEY, error_from

_A = TypeVar("_A")
_A_co = TypeVar("_A_co", covariant=True)

ATTEMPTS = 5
"""Tries of an idempotent call. With the delays below they span about 1.5 s: enough for a service
that is restarted on the same machine; a longer outage is for the caller's own back-off."""

FIRST_DELAY = 0.1
LONGEST_DELAY = 1.0

DEADLINE = 10.0
"""Seconds for a call, its retries included. Every store answers in milliseconds; a disk that needs
longer is broken, and the caller had better know."""


class _Method(Protocol[_A_co]):
    def __call__(self, request: Any, *, timeout: float) -> Awaitable[_A_co]: ...


class Caller:
    """A channel to one service, and how it is called. Clients derive from it.

    Owns its channel: `async with Client(address)`, or `close()`.
    """

    def __init__(self, address: str, deadline: float = DEADLINE) -> None:
        """`deadline` is for calls that name none, in seconds."""
        self.address = address
        self._deadline = deadline
        self._channel = open_channel(address)

    async def close(self) -> None:
        """Let go of the channel; calls under way are cancelled. Idempotent."""
        await self._channel.close()

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
        deadline: float | None = None,
    ) -> _A:
        """Call a method. Only an idempotent one is repeated, and only when the service was away.

        Raises:
            PenstockError: what the service answered, or `rpc.*`, or `deadline.exceeded`.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + (deadline or self._deadline)
        delay = FIRST_DELAY
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await method(request, timeout=max(end - loop.time(), 0.001))
            except grpc.aio.AioRpcError as error:
                pause = delay * random.uniform(0.5, 1.0)  # noqa: S311 - spreads retries, no secret
                late = loop.time() + pause >= end
                if attempt == ATTEMPTS or late or not idempotent or not _was_away(error):
                    raise error_from(error, f"{stage} at {self.address}") from error
            await asyncio.sleep(pause)
            delay = min(delay * 2, LONGEST_DELAY)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _stream(self, stage: str, answers: Any) -> AsyncIterator[Any]:
        """Iterate over a streamed answer, errors as ours; the call ends with the iteration."""
        try:
            async for answer in answers:
                yield answer
        except grpc.aio.AioRpcError as error:
            raise error_from(error, f"{stage} at {self.address}") from error
        finally:
            answers.cancel()


def _was_away(error: grpc.aio.AioRpcError) -> bool:
    """Tell a service that was not there from one that answered: an answer is for the caller."""
    if error.code() is not grpc.StatusCode.UNAVAILABLE:
        return False
    return all(key != DIAGNOSTIC_KEY for key, _ in error.trailing_metadata() or ())
