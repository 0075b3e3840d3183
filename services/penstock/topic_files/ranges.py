"""A large object as a file: what is read of it is fetched, nothing else."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager

import obstore
from obstore.store import S3Store


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
