"""Batches in chunks: rows that are larger than a message travel in several frames (rule R10)."""

from __future__ import annotations

from typing import Final, Protocol

MAX_BATCH_BYTES: Final = 1 << 30
"""Largest batch that is joined from chunks."""


class Frame(Protocol):
    """A frame with rows: `penstock.api.record.v1.Batch`."""

    seq: int
    chunk: int
    more_chunks: bool
    data: bytes


class BrokenChunksError(ValueError):
    """Chunks are not those of a batch. `rule`: `chunk_order`, `chunk_missing` or `too_large`."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule


def split_data(data: memoryview, max_bytes: int) -> list[memoryview]:
    """Split the data of a batch into chunks."""
    return [data[start : start + max_bytes] for start in range(0, len(data), max_bytes)]


class ChunkJoiner:
    """Joins the chunks of batches, one batch after the other."""

    def __init__(self, max_bytes: int = MAX_BATCH_BYTES) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._seq = self._size = 0

    def join(self, frame: Frame) -> bool:
        """Take a frame; return whether its batch is complete. The last frame gets all the data.

        Raises:
            BrokenChunksError: out of order, or larger than the limit.
        """
        if frame.chunk != len(self._parts) or (self._parts and frame.seq != self._seq):
            raise BrokenChunksError(
                "chunk_order",
                f"chunk {frame.chunk} of batch {frame.seq} came, expected chunk {len(self._parts)}"
                + (f" of batch {self._seq}" if self._parts else ""),
            )
        if not self._parts and not frame.more_chunks:
            return True
        self._parts.append(frame.data)
        self._seq, self._size = frame.seq, self._size + len(self._parts[-1])
        if self._size > self._max_bytes:
            raise BrokenChunksError(
                "too_large", f"batch {frame.seq} is larger than {self._max_bytes} bytes"
            )
        if frame.more_chunks:
            return False
        frame.data = b"".join(self._parts)
        self._parts, self._size = [], 0
        return True

    def end(self) -> None:
        """Refuse an end inside of a batch.

        Raises:
            BrokenChunksError: the last chunk is missing.
        """
        if self._parts:
            raise BrokenChunksError(
                "chunk_missing", f"the last chunk of batch {self._seq} did not come"
            )
