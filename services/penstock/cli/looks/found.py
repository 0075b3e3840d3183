"""What a look has found."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.model.errors import PenstockError

ROOM: Final = 1 << 30
"""Bytes that should be free for state and scratch files: an embedded topic keeps rows for days."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a look found. `needed`: without it nothing runs. `code` is that of the error where there
    is one, `place` the key that says it.
    """

    what: str
    ok: bool
    found: str
    fix: str = ""
    needed: bool = True
    code: str = ""
    place: str = ""


def refused(what: str, error: PenstockError, place: str = "") -> Found:
    """Return what is wrong; `place` where the error knows none."""
    told = error.diagnostic
    where = told.config_path or place
    return Found(what, ok=False, found=told.message, fix=told.fix, code=told.code, place=where)


def folder(what: str, path: Path, place: str) -> Found:
    """Return whether a folder, which may not be there yet, has room and can be written."""
    there = path.absolute()
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    found = f"{free >> 20} MiB free in {there}"
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        fix = f"Let this user write it, or name another folder in `{place}`."
        found = f"{there} cannot be written"
        return Found(what, ok=False, found=found, fix=fix, code="doctor.not_writable", place=place)
    fix = f"Free some, or name another folder in `{place}`."
    return Found(what, free >= ROOM, found, fix, code="doctor.little_room", place=place)
