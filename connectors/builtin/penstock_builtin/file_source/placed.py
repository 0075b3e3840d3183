"""One file of any place, read by its format: compressed lines, containers, objects, files far away.

It is read from an offset to its end, and once more when it has changed. A file that may grow stays
open, so that one that was renamed is read to its end before the one that took its name.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock_builtin.file_source.chunk import Chunk, Reading
from penstock_builtin.file_source.contents import Content, NotYet, OtherFile, content_of
from penstock_builtin.file_source.keys import ReadingKeys
from penstock_builtin.file_source.mark import truncated
from penstock_builtin.file_source.text import Decoded
from penstock_builtin.places.port import Found, Opened, Place
from penstock_connector import ConfigError, ConnectorError, OffsetLostError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Placing:
    """Where files are, and how they are read; the same for all files of a task."""

    place: Place
    keys: ReadingKeys
    how: Reading


@dataclass(frozen=True, slots=True)
class _OpenFile:
    """A file, open, and what reads it by its format."""

    opened: Opened
    content: Content


class PlacedReader:
    """Reads one path from an offset on.

    Attributes:
        path: Its name; the file that is there may be another one tomorrow.
        gone_on, leaving: Never: it follows what the path names by itself.
    """

    gone_on = False
    leaving = False

    def __init__(self, path: str, offset: Mapping[str, Any] | None, placing: Placing) -> None:
        self.path = path
        self._placing, self._place = placing, placing.place
        self._offset: dict[str, Any] = dict(offset or {})
        self._file: _OpenFile | None = None
        self._done = str(self._offset.get("version", "")) if self._offset.get("ended") else ""
        self._told_not_yet = False
        compressed = placing.keys.compression_of(path)
        self._grows = placing.keys.has_lines and not compressed and self._place.grows
        self._final = not (placing.keys.tail and self._place.grows)

    def offset(self) -> dict[str, Any]:
        """Return the offset to store."""
        return dict(self._offset) or {"position": 0}

    @property
    def version(self) -> str:
        """Of the file that was read last."""
        return str(self._offset.get("version", ""))

    @property
    def inode(self) -> int:
        """Of what is read, where versions begin with it; 0 elsewhere."""
        begin, dash, _ = self.version.partition("-")
        return int(begin) if dash and begin.isdecimal() else 0

    def left(self) -> int:
        """Return the bytes that are not read yet, of the file as it was opened."""
        if self._file is None:
            return 0
        packed = self._placing.keys.compression_of(self.path)
        read = 0 if packed else int(self._offset.get("position") or 0)
        return max(self._file.opened.found.size - read, 0)

    def read(self) -> Chunk | Decoded | None:
        """Return the next rows, or None when there are none now."""
        try:
            file = self._file or self._begin()
            return None if file is None else self._next(file)
        except NotYet:
            self._not_yet()
        except OtherFile:
            self._lost()
            self.leave(restart=True)
        return None

    def last_words(self) -> None:
        """None: it says them by itself."""

    def is_now_at(self, path: str) -> bool:
        """Return whether what was read has another name now, and is no longer at its own."""
        if path == self.path or not self._offset.get("version"):
            return False
        there, here = self._place.look(path), self._place.look(self.path)
        if there is None or (here is not None and here.version == self.version):
            return False
        if there.version != self.version and not self._grows:
            return False
        return self._fits(path)

    def may_be_left(self) -> bool:
        """Return whether nothing of what it read is still to be read under its old name."""
        return self._file is None

    def leave(self, *, restart: bool) -> None:
        """Close the file. With `restart`, what is at the path next is another one, read from its
        start.
        """
        self.close()
        if restart:
            self._offset, self._done = {}, ""

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.opened.close()
            self._file = None

    # ── beginning ────────────────────────────────────────────────────────────────────────────────

    def _begin(self) -> _OpenFile | None:
        """Open the file; None when it may be made later, or has nothing new."""
        found = self._place.look(self.path)
        if found is None:
            if self._placing.keys.tail:
                return None
            raise self._missing()
        if found.version == self._done:
            return None
        try:
            self._file = self._open()
        except FileNotFoundError as error:
            if self._placing.keys.tail:
                return None
            raise self._missing() from error
        return self._file

    def _open(self) -> _OpenFile:
        opened = self._place.open(self.path)
        try:
            return _OpenFile(opened, self._content_of(opened))
        except BaseException:
            opened.close()
            raise

    def _content_of(self, opened: Opened) -> Content:
        try:
            return self._try(opened, self._offset)
        except OtherFile:
            self._lost()
            self._offset = {}
            return self._try(opened, {})

    def _try(self, opened: Opened, offset: Mapping[str, Any]) -> Content:
        placing = self._placing
        return content_of(opened, offset, placing.keys, placing.how, final=self._final)

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────

    def _next(self, file: _OpenFile) -> Chunk | Decoded | None:
        piece = file.content.next()
        if piece is not None:
            self._store(file)
            return piece
        if not self._grows or self._final:
            self._end(file.opened.found)
            return None
        return self._behind(file)

    def _behind(self, file: _OpenFile) -> Chunk | None:
        """At the end of a file that may grow: is it still the one that the path names?"""
        found = self._place.look(self.path)
        if found is None or found.version == self._done:
            return None  # moved or deleted: what is open stays open until there is a new one
        last = None
        if found.version != file.opened.found.version and not self._fits(self.path):
            last = file.content.last_words()
            self._offset = {}
            self.close()
        elif found.version != file.opened.found.version and self._place.reopens:
            self.close()
        self._done = found.version if self._file else ""
        return last

    def _fits(self, path: str) -> bool:
        """Return whether a path names what was read, as far as it was read."""
        if not (self._offset.get("position") or self._offset.get("row")):
            return True
        try:
            opened = self._place.open(path)
        except (FileNotFoundError, ConnectorError):
            return False
        try:
            self._try(opened, self._offset)
        except (OtherFile, NotYet):
            return False
        finally:
            opened.close()
        return True

    def _store(self, file: _OpenFile) -> None:
        ended = file.content.ended and not self._grows
        self._offset = {**file.content.offset(), "version": file.opened.found.version}
        if ended:
            self._offset["ended"] = True

    def _end(self, found: Found) -> None:
        self._done, self._told_not_yet = found.version, False
        self.close()

    def _not_yet(self) -> None:
        """Wait until a file that ends in the middle has changed."""
        if not self._told_not_yet:
            log.warning("%s is not whole yet: waiting for its rest", self.path)
        self._told_not_yet = True
        found = self._file.opened.found if self._file else self._place.look(self.path)
        self._done = found.version if found else ""
        self.close()

    # ── what became of the file ──────────────────────────────────────────────────────────────────

    def _lost(self) -> None:
        text = f"{self.path} is another file than the one that was read, or was rewritten"
        if self._placing.how.restart:
            log.warning("%s: reading it from its start", text)
            return
        raise truncated(text)

    def _missing(self) -> ConnectorError:
        if self._offset:
            return OffsetLostError(
                "file.vanished",
                f"{self.path} is gone, and a part of it was read",
                fix="Put it back, or take it out of the configuration.",
            )
        return ConfigError(
            "file.missing",
            f"{self.path}: there is no such file",
            fix="Correct the path, or make the file.",
            config_path="path",
        )
