"""Signals that are lines of a file: `{"id": "1", "type": "execute-snapshot", "data": {…}}`.

The file is only read. How far it was read is in the offset, with a digest of what was read: a file
that was written anew is read from its first line. The same text over itself is no new signal.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from penstock_connector import ConfigError
from penstock_connector.reach import Reach, outside_folder

_SIZE_MOST: Final = 1 << 20
"""Bytes of the file."""

_Stamp = tuple[int, int, int]


class SignalFile:
    """Reads the lines that were added to a file."""

    name = "file"

    def __init__(self, path: str, reach: Reach) -> None:
        self._path, self._reach = Path(path), reach
        self._seen: _Stamp | None = None
        self._settled = False

    def poll(self, place: Any) -> tuple[list[Mapping[str, Any] | ConfigError], Any]:
        """Return new signals, and the place behind them.

        Args:
            place: `[bytes, digest]` that were read; None: nothing was.

        Raises:
            ConfigError: `cdc.signal_channel`: it cannot be read. `reach.folder`.
        """
        try:
            with self._path.open("rb") as file:
                if not self._reach.has_opened(file.fileno()):
                    raise outside_folder(str(self._path), "signal.file")
                found = os.fstat(file.fileno())
                stamp = found.st_ino, found.st_size, found.st_mtime_ns
                if stamp == self._seen and self._settled:
                    return [], place
                whole = file.read(_SIZE_MOST + 1)
        except FileNotFoundError:
            self._seen = None
            return [], place  # it may come later
        except OSError as error:
            raise _unreadable(f"{self._path} cannot be read: {error.strerror}") from error
        self._settled = stamp == self._seen
        self._seen = stamp
        if len(whole) > _SIZE_MOST:
            raise _unreadable(f"{self._path} has more than {_SIZE_MOST} bytes", "Empty it.")
        start = _start(whole, place)
        # a last line without an end may still grow: it is taken when the file was left alone
        end = len(whole) if self._settled else whole.rfind(b"\n") + 1
        if end <= start:
            return [], place
        lines = whole[start:end].decode("utf-8", "replace").splitlines()
        return [parsed(line) for line in lines if line.strip()], [end, _digest(whole[:end])]

    def close(self) -> None:
        """Nothing is open between two looks."""


def parsed(text: str) -> Mapping[str, Any] | ConfigError:
    """Return a signal that is written as JSON; or why it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    return ConfigError(
        "cdc.signal",
        f"a signal is not obeyed: {text[:100]!r} is not a JSON object",
        fix='Write {"id": "1", "type": "execute-snapshot", "data": {"data-collections": '
        '["shop.orders"]}}.',
    )


def _start(whole: bytes, place: Any) -> int:
    if not isinstance(place, list):
        return 0
    count, digest = place
    return count if count <= len(whole) and _digest(whole[:count]) == digest else 0


def _digest(read: bytes) -> str:
    return hashlib.sha256(read).hexdigest()[:16]


def _unreadable(what: str, fix: str = "") -> ConfigError:
    return ConfigError(
        "cdc.signal_channel",
        f"signals cannot be read: {what}",
        fix=fix or "Correct `signal.file`, or let the connector read it.",
        config_path="signal.file",
    )
