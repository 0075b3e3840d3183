"""State that is too large for the host: kept beside the staged files, and named by the state."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Final

from penstock_builtin.file_sink import disk
from penstock_builtin.file_sink.place import Place

INLINE_MOST: Final = 48 << 10
"""Bytes of state that go to the host as they are. It takes 64 KiB; the rest is for what it adds."""

_NOTHING: Final = b'{"version":1,"writes":[]}'


@dataclass(frozen=True, slots=True)
class Spilled:
    """Where a state is kept: in the hidden folder of a place."""

    folder: str
    file: str
    name: str


def spill(place: Place, name: str, state: bytes, *, fsync: bool) -> bytes:
    """Keep a state, and return the short one that names it."""
    fd = disk.create(place.staging, name)
    try:
        disk.write(fd, [state])
        if fsync:
            disk.sync(fd)
            disk.sync_folder(place.staging)
    finally:
        os.close(fd)
    return json.dumps({"version": 1, "spilled": [place.path, place.name, name]}).encode()


def spilled_in(state: bytes) -> Spilled | None:
    """Return where a state is kept that is not in itself."""
    fields = json.loads(state).get("spilled")
    return Spilled(*fields) if fields else None


def read_spilled(place: Place, name: str) -> bytes:
    """Return a kept state. It is removed last of all, so a missing one was applied."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=place.staging)
    except FileNotFoundError:
        return _NOTHING
    with os.fdopen(fd, "rb") as file:
        return file.read()
