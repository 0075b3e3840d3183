"""Writes that do not fit into one transaction of the store: batches, a few at a time; and the
chunks of a journal, which are staged before the journal becomes visible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from penstock.aio import cancel_and_wait
from penstock.offset import journal, records
from penstock.offset.journal import JournalDraft
from penstock.store.port import Put, Store

_T = TypeVar("_T")

MAX_CONCURRENT: Final = 4
"""Concurrent writes of one operation. A store makes several durable together; more would let
commits wait behind them."""

MAX_BATCH_BYTES: Final = 768 << 10
"""Bytes of one batch: etcd takes 1.5 MB in one request."""


async def bounded_gather(
    items: Iterable[_T], call: Callable[[_T], Awaitable[object]], limit: int = MAX_CONCURRENT
) -> None:
    """Await `call` for every item, at most `limit` at a time. The first error cancels the others
    and is raised.
    """
    pending = iter(items)

    async def _worker() -> None:
        for item in pending:
            await call(item)

    workers = [asyncio.ensure_future(_worker()) for _ in range(limit)]
    try:
        await asyncio.gather(*workers)
    finally:
        await cancel_and_wait(*workers)


def split_batches(puts: Sequence[Put], max_puts: int) -> Iterator[list[Put]]:
    """Yield puts in batches of at most `max_puts` keys and `MAX_BATCH_BYTES`."""
    batch: list[Put] = []
    size = 0
    for key, value in puts:
        put_size = len(key) + len(value or b"")
        if batch and (len(batch) == max_puts or size + put_size > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((key, value))
        size += put_size
    if batch:
        yield batch


async def stage_journal(store: Store, generation: str, draft: JournalDraft) -> list[Put]:
    """Return the puts that make a journal visible, together with a manifest that names it.

    The chunks of a large journal are written now; repeating that is harmless.
    """
    new = draft.journal
    index: Put = (records.journal_index_key(generation, new.id), journal.encode_index(new))
    keys = [records.journal_chunk_key(generation, new.id, number) for number in range(new.chunks)]
    puts: list[Put] = list(zip(keys, draft.chunks, strict=True))
    if len(puts) <= journal.INLINE_CHUNKS:
        return [*puts, index]
    await bounded_gather(puts, lambda put: store.write([], [put]))
    return [index]
