"""Does much work a few pieces at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

_T = TypeVar("_T")

AT_ONCE: Final = 4
"""Writes under way at once. A driver makes several durable together; more would let commits wait
behind them."""


async def abreast(
    pieces: Iterable[_T], do: Callable[[_T], Awaitable[object]], at_once: int = AT_ONCE
) -> None:
    """Do every piece, a few at once. The first error ends the others and is raised."""
    pending = iter(pieces)

    async def _some() -> None:
        for piece in pending:
            await do(piece)

    working = [asyncio.ensure_future(_some()) for _ in range(at_once)]
    try:
        await asyncio.gather(*working)
    finally:
        for one in working:
            one.cancel()
        await asyncio.gather(*working, return_exceptions=True)
