"""What a task holds ready: a window of byte credit over batches that can be fetched.

Every announced batch uses up credit until the host releases it (rule R9): so the memory of a task
is bounded by what the host granted, whatever the speed of either side.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from penstock_connector._errors import ConnectorError, RetriableError
from penstock_values.memory_files import MemoryFile


@dataclass(frozen=True, slots=True)
class Held:
    """An announced batch: its bytes against the credit, and the frames that answer Fetch, with its
    rows or with the memory file that has them.
    """

    size: int
    frames: Callable[[], list[bytes]]
    memory_file: MemoryFile | None = None
    memory_frame: bytes = b""

    def close(self) -> None:
        """Free its memory."""
        if self.memory_file is not None:
            self.memory_file.close()


class Window:
    """The announced batches of a task. Not thread-safe: the owner has a lock."""

    def __init__(self) -> None:
        self._held: OrderedDict[int, Held] = OrderedDict()
        self._bytes_left = 0
        self._batches_left: int | None = None
        self._last_seq = 0

    def grant(self, more_bytes: int, more_batches: int) -> None:
        """Take credit. A host that never grants batches bounds only bytes."""
        self._bytes_left += more_bytes
        if more_batches:
            self._batches_left = (self._batches_left or 0) + more_batches

    def has_room(self) -> bool:
        """Return whether one more batch may be announced.

        It may be larger than what is left: one batch may overdraw, so that a big row cannot block
        the task for ever.
        """
        return self._bytes_left > 0 and (self._batches_left is None or self._batches_left > 0)

    def next_seq(self) -> int:
        """Return the number of the next batch; numbers have no gaps (rule R8)."""
        return self._last_seq + 1

    def hold(self, batch: Held) -> None:
        """Keep a batch under the next number."""
        self._last_seq += 1
        self._held[self._last_seq] = batch
        self._bytes_left -= batch.size
        if self._batches_left is not None:
            self._batches_left -= 1

    def release(self, seq: int) -> None:
        """Let all batches up to a number go: what they used up of the credit comes back."""
        while self._held and next(iter(self._held)) <= seq:
            _, batch = self._held.popitem(last=False)
            batch.close()
            self._bytes_left += batch.size
            if self._batches_left is not None:
                self._batches_left += 1

    def close(self) -> None:
        """Free the memory of all batches."""
        while self._held:
            self._held.popitem()[1].close()

    def frames(self, seq: int, *, memory_files: bool) -> list[bytes]:
        """Return the frames of a batch; the same ones every time until it is released."""
        held = self._held.get(seq)
        if held is not None:
            return [held.memory_frame] if memory_files and held.memory_frame else held.frames()
        if seq > self._last_seq:
            raise ConnectorError("source.batch.unannounced", f"batch {seq} was not announced yet")
        raise RetriableError(
            "source.batch.released",
            f"batch {seq} was released and is gone",
            fix="Reopen the task from its stored offsets.",
        )

    def __len__(self) -> int:
        return len(self._held)
