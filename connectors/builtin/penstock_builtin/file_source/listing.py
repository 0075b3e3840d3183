"""Files of places that tell nothing by themselves: they are listed again and again."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from penstock_builtin.file_source.keys import ReadingKeys
from penstock_builtin.file_source.placed import PlacedReader, Placing
from penstock_builtin.file_source.slicing import Slicer, file_key, reading_for
from penstock_builtin.opening import Roots
from penstock_builtin.places.port import Place
from penstock_connector import Batch, Monitor, Partition

_LIST_SHARE: Final = 10
"""Listing may take one part in so many of the time: a store with very many files is listed more
rarely instead of all the time."""

_OPEN_MOST: Final = 64
"""Files that stay open while nothing new is in them. Beyond that they are opened again when they
have changed."""


def listed_plan(place: Place, tail: bool, max_tasks: int, urls: Sequence[str]) -> list[Partition]:
    """Return a partition for each file, and for one task alone one for those that come later."""
    try:
        planned = [Partition(file_key(found.path), bounded=not tail) for found in place.find()]
    finally:
        place.close()
    if max_tasks > 1 or not tail:
        return planned
    return [*planned, Partition({"find": ",".join(urls)}, weight=0.01, finds_others=True)]


def watch_listing(place: Place, every: float, monitor: Monitor) -> None:
    """Ask for another plan whenever there are files that the present one has not."""
    try:
        while True:
            began = time.monotonic()
            planned = {str(p.key["file"]) for p in monitor.partitions if "file" in p.key}
            new = {found.path for found in place.find()} - planned
            if new:
                monitor.replan(f"{len(new)} files appeared, {min(new)} is one of them")
            if not monitor.wait(max(every, (time.monotonic() - began) * _LIST_SHARE)):
                return
    finally:
        place.close()


class ListedFiles:
    """The files of one task, in turns."""

    def __init__(self, keys: ReadingKeys, place: Place, every: float) -> None:
        self._keys, self._place, self._every = keys, place, every
        self._slicer = Slicer(keys)
        self._placing = Placing(place, keys, reading_for(keys, Roots()))
        self._readers: dict[str, PlacedReader] = {}
        self._ready: dict[str, None] = {}
        self._slices: deque[Batch] = deque()
        self._signal = threading.Event()
        self._next_list = 0.0
        self._finds = False

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Go on in every file where its offset says."""
        self._finds = any("find" in partition.key for partition in partitions)
        for partition in partitions:
            if "file" in partition.key:
                path = str(partition.key["file"])
                self._add(PlacedReader(path, partition.offset, self._placing))
        self._list()
        for partition in partitions:
            is_new = "file" in partition.key and partition.offset is None
            if is_new and self._place.grows:
                self._inherit(str(partition.key["file"]))

    def read_batch(self) -> Batch | None:
        """Return the rows of the next block of a file that has one."""
        if self._slices:
            return self._slices.popleft()
        self._signal.clear()
        if self._keys.tail and time.monotonic() >= self._next_list:
            self._list()
            self._ready.update(dict.fromkeys(self._readers))
        for path in list(self._ready):
            self._read(path)
            if self._slices:
                return self._slices.popleft()
        return None

    def wait(self, timeout: float) -> None:
        """Block until it is time to list."""
        until = self._next_list - time.monotonic()
        self._signal.wait(max(min(timeout, until), 0))

    def wake(self) -> None:
        """End a wait."""
        self._signal.set()

    def finished(self) -> bool:
        """Return whether a bounded read came to its end."""
        return not self._keys.tail and not self._readers and not self._slices

    def caught_up(self) -> bool:
        """Return whether everything was given that was there when the files were last looked at. A
        last line without its newline is not there yet.
        """
        return not self._ready and not self._slices

    def remaining(self) -> tuple[int, int]:
        """Return the bytes that are left of what is open."""
        return sum(reader.left() for reader in self._readers.values()), -1

    def close(self) -> None:
        """Close all files."""
        for reader in self._readers.values():
            reader.close()
        self._place.close()

    def _list(self) -> None:
        """List the place: what was found is what readers see until the next time."""
        began = time.monotonic()
        found = self._place.find()
        took = time.monotonic() - began
        self._next_list = time.monotonic() + max(self._every, took * _LIST_SHARE)
        if not (self._finds and self._keys.tail):
            return
        for file in found:
            if file.path not in self._readers:
                self._add(PlacedReader(file.path, None, self._placing))
                if self._place.grows:
                    self._inherit(file.path)

    def _add(self, reader: PlacedReader) -> None:
        self._readers[reader.path] = reader
        self._ready[reader.path] = None

    def _inherit(self, path: str) -> None:
        """A file that was renamed goes on under its new name and is not read twice."""
        for other in self._readers.values():
            if other.is_now_at(path):
                offset = other.offset()
                other.leave(restart=True)
                self._add(PlacedReader(path, offset, self._placing))
                self._slices.append(Batch(partition=file_key(path), offset=offset))
                return

    def _read(self, path: str) -> None:
        reader = self._readers[path]
        del self._ready[path]
        piece = reader.read()
        if piece is not None:
            self._ready[path] = None  # at the end of the line: files take turns
            self._slices.extend(self._slicer.batches(path, piece, reader.offset()))
        elif not self._keys.tail:
            reader.close()
            del self._readers[path]
        elif len(self._readers) > _OPEN_MOST:
            reader.leave(restart=False)
