"""Work that waits for a network, some of it ahead of whoever wants the results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Final, TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")

AHEAD: Final = 8
"""Requests of one caller under way at once. More hide a slower network and hold more memory: each
may be a file of some MiB."""

_THREADS: Final = 16


def in_order(work: Callable[[_T], _R], items: Iterable[_T]) -> Iterator[_R]:
    """Yield what `work` makes of each item, in order; the next ones are under way meanwhile.

    `work` must not call this itself: it would wait for its own threads.
    """
    under_way: deque[Future[_R]] = deque()
    try:
        for item in items:
            under_way.append(_pool().submit(work, item))
            if len(under_way) == AHEAD:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        for future in under_way:
            future.cancel()


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    # made when it is first used: threads do not outlive a fork
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="topic-files")
