"""A short text that changes with the files of a folder, without reading them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock.plugin.manifest import Manifest

_PASSED_OVER: Final = frozenset(
    {"__pycache__", ".git", ".venv", "node_modules", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
)
"""Folders that tools write, or that are too large to be looked at often."""
_MOST_FILES: Final = 5_000
"""Looked at in about 20 ms; what is beyond is not seen to change."""


def fingerprint(folder: Path) -> str:
    """Return the text: from names, sizes and times of change."""
    digest = hashlib.sha256()
    for number, (name, size, changed) in enumerate(_files(folder, "")):
        if number == _MOST_FILES:
            break
        digest.update(f"{name}\0{size}\0{changed}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]


def fingerprinted(manifest: Manifest) -> Manifest:
    """Return a manifest that knows its files."""
    return replace(manifest, fingerprint=fingerprint(manifest.folder))


def _files(folder: Path, below: str) -> Iterator[tuple[str, int, int]]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            name = f"{below}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _PASSED_OVER:
                    yield from _files(folder / entry.name, f"{name}/")
            else:
                with suppress(OSError):  # it was there a moment ago
                    stat = entry.stat()
                    yield name, stat.st_size, stat.st_mtime_ns
