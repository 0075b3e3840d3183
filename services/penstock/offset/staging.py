"""Writes journals: what does not fit into one write first, where nobody sees it."""

from __future__ import annotations

from penstock.offset import journal, stored
from penstock.offset.abreast import abreast
from penstock.offset.journal import Draft
from penstock.store import Put, Store


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
