"""How far a file was read, and how to know it again.

A name is not enough: logs are rotated, files are rewritten, disks are restored. The offset carries
the first and the last bytes before the position as digests; a file that has the same bytes there is
the same file as far as it was read.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock_connector import OffsetLostError

WINDOW: Final = 256
"""Bytes of either digest. Fewer could be equal in two logs that open with the same banner; more
only costs when a file is opened again."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A position in a file, and what stands before it. Empty digests fit anything: people may set
    an offset of a position alone.
    """

    position: int = 0
    inode: int = 0
    head: str = ""
    tail: str = ""

    @classmethod
    def of_offset(cls, offset: Mapping[str, Any] | None) -> Mark:
        """Return the mark of a stored offset."""
        if not offset:
            return cls()
        return cls(
            position=int(offset.get("position") or 0),
            inode=int(offset.get("inode") or 0),
            head=str(offset.get("head") or ""),
            tail=str(offset.get("tail") or ""),
        )

    def offset(self) -> dict[str, Any]:
        """Return the offset to store."""
        return {
            "position": self.position,
            "inode": self.inode,
            "head": self.head,
            "tail": self.tail,
        }

    def fits(self, fd: int) -> bool:
        """Return whether an open file is the marked one as far as it was read."""
        if os.fstat(fd).st_size < self.position:
            return False
        head, tail = ends(fd, self.position)
        return self.head in {"", digest(head)} and self.tail in {"", digest(tail)}

    def splits_line(self, fd: int) -> bool:
        """Return whether a person set a position inside a line. Without digests nothing else tells
        that the file is the one that was meant.
        """
        if not self.position or self.head or self.tail:
            return False
        return os.pread(fd, 1, self.position - 1) not in {b"\n", b"\r"}


def digest(data: bytes) -> str:
    """Return a short digest."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def ends(fd: int, position: int) -> tuple[bytes, bytes]:
    """Return the first bytes of a file and the last before a position."""
    size = min(position, WINDOW)
    return os.pread(fd, size, 0), os.pread(fd, size, position - size)


def truncated(what: str) -> OffsetLostError:
    """Return the error for a file that is not what it was as far as it was read."""
    return OffsetLostError(
        "file.truncated",
        what,
        fix="Set `truncated` to `restart` to read it from its start, or set the offset by hand.",
        config_path="truncated",
    )
