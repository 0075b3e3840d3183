"""One chunk of a table: a range of keys, read in a thread, handed over in pieces."""

from __future__ import annotations

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic

import pyarrow as pa

from penstock_connector import RetriableError
from penstock_databases.cdc.progress import Key, P, T, Window, Work
from penstock_databases.cdc.snapshot_statements import SnapshotStatement

PIECE_BYTES: Final = 2 << 20
"""Bytes of a piece. Smaller ones cost more frames and offsets; larger ones take memory."""

_PIECES_MOST: Final = 4
"""Pieces of a chunk that wait to be given. More take memory; fewer let the reader wait."""

_STALLED_S: Final = 60.0
"""Seconds that a chunk is kept open while nobody takes its rows. An open chunk keeps others from
altering its table, and the server from forgetting old rows; the rest is read anew, later."""


class StalledError(RetriableError):
    """A chunk was given up. It says nothing of the server: it is begun again.

    Attributes:
        pause_s: Seconds until then.
        keeps_session: Whether its session can be used for the next chunk.
    """

    pause_s = 0.0
    keeps_session = False


@dataclass(frozen=True, slots=True)
class Piece(Generic[T, P]):
    """Rows of a chunk.

    Attributes:
        shape: The table's columns, in the words of the source.
        rows: The rows.
        window: Which keys they are of, and where in the log they are from.
        stamp: When they were read, in microseconds since 1970.
        done: They are the table's last.
    """

    shape: Any
    rows: pa.RecordBatch
    window: Window[T, P]
    stamp: int
    done: bool


class Chunk(ABC, Generic[T, P]):
    """A chunk. All but `cancelled` is written by its thread and read by the task.

    Attributes:
        work: The reading of the table that it is a part of.
        after: The key after which it begins.
        size: About how many rows.
        statement: What is read in place of the table; None: the table.
        place: Where in the log it is from; None until known.
        upto: Where it ends; None: at the table's end, when `bounded` is set.
        bounded: Whether `upto` is known.
        whole: It is the whole table, which has no key to read it by.
        gone: The table is not there, or not as it was when its reading began.
        error: Why it failed.
        ended: Nothing more comes of it.
        cancelled: Nobody wants it any more.
        pieces: Rows that wait to be given.
    """

    def __init__(
        self,
        work: Work[T],
        after: Key | None,
        size: int,
        wake: Callable[[], None],
        statement: SnapshotStatement | None = None,
    ) -> None:
        """Take what to read; `wake` is called when there is something new."""
        self.work = work
        self.statement = statement
        self.after = after
        self.size = size
        self.place: P | None = None
        self.upto: Key | None = None
        self.bounded = self.whole = self.gone = self.ended = False
        self.error: BaseException | None = None
        self.cancelled = threading.Event()
        self.pieces: queue.Queue[Piece[T, P]] = queue.Queue(_PIECES_MOST)
        self._wake = wake

    @property
    def table(self) -> T:
        """The table."""
        return self.work.table

    @abstractmethod
    def read(self, connection: Any) -> Iterator[Piece[T, P]]:
        """Read it: call `opened` as soon as place and end are known, then yield the rows.

        Without rows `gone` is set. A session that it leaves by an error is closed.
        """

    def opened(self, place: P, upto: Key | None) -> None:
        """Tell the task where in the log the chunk is from, and where it ends."""
        self.upto, self.place, self.bounded = upto, place, True
        self._wake()

    def run(self, connection: Any) -> None:
        """Read all of it. Runs in its thread."""
        try:
            for piece in self.read(connection):
                self._put(piece)
        except BaseException as error:  # noqa: BLE001 - raised again by whoever takes the pieces
            self.error = self.explained(error)
        finally:
            self.ended = True
            self._wake()

    def explained(self, error: BaseException) -> BaseException:
        """Return what is raised for an error of its reading."""
        return error if self.statement is None else self.statement.explained(error)

    def fail(self, error: BaseException) -> None:
        """End it before it began."""
        self.error, self.ended = error, True
        self._wake()

    def _put(self, piece: Piece[T, P]) -> None:
        end = time.monotonic() + _STALLED_S
        while not self.cancelled.is_set() and (self.whole or time.monotonic() < end):
            try:
                self.pieces.put(piece, timeout=0.2)
            except queue.Full:
                continue
            self._wake()
            return
        raise StalledError("cdc.chunk_stalled", "nobody takes the rows of the chunk")
