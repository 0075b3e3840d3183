"""The input of the benchmarks: numbered lines of 100 bytes, always the same, made once and kept."""

from __future__ import annotations

import hashlib
import os
import random
import string
from collections.abc import Iterable
from pathlib import Path

WIDTH = 100
"""Bytes of a line, its newline counted."""

_ALPHABET = (string.ascii_lowercase + string.digits + " ").encode()
_TABLE = bytes(_ALPHABET[n % len(_ALPHABET)] for n in range(256))
_DROPPED = b"7"


def home() -> Path:
    """Return the folder of inputs that are kept between runs."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "penstock-bench"
    folder = Path(os.environ.get("PENSTOCK_BENCH_HOME", default))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def plain(count: int) -> Path:
    """Return a file of `count` lines."""
    return _kept(f"lines-{count}.txt", lambda: _lines(count))


def converted(count: int) -> Path:
    """Return what `FILTER` and `PROJECTION` make of `plain(count)`, computed without Penstock."""

    def lines() -> Iterable[bytes]:
        with plain(count).open("rb") as file:
            yield from (line.upper() for line in file if line[9:10] != _DROPPED)

    return _kept(f"converted-{count}.txt", lines)


FILTER = "substring(line, 10, 1) <> '7'"
"""Drops the lines whose number ends in 7: one in ten."""

PROJECTION = "upper(line) AS line"


def append(source: Path, target: Path) -> None:
    """Add a file's bytes to another without taking them through this process."""
    with source.open("rb") as read, target.open("r+b") as write:  # sendfile refuses append mode
        write.seek(0, os.SEEK_END)
        left = source.stat().st_size
        while left:
            left -= os.sendfile(write.fileno(), read.fileno(), None, left)


def digest(files: Iterable[Path]) -> str:
    """Return one checksum over files, one after the other."""
    whole = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                whole.update(chunk)
    return whole.hexdigest()


def _lines(count: int) -> Iterable[bytes]:
    chance = random.Random(7)  # the same lines every time
    for start in range(0, count, 10_000):
        here = min(10_000, count - start)
        text = chance.randbytes(88 * here).translate(_TABLE)
        for n in range(here):
            yield b"%010d %b\n" % (start + n, text[88 * n : 88 * n + 88])


def _kept(name: str, lines) -> Path:
    path = home() / name
    if not path.exists():
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            file.writelines(lines())
        part.rename(path)
    return path
