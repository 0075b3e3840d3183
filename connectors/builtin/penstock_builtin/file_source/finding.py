"""Which files a configuration means, now and later."""

# Paths are plain text here: keys of partitions, many of them, never resolved.
# ruff: noqa: PTH112, PTH119, PTH120, PTH207

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from penstock_builtin.file_source.config import MAGIC, FileSourceConfig
from penstock_builtin.file_source.slicing import file_key
from penstock_builtin.places.port import Names
from penstock_connector import Partition


def is_pattern(path: str) -> bool:
    """Return whether a path names files that need not be known yet."""
    return bool(MAGIC & set(path))


def find_files(patterns: Iterable[str], names: Names) -> list[str]:
    """Return the paths that are meant now. Those without wildcards are meant even before they
    are there; folders are what a pattern walks through, not what it finds.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if not is_pattern(pattern):
            found[pattern] = None
            continue
        matches = sorted(glob.glob(pattern, recursive=True))
        wanted = (path for path in matches if names.has(path) and not os.path.isdir(path))
        found.update(dict.fromkeys(wanted))
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
    """Return whether a new name is worth looking for files again."""
    magic = [pattern for pattern in patterns if is_pattern(pattern)]
    if is_folder:
        return any(is_pattern(os.path.dirname(pattern)) for pattern in magic)
    return any(fnmatchcase(name, os.path.basename(pattern)) for pattern in magic)


def plan_files(config: FileSourceConfig, max_tasks: int) -> list[Partition]:
    """Return a partition for each file. For one task alone there is one more, for files that it
    finds while it runs: it begins with them at once. Several tasks are given them by another plan.
    """
    files = find_files(config.patterns, config.names)
    planned = [Partition(file_key(path), bounded=not config.tail) for path in files]
    if max_tasks > 1 or not may_grow(config):
        return planned
    patterns = [pattern for pattern in config.patterns if is_pattern(pattern)]
    return [*planned, Partition({"find": ",".join(patterns)}, weight=0.01, finds_others=True)]


def may_grow(config: FileSourceConfig) -> bool:
    """Return whether files may be meant that are not there yet, and that nobody named."""
    return config.tail and config.has_patterns


class Finder:
    """Finds files that appear while a task runs; only the holder of the `find` partition does."""

    def __init__(
        self, patterns: Sequence[str], names: Names, partitions: Sequence[Partition]
    ) -> None:
        self._names = names
        finds = any("find" in partition.key for partition in partitions)
        self.patterns = tuple(filter(is_pattern, patterns)) if finds else ()

    def new_files(self, known: Iterable[str]) -> list[str]:
        """Return files that the task does not read yet."""
        if not self.patterns:
            return []
        known = set(known)
        return [path for path in find_files(self.patterns, self._names) if path not in known]
