"""Watches for files that appear while several tasks read: each becomes a partition of one."""

# Paths are plain text here: keys of partitions, many of them, never resolved.
# ruff: noqa: PTH118

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from penstock_builtin.file_source.config import FileSourceConfig
from penstock_builtin.file_source.finding import find_files, folders_of, may_be_meant
from penstock_builtin.file_source.watch import WATCHER
from penstock_connector import Monitor

_LOOK_EVERY: Final = 1.0
"""Seconds between two looks, beside what the watcher tells: the net below, for file systems of
other machines. Shorter costs CPU while idle, longer delays the rows of new files there."""

_LOOK_SHARE: Final = 20
"""A look may take one part in so many of the time."""

_GATHER: Final = 0.2
"""Seconds that a new file waits for others: what comes together is planned together, because a task
is started anew for it."""


def watch_for_files(config: FileSourceConfig, monitor: Monitor) -> None:
    """Ask for another plan whenever there are files that the present one has not. Those that went
    are no reason: whoever reads them waits, and the next plan leaves them out.
    """
    patterns, names = config.patterns, config.names
    hints = _Hints(patterns, monitor.wake)
    try:
        while True:
            began = time.monotonic()
            for folder in sorted(folders_of(patterns)):
                WATCHER.watch(folder, hints)
            found = frozenset(find_files(patterns, names))
            planned = {str(p.key["file"]) for p in monitor.partitions if "file" in p.key}
            hints.known = found | planned
            new = found - planned
            if new:
                monitor.replan(f"{len(new)} files appeared, {min(new)} is one of them")
            pause = max(_LOOK_EVERY, (time.monotonic() - began) * _LOOK_SHARE)
            if not monitor.wait(pause) or monitor.stopping.wait(_GATHER):
                return
    finally:
        WATCHER.forget(hints)


class _Hints:
    """Wakes when a name comes up that may be a new file's. What happens to known files is nothing
    new: they may be written to all the time.
    """

    def __init__(self, patterns: tuple[str, ...], wake: Callable[[], None]) -> None:
        self.known: frozenset[str] = frozenset()
        self._patterns, self._wake = patterns, wake

    def changed(self, folder: str, name: str, *, is_folder: bool) -> None:
        """Take a word of the watcher, in its thread."""
        meant = not name or may_be_meant(name, is_folder=is_folder, patterns=self._patterns)
        if meant and os.path.join(folder, name) not in self.known:
            self._wake()
