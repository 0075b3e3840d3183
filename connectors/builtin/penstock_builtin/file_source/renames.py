"""Files whose names moved: `app.2` was `app.1`, and `app.1` was `app`. Each goes on under its new
name, and none is read twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock_builtin.file_source.reader import inode_at


class Named(Protocol):
    """What reads a file by a name."""

    path: str

    @property
    def inode(self) -> int:
        """Of what is read; 0 when it is not known."""

    def offset(self) -> dict[str, Any]:
        """Return the offset to store."""

    def is_now_at(self, path: str) -> bool:
        """Return whether what was read has another name now, and is no longer at its own."""

    def may_be_left(self) -> bool:
        """Return whether nothing of what it read is still to be read under its old name."""


@dataclass(frozen=True, slots=True)
class Renames:
    """What has to be done.

    Attributes:
        taken: Paths, and the offsets at which to go on there. In this order: an offset is stored
            under its new name before the old name gets another one, so that a crash in between
            loses none.
        left: Paths that name a file that nobody has read.
    """

    taken: Sequence[tuple[str, dict[str, Any]]] = ()
    left: Sequence[str] = field(default_factory=tuple)


def renames(readers: Mapping[str, Named]) -> Renames:
    """Return what became of the names."""
    here = {path: inode_at(path) for path in readers}
    stirred = [path for path, reader in readers.items() if here[path] not in {0, reader.inode}]
    if not stirred:
        return Renames()
    at_home = {here[path] for path in readers if here[path] == readers[path].inode}
    known = {reader.inode: reader for reader in readers.values() if reader.inode}
    comes: dict[str, Named] = {}
    for path in stirred:
        other = known.get(here[path])
        if other is not None and other.is_now_at(path):
            comes[path] = other
    taken: dict[str, Named] = {}
    for path in comes:
        _follow(path, comes, readers, taken)
    vacated = {other.path for other in taken.values()} - set(taken)
    doubled = {path for path in stirred if path not in comes and readers[path].inode in at_home}
    return Renames(
        [(path, other.offset()) for path, other in taken.items()], sorted(vacated | doubled)
    )


def _follow(
    path: str, comes: Mapping[str, Named], readers: Mapping[str, Named], taken: dict[str, Named]
) -> None:
    """Take the names of a row of moves, the last one first. It waits as a whole while the file that
    lost its name in it is still being read.
    """
    goes = {other.path: there for there, other in comes.items()}
    row = [path]
    while (there := goes.get(row[-1])) is not None and there not in row:
        row.append(there)
    if there is None and not readers[row[-1]].may_be_left():
        return
    for name in reversed(row):
        taken.setdefault(name, comes[name])
