"""Learns of changes in folders the moment they happen, without looking.

One inotify instance and one thread serve the whole process: the kernel allows few instances a user.
Where inotify is missing or its limits are used up, `watch` says so and the caller looks by itself.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from typing import Any, Final, Protocol

log = logging.getLogger(__name__)


class Listener(Protocol):
    """Is told of changes, from the watcher's thread: it must not block."""

    def changed(self, folder: str, name: str, *, is_folder: bool) -> None:
        """Something about a name in a folder is different now. Empty name: anything may be."""


class Watcher:
    """Watches folders for listeners."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted: defaultdict[int, set[tuple[str, Listener]]] = defaultdict(set)
        self._inotify: Any = None
        self._broken = False

    def watch(self, folder: str, listener: Listener) -> bool:
        """Tell a listener of changes in a folder. False: it has to look by itself."""
        with self._lock:
            if self._broken or not self._started():
                return False
            try:
                watch = self._inotify.add_watch(folder, _mask())
            except OSError as error:
                log.debug("%s cannot be watched: %s", folder, error)
                return False
            self._wanted[watch].add((folder, listener))
        return True

    def forget(self, listener: Listener) -> None:
        """Tell a listener nothing any more."""
        with self._lock:
            for watch, wanted in list(self._wanted.items()):
                wanted -= {pair for pair in wanted if pair[1] is listener}
                if not wanted:
                    self._drop(watch)

    def _drop(self, watch: int) -> None:
        del self._wanted[watch]
        try:
            self._inotify.rm_watch(watch)
        except OSError:
            return  # the folder is gone, and its watch with it

    def _started(self) -> bool:
        if self._inotify is None:
            try:
                from inotify_simple import INotify  # noqa: PLC0415 - Linux alone has it

                self._inotify = INotify()
            except (ImportError, OSError, AttributeError) as error:
                log.warning("no inotify (%s): files are looked at again and again", error)
                self._broken = True
                return False
            threading.Thread(target=self._run, name="watch", daemon=True).start()
        return True

    def _run(self) -> None:
        from inotify_simple import flags  # noqa: PLC0415 - as above

        lost = flags.Q_OVERFLOW | flags.IGNORED | flags.DELETE_SELF | flags.MOVE_SELF
        while True:
            events = self._inotify.read()
            # The same file may be in many events of one read: one word about it is enough.
            for watch, mask, name in {(event.wd, event.mask, event.name) for event in events}:
                if mask & lost:
                    name = ""  # noqa: PLW2901 - it stands for anything
                for folder, listener in self._listeners(watch, mask & flags.Q_OVERFLOW):
                    listener.changed(folder, name, is_folder=bool(mask & flags.ISDIR))

    def _listeners(self, watch: int, overflow: int) -> list[tuple[str, Listener]]:
        with self._lock:
            if overflow:
                return [pair for wanted in self._wanted.values() for pair in wanted]
            return list(self._wanted.get(watch, ()))


def _mask() -> int:
    from inotify_simple import flags  # noqa: PLC0415 - Linux alone has it

    return int(
        flags.MODIFY
        | flags.CREATE
        | flags.MOVED_TO
        | flags.MOVED_FROM
        | flags.DELETE
        | flags.ATTRIB
        | flags.DELETE_SELF
        | flags.MOVE_SELF
        | flags.ONLYDIR
    )


WATCHER: Final = Watcher()
"""The process's one watcher."""
