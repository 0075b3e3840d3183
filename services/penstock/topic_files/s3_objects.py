"""Objects of a store as files: what is read is fetched, large ones are written in parts."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from functools import lru_cache
from typing import Any, Final, TypeVar

import obstore
from obstore.store import S3Store

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


class Ranges(io.RawIOBase):
    """Reads ranges of an object. The Parquet reader asks for a row group at once, so nothing is
    kept between reads.
    """

    def __init__(
        self, store: S3Store, key: str, size: int, told: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """`told` translates errors."""
        super().__init__()
        self._store, self._key, self._size, self._told = store, key, size, told
        self._at = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Return where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, begin + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, fewer only at the end."""
        left = max(0, self._size - self._at)
        length = left if size < 0 else min(size, left)
        if not length:
            return b""
        with self._told():
            found = obstore.get_range(self._store, self._key, start=self._at, length=length)
        self._at += length
        return found.to_bytes()


PART: Final = 8 << 20
"""Bytes that are collected before they are sent. A file below it is one request; a larger part
holds more memory for each file that is open."""

_PARTS: Final = 4
"""Parts under way at once."""


class Upload(io.RawIOBase):
    """What a Parquet writer writes to. Nobody sees the object before `finish`.

    Parts of an upload whose process was killed stay in the store, unseen, until a rule of the
    bucket removes them (`AbortIncompleteMultipartUpload`).
    """

    def __init__(
        self, store: S3Store, key: str, told: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """`told` translates errors."""
        super().__init__()
        self._store, self._key, self._told = store, key, told
        self._writer = obstore.open_writer(store, key, buffer_size=PART, max_concurrency=_PARTS)
        self._bytes = 0

    @property
    def sink(self) -> Upload:
        """Itself."""
        return self

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data: Any) -> int:
        """Take bytes."""
        with self._told():
            written = self._writer.write(data)
        self._bytes += written
        return written

    def finish(self) -> int:
        """Send the rest; durable, and seen, when it was answered."""
        with self._told():
            self._writer.close()
        return self._bytes

    def discard(self) -> None:
        """Leave nothing. What was sent in parts is put together to be deleted: nothing else would
        remove the parts.
        """
        if self._bytes < PART:
            return
        with suppress(Exception):
            self._writer.close()
        with suppress(Exception):
            obstore.delete(self._store, [self._key])
