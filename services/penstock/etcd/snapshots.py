"""State as lists at a revision; watches only say when to list again (invariant 7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final

from penstock.etcd.client import Etcd
from penstock.etcd.errors import CompactedError
from penstock.etcd.ops import Found
from penstock.model.errors import PenstockError, RetriableError

log = logging.getLogger(__name__)

LIST_EVERY: Final = 10.0
"""Seconds after which a list is read again though no hint came. A lost hint costs this much;
shorter loads etcd with lists that change nothing."""

_PAUSE: Final = 0.5
"""Seconds before etcd is asked again when it did not answer."""

_PAGE: Final = 1000


async def hints(
    client: Etcd, prefix: str, *, exact: bool = False, every: float = LIST_EVERY
) -> AsyncIterator[Found]:
    """Yield what is under a prefix (or at one key), and again whenever it may have changed.

    While etcd is away nothing is yielded: what was known last stays known. Ends when the client
    is closed.

    Raises:
        PenstockError: etcd refuses: credentials, permissions.
    """
    while True:
        try:
            found = await _listed(client, prefix, exact=exact)
        except RetriableError as error:
            log.warning("cannot list %s: %s", prefix, error.diagnostic.message)
            await asyncio.sleep(_PAUSE)
            continue
        except PenstockError as error:
            if error.code == "etcd.closed":
                return
            raise
        yield found
        await _hint(client, prefix, found.revision, every, exact=exact)


async def _listed(client: Etcd, prefix: str, *, exact: bool) -> Found:
    """Read all of it at one revision."""
    if exact:
        return await client.get(prefix)
    page = await client.range(prefix, limit=_PAGE)
    entries, revision = list(page.entries), page.revision
    while page.more:
        page = await client.range(prefix, entries[-1].key, _PAGE, revision)
        entries += page.entries
    return Found(tuple(entries), revision)


async def _hint(client: Etcd, prefix: str, after: int, every: float, *, exact: bool) -> None:
    """Wait for an event, or for the time to look anyway."""
    try:
        watch = client.watch(prefix, after, exact=exact)
        async with asyncio.timeout(every), aclosing(watch) as events:
            await anext(events, None)
    except TimeoutError:
        return
    except CompactedError:
        return
