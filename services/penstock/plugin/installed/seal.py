"""The seal of a plugin: checksums of all its files, which are compared before each start.

`plugin.sha256` beside the manifest is what `sha256sum` writes, so `sha256sum -c plugin.sha256` is
the same check. It tells a file that was changed, cut short or swapped; it is no signature: who may
write the folder may seal it again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.model.errors import ConfigError
from penstock.plugin.errors import printable

FILE_NAME: Final = "plugin.sha256"
NOT_COVERED: Final = frozenset({"__pycache__", ".git"})
"""Folders that tools write. Python is told to keep away from the first (`launch`)."""
MOST_FILES: Final = 20_000
_MOST_BYTES: Final = 8 << 20
_LINE: Final = re.compile(r"([0-9a-f]{64}) [ *](.+)")


def write(folder: Path) -> int:
    """Seal a folder; return how many files it has.

    Raises:
        ConfigError: `plugin.cannot_seal`.
    """
    try:
        lines = [f"{_digest(folder / name)}  {name}\n" for name in sorted(_files(folder))]
        part = folder / f"{FILE_NAME}.part"
        part.write_text("".join(lines), encoding="utf-8")
        part.rename(folder / FILE_NAME)
    except (OSError, ValueError) as error:
        raise ConfigError(
            "plugin.cannot_seal",
            f"{folder} cannot be sealed: {error}",
            fix="Make the files readable and the folder writable; links must stay inside of it.",
        ) from None
    return len(lines)


def is_sealed(folder: Path) -> bool:
    """Tell whether a folder has checksums."""
    return (folder / FILE_NAME).is_file()


def check(folder: Path) -> None:
    """Compare a folder with its seal; one without a seal passes.

    Raises:
        ConfigError: `plugin.seal_broken`, naming the first file that differs.
    """
    if not is_sealed(folder):
        return
    try:
        sums = _sums(folder)
        found = set(_files(folder))
    except (OSError, ValueError) as error:
        raise _broken(folder, str(error)) from None
    for name in sorted(found - sums.keys()):
        raise _broken(folder, f"{name} is not in it")
    for name, digest in sums.items():
        with suppress(OSError):
            if name in found and _digest(folder / name) == digest:
                continue
        raise _broken(folder, f"{name} is not what it was" if name in found else f"{name} is gone")


def _sums(folder: Path) -> dict[str, str]:
    path = folder / FILE_NAME
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError(f"{FILE_NAME} is larger than {_MOST_BYTES} bytes")
    sums = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"{FILE_NAME} has the line {printable(line, 100)!r}")
        sums[match[2]] = match[1]
    return sums


def _files(folder: Path) -> Iterator[str]:
    """Yield the files below a folder by their relative names; a link must lead to one of them."""
    root = folder.resolve()
    for number, path in enumerate(_walk(root)):
        if number >= MOST_FILES:
            raise ValueError(f"more than {MOST_FILES} files")
        if not path.resolve().is_relative_to(root):
            raise ValueError(f"{path.relative_to(root)} leads out of the folder")
        yield str(path.relative_to(root))


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            if path.name not in NOT_COVERED:
                yield from _walk(path)
        elif path.name not in {FILE_NAME, f"{FILE_NAME}.part"}:
            yield path


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _broken(folder: Path, why: str) -> ConfigError:
    return ConfigError(
        "plugin.seal_broken",
        f"the plugin in {folder} differs from its seal: {printable(why, 500)}",
        fix="Install it again. If you changed it yourself: `penstock plugin seal` the folder.",
    )
