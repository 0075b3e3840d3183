"""`file-source`: the task that reads files."""

# Paths are plain text here: keys of partitions, many of them, never resolved.
# ruff: noqa: PTH116, PTH118, PTH119, PTH120, PTH122

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import ClassVar, Final, Protocol

import pyarrow as pa

from penstock_builtin.file_source.appearing import watch_for_files
from penstock_builtin.file_source.config import FileSourceConfig
from penstock_builtin.file_source.cutting import cut_lines, cut_quoted
from penstock_builtin.file_source.delimited import CsvDecoder
from penstock_builtin.file_source.finding import (
    Finder,
    file_key,
    folders_of,
    is_pattern,
    may_be_meant,
    may_grow,
    plan_files,
)
from penstock_builtin.file_source.jsonl import JsonDecoder
from penstock_builtin.file_source.mark import Mark
from penstock_builtin.file_source.reader import Chunk, FileReader, Reading
from penstock_builtin.file_source.text import Decoded, TextDecoder
from penstock_builtin.file_source.watch import WATCHER
from penstock_builtin.opening import as_file_error, open_regular
from penstock_connector import Batch, ConnectorError, Monitor, Partition, Source, partition_id

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


class Decoder(Protocol):
    """Makes rows of a chunk."""

    def decode(self, chunk: Chunk, dataset: str) -> Decoded:
        """Return the rows, and those that could not be read."""


class FileSource(Source[FileSourceConfig]):
    """Rows of files: lines of text, CSV or JSON lines.

    Reads files and patterns, goes on with what is appended, follows rotation, and finds new files.
    Every file is a partition; its offset is a byte position.
    """

    name = "file-source"
    aliases = ("org.apache.kafka.connect.file.FileStreamSourceConnector", "FileStreamSource")
    title = "Rows of files"
    bounded: ClassVar[bool] = True  # asked for `finished`, which says no while tailing

    @classmethod
    def validate(cls, config: FileSourceConfig) -> list[ConnectorError]:
        """Return what is wrong with the columns."""
        try:
            decoder_for(config)
        except ConnectorError as error:
            return [error]
        return []

    @classmethod
    def check(cls, config: FileSourceConfig) -> None:
        """Open every file that is named; in a tailed configuration they may come later."""
        for path in config.patterns:
            if is_pattern(path):
                continue
            try:
                os.close(open_regular(path, config.roots))
            except FileNotFoundError as error:
                if not config.tail:
                    raise as_file_error(error, path) from error

    @classmethod
    def plan(
        cls, config: FileSourceConfig, max_tasks: int, known: Sequence[Partition]
    ) -> Sequence[Partition]:
        """Return a partition for each file, and for one task alone one for those that come
        later.
        """
        del known
        return plan_files(config, max_tasks)

    @classmethod
    def monitored(cls, config: FileSourceConfig, max_tasks: int) -> bool:
        """Tell whether files may appear that no task finds by itself."""
        return max_tasks > 1 and may_grow(config)

    @classmethod
    def monitor(cls, config: FileSourceConfig, monitor: Monitor) -> None:
        """Watch for new files."""
        watch_for_files(config, monitor)

    def init(self, config: FileSourceConfig) -> None:
        """Take the configuration."""
        super().init(config)
        self._decoder = decoder_for(config)
        self._how = reading_for(config)
        self._readers: dict[str, FileReader] = {}
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
        self._finder = Finder(self.config.patterns, partitions)
        files = [partition for partition in partitions if "file" in partition.key]
        for partition in files:
            mark = Mark.of_offset(partition.offset)
            self._add(FileReader(str(partition.key["file"]), mark, self._how))
        for partition in files:
            if partition.offset is None:
                self._inherit(str(partition.key["file"]))

    def read_batch(self) -> Batch | None:
        """Return the rows of the next block of a file that has one."""
        if self._slices:
            return self._slices.popleft()
        began = time.monotonic()
        self._take_changes(began)
        for path in list(self._ready):
            if partition_id(file_key(path)) in self.paused:
                continue
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
        """Tell whether a bounded read came to its end."""
        return not self.config.tail and not self._readers and not self._slices

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
        elif may_be_meant(name, is_folder=is_folder, patterns=self.config.patterns):
            self._look_again = True
        else:
            return
        self._signal.set()

    # ── which files ──────────────────────────────────────────────────────────────────────────────

    def _take_changes(self, now: float) -> None:
        self._signal.clear()
        while self._told:
            path = self._told.pop()
            self._ready[path] = None
            self._untold.discard(path)
        if self._look_again or now >= self._next_look:
            self._look(now)

    def _look(self, now: float) -> None:
        """Look at every file, and for new ones."""
        told, self._look_again = self._look_again, False
        if self.config.tail:
            self._watch()
            if self._find() and not told:
                self._look_every = _LOOK_EVERY
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
            self._add(FileReader(path, Mark(), self._how))
            self._inherit(path)
        return bool(found)

    def _add(self, reader: FileReader) -> None:
        self._readers[reader.path] = reader
        self._ready[reader.path] = None

    def _inherit(self, path: str) -> None:
        """A file that was rotated to a name that is meant, too, goes on there and is not read
        twice.

        The offset under the new name goes out before any row of the file that took the old name:
        a crash in between reads neither of them twice.
        """
        inode = _inode_at(path)
        for other in self._readers.values():
            renamed = other.path != path and other.inode == inode != _inode_at(other.path)
            if renamed and inode and _is_marked(path, other.mark, self._how):
                mark = other.mark
                other.leave(restart=True)
                self._add(FileReader(path, mark, self._how))
                self._slices.append(Batch(partition=file_key(path), offset=mark.offset()))
                return

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

    def _follow(self, reader: FileReader) -> None:
        """The path of a reader names a new file: end the old one, or hand it to its new name."""
        self._find()
        if reader.gone_on:
            chunk = reader.last_words()
            if chunk is not None:
                self._slice(reader, chunk)
            reader.leave(restart=True)
        self._ready[reader.path] = None

    def _slice(self, reader: FileReader, chunk: Chunk) -> None:
        dataset = dataset_of(self.config.dataset, chunk.path)
        decoded = self._decoder.decode(chunk, dataset)
        last = Batch(
            rows=decoded.rows,
            partition=file_key(chunk.path),
            offset=reader.mark.offset(),
            dataset=dataset,
            bad_rows=decoded.bad,
            finished_partition=chunk.complete and not self.config.tail,
        )
        self._slices.extend(cut_rows(last, decoded.rows, self.config.batch_size))


def decoder_for(config: FileSourceConfig) -> Decoder:
    """Return what makes rows of this configuration's files."""
    match config.format:
        case "csv":
            return CsvDecoder(config)
        case "jsonl":
            return JsonDecoder(config.invalid_utf8, config.invalid_rows)
    return TextDecoder(config.invalid_utf8)


def reading_for(config: FileSourceConfig) -> Reading:
    """Return how this configuration's files are read."""
    quoted = config.format == "csv" and config.csv_quote
    return Reading(
        roots=config.roots,
        cut=cut_quoted(config.csv_quote.encode()) if quoted else cut_lines,
        block=config.block,
        line_most=config.line_most,
        tail=config.tail,
        restart=config.truncated == "restart",
    )


def dataset_of(template: str, path: str) -> str:
    """Return the dataset of a file's rows."""
    return template.replace("${file}", os.path.splitext(os.path.basename(path))[0])


def cut_rows(batch: Batch, rows: pa.RecordBatch, most: int) -> list[Batch]:
    """Return a batch in parts of at most so many rows. The offset comes with the last: only there
    is a byte position.
    """
    if not most or rows.num_rows <= most:
        return [batch]
    parts = [
        Batch(rows=rows.slice(at, most), partition=batch.partition, dataset=batch.dataset)
        for at in range(0, rows.num_rows, most)
    ]
    batch.rows = parts.pop().rows
    return [*parts, batch]


def _inode_at(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def _is_marked(path: str, mark: Mark, how: Reading) -> bool:
    try:
        fd = open_regular(path, how.roots)
    except (OSError, ConnectorError):
        return False
    try:
        return mark.fits(fd)
    finally:
        os.close(fd)
