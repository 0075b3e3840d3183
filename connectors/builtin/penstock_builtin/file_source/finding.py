"""Which files a configuration means, now and later."""

# Paths are plain text here: keys of partitions, many of them, never resolved.
# ruff: noqa: PTH112, PTH119, PTH120, PTH207

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from penstock_builtin.file_source.config import MAGIC, FileSourceConfig
from penstock_connector import Partition

_DIGEST: Final = 8
"""Bytes that stand for a path in a payload. At a million files two paths share them with a
probability of 3 in 10⁸."""


def is_pattern(path: str) -> bool:
    """Tell whether a path names files that need not be known yet."""
    return bool(MAGIC & set(path))


def find_files(patterns: Iterable[str]) -> list[str]:
    """Return the paths that are meant now. Those without wildcards are meant even before they
    are there; folders are what a pattern walks through, not what it finds.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if not is_pattern(pattern):
            found[pattern] = None
            continue
        matches = sorted(glob.glob(pattern, recursive=True))
        found.update(dict.fromkeys(path for path in matches if not os.path.isdir(path)))
    return list(found)


def folders_of(patterns: Iterable[str]) -> set[str]:
    """Return the folders in which something can happen that matters."""
    folders: set[str] = set()
    for pattern in patterns:
        folder = os.path.dirname(pattern)
        if is_pattern(folder):
            folders.update(glob.glob(folder, recursive=True))
            while is_pattern(folder):
                folder = os.path.dirname(folder)
                folders.update(glob.glob(folder, recursive=True))
        folders.add(folder)
    return {folder for folder in folders if os.path.isdir(folder)}


def may_be_meant(name: str, *, is_folder: bool, patterns: Iterable[str]) -> bool:
    """Tell whether a new name is worth looking for files again."""
    magic = [pattern for pattern in patterns if is_pattern(pattern)]
    if is_folder:
        return any(is_pattern(os.path.dirname(pattern)) for pattern in magic)
    return any(fnmatchcase(name, os.path.basename(pattern)) for pattern in magic)


def file_key(path: str) -> dict[str, str]:
    """Return the key of a file's partition."""
    return {"file": path}


def plan_files(config: FileSourceConfig, max_tasks: int) -> list[Partition]:
    """Return a partition for each file, and one for those that will be found while running.

    Whoever holds that one has to know which files others read: when there can be others, its
    payload lists them, as digests.
    """
    paths = find_files(config.patterns)
    planned = [Partition(file_key(path), bounded=not config.tail) for path in paths]
    if not (config.tail and config.has_patterns):
        return planned
    payload = b"".join(map(path_digest, paths)) if max_tasks > 1 else b""
    patterns = [pattern for pattern in config.patterns if is_pattern(pattern)]
    return [*planned, Partition({"find": ",".join(patterns)}, payload=payload, weight=0.01)]


def path_digest(path: str) -> bytes:
    """Return what stands for a path in a payload."""
    return hashlib.blake2b(path.encode(errors="surrogateescape"), digest_size=_DIGEST).digest()


class Finder:
    """Finds files that appear while a task runs; only the holder of the `find` partition does."""

    def __init__(self, patterns: Sequence[str], partitions: Sequence[Partition]) -> None:
        finders: list[Any] = [p for p in partitions if "find" in p.key]
        self.patterns = tuple(filter(is_pattern, patterns)) if finders else ()
        payload = b"".join(partition.payload for partition in finders)
        self._others = {payload[at : at + _DIGEST] for at in range(0, len(payload), _DIGEST)}

    def new_files(self, known: Iterable[str]) -> list[str]:
        """Return files that nobody reads yet."""
        if not self.patterns:
            return []
        known = set(known)
        return [
            path
            for path in find_files(self.patterns)
            if path not in known and path_digest(path) not in self._others
        ]
