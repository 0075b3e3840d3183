"""A channel to one of several instances of a service: the same one, until it is away.

Services are found by discovery, come and go, and any of them may answer. So a client holds on to
one, and goes to another when that one does not answer, is listed no more, or names the instance
that would.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, cast

import grpc.aio

from penstock.model.errors import PenstockError, RetriableError
from penstock.rpc.channels import Dial, open_channel
from penstock.rpc.tracing import with_trace

ENDING: Final = 5.0
"""Seconds that calls under way get on a channel that was left: they may still be answered."""

ELSEWHERE: Final = frozenset({"scheduler.not_leader", "rpc.draining", "discovery.nobody"})
"""Codes of an instance that has not begun with a call. It may name, as its suggestion, the one that
would answer.
"""


class Route(Protocol):
    """Where the instances of a service are, as far as is known now."""

    def __call__(self) -> Sequence[str]:
        """Return their addresses; none when none is known."""


Place: TypeAlias = str | Route
"""One address, or the way to find one."""


class RoutedChannel:
    """What generated stubs call a channel, over whichever instance answers.

    Owns one channel at a time. `close` it.
    """

    def __init__(
        self,
        place: Place,
        dial: Dial = open_channel,
    ) -> None:
        """`place` is an address, or returns those there are."""
        self._place, self._dial = place, dial
        self._address = place if isinstance(place, str) else ""
        self._channel: grpc.aio.Channel | None = None
        self._listed = True  # False: it was named by another, and discovery may learn of it later
        self._left: list[str] = []  # instances that were left, the latest last
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """Where calls go now; "" when no instance is known."""
        return self._address

    def channel(self) -> grpc.aio.Channel:
        """Return the channel to the present instance, or to another if that is listed no more.

        Raises:
            RetriableError: `discovery.nobody`.
        """
        if self._is_gone():
            self.go()
        if self._channel is None:
            self._address = self._address or self._pick("")
            self._channel = self._dial(self._address)
        return self._channel

    def for_stubs(self) -> grpc.aio.Channel:
        """Return itself as what generated stubs take; they call nothing but the four methods."""
        return cast("grpc.aio.Channel", self)

    def away(self, address: str, suggestion: str = "") -> None:
        """Leave an instance that is away, or that named a better one. Of several calls that failed
        there, only the first moves all: a later one must not leave where that one has led.
        """
        if address == self._address:
            self.go(suggestion)

    def go(self, address: str = "") -> None:
        """Go to an instance; to any other one than the present when none is named."""
        if isinstance(self._place, str):
            return
        left, listed = self._address, not address
        try:
            self._address = address or self._pick(left)
        except RetriableError:
            self._address = ""
        if self._address != left:
            self._listed = listed
            self._hang_up()

    def better(self, error: PenstockError) -> str | None:
        """Return where to ask instead: "" for any other instance; None when the answer stands."""
        if isinstance(self._place, str) or error.code not in ELSEWHERE:
            return None
        return error.diagnostic.suggestion

    async def close(self) -> None:
        """Hang up; calls under way are cancelled. Idempotent."""
        for ending in self._leaving:
            ending.cancel()
        await asyncio.gather(*self._leaving, return_exceptions=True)
        if self._channel is not None:
            await self._channel.close()

    def unary_unary(self, *method: Any, **how: Any) -> Callable[..., Any]:
        """Return a call that goes wherever the present instance is when it is made."""
        return self._late("unary_unary", method, how)

    def unary_stream(self, *method: Any, **how: Any) -> Callable[..., Any]:
        """Return a call that goes wherever the present instance is when it is made."""
        return self._late("unary_stream", method, how)

    def stream_unary(self, *method: Any, **how: Any) -> Callable[..., Any]:
        """Return a call that goes wherever the present instance is when it is made."""
        return self._late("stream_unary", method, how)

    def stream_stream(self, *method: Any, **how: Any) -> Callable[..., Any]:
        """Return a call that goes wherever the present instance is when it is made."""
        return self._late("stream_stream", method, how)

    def _late(
        self, kind: str, method: tuple[Any, ...], how: Mapping[str, Any]
    ) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            more |= with_trace(more.get("metadata") or ())  # the trace goes where the call goes
            return getattr(self.channel(), kind)(*method, **how)(*arguments, **more)

        return call

    def _is_gone(self) -> bool:
        """Tell whether others are listed, and the present instance is not any more: it may well
        answer, but it is cut off from something. An empty list says only that nothing is known.
        """
        if isinstance(self._place, str) or not self._address:
            return False
        known = self._place()
        self._listed = self._listed or self._address in known
        return bool(known) and self._listed and self._address not in known

    def _hang_up(self) -> None:
        left, self._channel = self._channel, None
        if left is not None:
            ending = asyncio.ensure_future(left.close(ENDING))
            self._leaving.add(ending)
            ending.add_done_callback(self._leaving.discard)

    def _pick(self, left: str) -> str:
        """Return an instance. Each one is tried before any is tried again: a lease outlives its
        holder, so the dead are listed for a while, and a few tries must not be spent on them.
        """
        if isinstance(self._place, str):
            return self._place
        known = set(self._place())
        if not known:
            raise RetriableError(
                "discovery.nobody",
                "no instance of the service is registered",
                fix="Start one, and see that its cluster has the same name.",
                retry_after=0.5,
            )
        before = [other for other in self._left if other != left]
        self._left = [other for other in (*before, left) if other in known]
        fresh = sorted(known.difference(self._left))
        return random.choice(fresh) if fresh else self._left[0]  # noqa: S311 - spreads clients
