"""One call of a service: its deadline, its bounded retries, its errors as ours."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, Self, TypeVar

import grpc
import grpc.aio
from opentelemetry.trace import SpanKind

from penstock.model.errors import PenstockError, RetriableError
from penstock.rpc.channels import Dial, open_channel
from penstock.rpc.route import Place, RoutedChannel
from penstock.rpc.status import DIAGNOSTIC_KEY, cut_off, error_from
from penstock.rpc.tracing import span

_A = TypeVar("_A")
_A_co = TypeVar("_A_co", covariant=True)

ATTEMPTS = 5
"""Tries of an idempotent call. With the delays below they span about 1.5 s: enough for a service
that is restarted on the same machine; a longer outage is for the caller's own back-off."""

FIRST_DELAY = 0.1
LONGEST_DELAY = 1.0

STARTING = frozenset({"scheduler.starting"})
"""Codes of a service that has not begun with a call because it has just started. It is asked again
for half of the deadline; the other half is for whoever has to be told that it takes long."""

DEADLINE = 10.0
"""Seconds for a call, its retries included. Every store answers in milliseconds; a disk that needs
longer is broken, and the caller had better know."""


UNAVAILABLE = "rpc.unavailable"


class _Method(Protocol[_A_co]):
    def __call__(self, request: Any, *, timeout: float) -> Awaitable[_A_co]: ...


class Caller:
    """A channel to one service, and how it is called. Clients derive from it.

    Owns its channel: `async with Client(address)`, or `close()`. Where several instances may
    answer, `place` finds them: a call goes on to another one when the present one is away.
    """

    def __init__(self, place: Place, deadline: float = DEADLINE, dial: Dial = open_channel) -> None:
        """`deadline` is for calls that name none, in seconds; `dial` opens a channel."""
        self._deadline = deadline
        self._route = RoutedChannel(place, dial)
        self._channel = self._route.for_stubs()

    @property
    def address(self) -> str:
        """Where calls go now."""
        return self._route.address

    def turn_to(self, address: str) -> None:
        """Have calls go to the instance that is known to be the one to ask, from now on."""
        self._route.go(address)

    async def close(self) -> None:
        """Let go of the channel; calls under way are cancelled. Idempotent."""
        await self._route.close()

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
        """Call a method. Only an idempotent one is repeated after the service was away, or one that
        reached nobody; one that was sent elsewhere is repeated there: nobody has begun with it.

        Raises:
            PenstockError: what the service answered, or `rpc.*`, or `deadline.exceeded`.
        """
        with span(stage, SpanKind.CLIENT):
            return await self._tried(stage, method, request, deadline or self._deadline, idempotent)

    async def _tried(
        self, stage: str, method: _Method[_A], request: Any, most: float, idempotent: bool
    ) -> _A:
        loop = asyncio.get_running_loop()
        end, attempt, delay = loop.time() + most, 0, FIRST_DELAY
        while True:
            at = ""
            try:
                self._route.channel()  # where the call goes is settled before it is made
                at = self.address
                with _left(stage, at):
                    left = max(end - loop.time(), 0.001)
                    return await method(request, timeout=left)
            except (grpc.aio.AioRpcError, PenstockError) as failed:
                error, away, elsewhere = self._judged(failed, stage, at)
                pause = delay * random.uniform(0.5, 1.0)  # noqa: S311 - spreads retries, no secret
                starting = error.code in STARTING and loop.time() + pause < end - most / 2
                attempt += not starting
                harmless = idempotent or _never_left(failed)
                again = starting or elsewhere is not None or (away and harmless)
                if attempt == ATTEMPTS or loop.time() + pause >= end or not again:
                    raise error from failed
            if not elsewhere:
                await asyncio.sleep(pause)
                delay = min(delay * 2, LONGEST_DELAY)

    def _judged(
        self, failed: grpc.aio.AioRpcError | PenstockError, stage: str, at: str
    ) -> tuple[PenstockError, bool, str | None]:
        """Return an error as ours, whether nobody answered, and where to ask instead. The instance
        is left when another may do better, also when this call cannot be repeated there.
        """
        if isinstance(failed, PenstockError):  # no instance is known, or it was left meanwhile
            error, away, hung = failed, failed.code == UNAVAILABLE, False
        else:
            error = error_from(failed, f"{stage} at {at}")
            away, hung = _was_away(failed), _hung(failed)
        elsewhere = self._route.better(error)
        if away or hung or elsewhere is not None:
            self._route.away(at, elsewhere or "")
        return error, away, elsewhere

    async def _stream(self, stage: str, answers: Any) -> AsyncIterator[Any]:
        """Iterate over a streamed answer, errors as ours; the call ends with the iteration.

        A stream is never repeated; the next one is asked of another instance where that may help.
        """
        at = self.address  # nothing was awaited since the stream was asked for
        try:
            with _left(stage, at):
                async for answer in answers:
                    yield answer
        except grpc.aio.AioRpcError as failed:
            error, _, _ = self._judged(failed, stage, at)
            raise error from failed
        finally:
            answers.cancel()


def _never_left(failed: BaseException) -> bool:
    """Tell a request that no instance has seen: there was no connection to one."""
    if not isinstance(failed, grpc.aio.AioRpcError):
        return False
    return (failed.details() or "").startswith("failed to connect")


def _was_away(error: grpc.aio.AioRpcError) -> bool:
    """Tell a service that was not there from one that answered: an answer is for the caller."""
    if cut_off(error.code(), error.details()):
        return True
    return error.code() is grpc.StatusCode.UNAVAILABLE and not _answered(error)


def _hung(error: grpc.aio.AioRpcError) -> bool:
    """Tell a service that let the deadline pass without a word. There is no time left for another
    try, but the next call had better go elsewhere.
    """
    return error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and not _answered(error)


def _answered(error: grpc.aio.AioRpcError) -> bool:
    return any(key == DIAGNOSTIC_KEY for key, _ in error.trailing_metadata() or ())


@contextmanager
def _left(stage: str, at: str) -> Iterator[None]:
    """Tell the end of a channel that was left from an end of our own: gRPC cancels what is still
    under way there, and a caller that takes this for its own end would stop for good.
    """
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RetriableError(
            UNAVAILABLE,
            f"{stage} at {at}: the instance was left before it answered",
            fix="Try again: another instance is asked.",
        ) from None
