"""The files of a machine: which are read, in which order, and when they are looked at."""

# Paths are plain text here: keys of partitions, many of them, never resolved.
# ruff: noqa: PTH118, PTH120

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from penstock_builtin.file_source.chunk import Chunk
from penstock_builtin.file_source.config import FileSourceConfig
from penstock_builtin.file_source.finding import Finder, folders_of, may_be_meant
from penstock_builtin.file_source.mark import Mark
from penstock_builtin.file_source.placed import PlacedReader, Placing
from penstock_builtin.file_source.reader import FileReader, inode_at
from penstock_builtin.file_source.renames import renames
from penstock_builtin.file_source.slicing import Slicer, file_key, reading_for
from penstock_builtin.file_source.text import Decoded
from penstock_builtin.file_source.watch import WATCHER
from penstock_builtin.places.local import LocalPlace
from penstock_connector import Batch, Partition

_LOOK_EVERY: Final = 1.0
"""Seconds between two looks at all files, beside what the watcher tells. It is the net below: file
systems of other machines, and writers through memory maps, tell nothing. Shorter costs CPU while
idle, longer delays the rows of such files."""

_LOOK_MOST: Final = 16.0
"""The same while looks find nothing that the watcher had not told: each such look doubles it. One
look that does find something brings it back, so only the first rows of such a file come late."""

_LOOK_SHARE: Final = 20
"""A look at all files may take one part in so many of the time: with very many files it comes more
rarely instead of eating a core."""

_POLL: Final = 0.05
"""The same where there is nothing to be told by at all."""

_OPEN_MOST: Final = 256
"""Files that may stay open while nothing new is in them. Beyond that they are opened again when
something happens: slower, but without end."""

_COUNTED_MOST: Final = 1000
"""Files whose sizes are added up for the progress; more would cost more than it tells."""


class Reader(Protocol):
    """Reads one file: `FileReader` lines as they are, `PlacedReader` all else."""

    path: str

    @property
    def inode(self) -> int:
        """Of what is read; 0 when it is not known."""

    @property
    def leaving(self) -> bool:
        """Whether the path names another file, and this one must stay quiet for a while first."""

    @property
    def gone_on(self) -> bool:
        """Whether the path names another file now."""

    def read(self) -> Chunk | Decoded | None:
        """Return the next rows, or None when there are none now."""

    def last_words(self) -> Chunk | None:
        """Return a last line without a newline, of a file that nobody will end any more."""

    def offset(self) -> dict[str, Any]:
        """Return the offset to store."""

    def left(self) -> int:
        """Return the bytes that are not read yet."""

    def is_now_at(self, path: str) -> bool:
        """Return whether what was read has another name now, and is no longer at its own."""

    def may_be_left(self) -> bool:
        """Return whether nothing of what it read is still to be read under its old name."""

    def leave(self, *, restart: bool) -> None:
        """Close the file; with `restart`, another one is at the path."""

    def close(self) -> None:
        """Close the file."""


class TailedFiles:
    """The files of one task, in turns: those that are named, and those that patterns find."""

    def __init__(self, config: FileSourceConfig) -> None:
        self.config = config
        self._patterns, self._names = config.patterns, config.names
        self._slicer = Slicer(config)
        self._how = reading_for(config, config.roots)
        self._placing = Placing(LocalPlace(config.roots), config, self._how)
        self._readers: dict[str, Reader] = {}
        self._ready: dict[str, None] = {}
        self._slices: deque[Batch] = deque()
        self._signal = threading.Event()
        self._told: set[str] = set()
        self._look_again = True
        self._next_look = 0.0
        self._look_every = _LOOK_EVERY
        self._untold: set[str] = set()
        self._told_all = True

    def connect(self, partitions: Sequence[Partition]) -> None:
        """Go on in every file where its offset says."""
        self._finder = Finder(self._patterns, self._names, partitions)
        files = [partition for partition in partitions if "file" in partition.key]
        for partition in files:
            self._add(self._reader(str(partition.key["file"]), partition.offset))
        if self.config.tail:
            self._settle()

    def read_batch(self) -> Batch | None:
        """Return the rows of the next block of a file that has one."""
        if self._slices:
            return self._slices.popleft()
        began = time.monotonic()
        self._take_changes(began)
        for path in list(self._ready):
            self._read(path)
            if self._slices:
                return self._slices.popleft()
        took = time.monotonic() - began
        self._next_look = max(self._next_look, began + took * _LOOK_SHARE)
        return None

    def wait(self, timeout: float) -> None:
        """Block until a watched folder changes, or until it is time to look by itself."""
        until_look = self._next_look - time.monotonic()
        self._signal.wait(max(min(timeout, until_look), 0))

    def wake(self) -> None:
        """End a wait."""
        self._signal.set()

    def finished(self) -> bool:
        """Return whether a bounded read came to its end."""
        return not self.config.tail and not self._readers and not self._slices

    def caught_up(self) -> bool:
        """Return whether everything was given that was there when the files were last looked at. A
        last line without its newline is not there yet.
        """
        moves = any(one.leaving or one.gone_on for one in self._readers.values())
        return not self._ready and not self._slices and not moves

    def remaining(self) -> tuple[int, int]:
        """Return the bytes that are left, while there are few enough files to add them up."""
        if len(self._readers) > _COUNTED_MOST:
            return -1, -1
        return sum(max(reader.left(), 0) for reader in self._readers.values()), -1

    def close(self) -> None:
        """Close all files."""
        WATCHER.forget(self)
        for reader in self._readers.values():
            reader.close()

    def changed(self, folder: str, name: str, *, is_folder: bool) -> None:
        """Take a word of the watcher, in its thread."""
        path = os.path.join(folder, name)
        if path in self._readers:
            self._told.add(path)
        elif not name:
            self._next_look = 0.0
        elif may_be_meant(name, is_folder=is_folder, patterns=self._patterns):
            self._look_again = True
        else:
            return
        self._signal.set()

    # ── which files ──────────────────────────────────────────────────────────────────────────────

    def _take_changes(self, now: float) -> None:
        self._signal.clear()
        stirred = False
        while self._told:
            path = self._told.pop()
            self._ready[path] = None
            self._untold.discard(path)
            stirred = stirred or inode_at(path) not in {0, self._readers[path].inode}
        if self._look_again or now >= self._next_look:
            self._look(now)
        elif stirred:
            self._settle()

    def _look(self, now: float) -> None:
        """Look at every file, and for new ones."""
        told, self._look_again = self._look_again, False
        if self.config.tail:
            self._watch()
            if self._find() and not told:
                self._look_every = _LOOK_EVERY
            self._settle()
        self._next_look = now + (self._look_every if self._told_all else _POLL)
        self._look_every = min(self._look_every * 2, _LOOK_MOST)
        self._untold.update(path for path in self._readers if path not in self._ready)
        self._ready.update(dict.fromkeys(self._readers))

    def _watch(self) -> None:
        wanted = folders_of(self._finder.patterns)
        wanted |= {os.path.dirname(path) for path in self._readers}
        # Watching again what is watched costs little, and heals a folder that was made anew.
        told = [WATCHER.watch(folder, self) for folder in sorted(wanted)]
        self._told_all = all(told)

    def _find(self) -> bool:
        found = list(self._finder.new_files(self._readers))
        for path in found:
            self._add(self._reader(path, None))
        return bool(found)

    def _reader(self, path: str, offset: Mapping[str, Any] | None) -> Reader:
        if self.config.has_lines and not self.config.compression_of(path):
            return FileReader(path, Mark.of_offset(offset), self._how)
        return PlacedReader(path, offset, self._placing)

    def _add(self, reader: Reader) -> None:
        self._readers[reader.path] = reader
        self._ready[reader.path] = None

    def _settle(self) -> None:
        """Files that were rotated to names that are meant, too, go on there."""
        found = renames(self._readers)
        for path, offset in found.taken:
            self._readers[path].close()
            self._add(self._reader(path, offset))
            self._slices.append(Batch(partition=file_key(path), offset=offset))
        for path in found.left:
            self._readers[path].leave(restart=True)
            self._slices.append(Batch(partition=file_key(path), offset=Mark().offset()))
            self._ready[path] = None

    # ── rows of one file ─────────────────────────────────────────────────────────────────────────

    def _read(self, path: str) -> None:
        reader = self._readers[path]
        del self._ready[path]
        chunk = reader.read()
        if chunk is not None and path in self._untold:
            self._look_every = _LOOK_EVERY
            self._next_look = min(self._next_look, time.monotonic() + _LOOK_EVERY)
        self._untold.discard(path)
        if chunk is not None:
            self._ready[path] = None  # at the end of the line: files take turns
            self._slice(reader, chunk)
        elif not self.config.tail:
            reader.close()
            del self._readers[path]
        elif reader.gone_on:
            self._follow(reader)
        elif reader.leaving:
            self._next_look = min(self._next_look, time.monotonic() + _LOOK_EVERY)
        elif len(self._readers) > _OPEN_MOST:
            reader.leave(restart=False)

    def _follow(self, reader: Reader) -> None:
        """The path of a reader names a new file: end the old one, or hand it to its new name."""
        self._find()
        self._settle()
        if self._readers[reader.path] is reader and reader.gone_on:
            chunk = reader.last_words()
            if chunk is not None:
                self._slice(reader, chunk)
            reader.leave(restart=True)
        self._ready[reader.path] = None

    def _slice(self, reader: Reader, piece: Chunk | Decoded) -> None:
        self._slices.extend(self._slicer.batches(reader.path, piece, reader.offset()))
