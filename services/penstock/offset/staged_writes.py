"""Writes journals: what does not fit into one write is staged in parts first, unseen by readers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from penstock.offset import journal, stored
from penstock.offset.journal import Draft
from penstock.store import Put, Store

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


async def staged(store: Store, generation: str, draft: Draft) -> list[Put]:
    """Return what makes a journal count, to be written together with a head that names it.

    Large ones are written up to that point; repeating it is harmless.
    """
    made = draft.journal
    index: Put = (stored.index_key(generation, made.id), journal.encode_index(made))
    keys = [stored.chunk_key(generation, made.id, number) for number in range(made.chunks)]
    puts: list[Put] = list(zip(keys, draft.chunks, strict=True))
    if len(puts) <= journal.INLINE_CHUNKS:
        return [*puts, index]
    await abreast(puts, lambda put: store.write([], [put]))
    return [index]
