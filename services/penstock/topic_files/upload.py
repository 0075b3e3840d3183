"""An object that is being written: small ones in one request, larger ones part by part."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

import obstore
from obstore.store import S3Store

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
