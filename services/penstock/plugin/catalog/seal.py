"""The seal of a plugin: checksums of all its files, compared before each start.

`plugin.sha256` beside the manifest has the format of `sha256sum`: `sha256sum -c plugin.sha256` does
the same check. It detects a file that was changed, truncated or replaced. It is a checksum, not a
signature: a user who may write the folder may seal it again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.model.errors import ConfigError
from penstock.plugin.errors import escape_text

SEAL_FILE: Final = "plugin.sha256"
EXCLUDED_FOLDERS: Final = frozenset({"__pycache__", ".git"})
"""Folders that tools write. A sealed plugin gets another `__pycache__` (`local_process`)."""
MAX_FILES: Final = 20_000
_MAX_BYTES: Final = 8 << 20
_LINE: Final = re.compile(r"([0-9a-f]{64}) [ *](.+)")


def write_seal(folder: Path) -> int:
    """Write the seal of a folder; return the number of its files.

    Raises:
        ConfigError: `plugin.cannot_seal`.
    """
    try:
        lines = [f"{_digest(folder / name)}  {name}\n" for name in sorted(_list_files(folder))]
        part = folder / f"{SEAL_FILE}.part"
        part.write_text("".join(lines), encoding="utf-8")
        part.rename(folder / SEAL_FILE)
    except (OSError, ValueError) as error:
        raise ConfigError(
            "plugin.cannot_seal",
            f"{folder} cannot be sealed: {error}",
            fix="Make the files readable and the folder writable. Links must lead to files in it.",
        ) from None
    return len(lines)


def is_sealed(folder: Path) -> bool:
    """Return whether a folder has a seal."""
    return (folder / SEAL_FILE).is_file()


def check_seal(folder: Path) -> None:
    """Compare a folder with its seal. A folder without a seal passes.

    Raises:
        ConfigError: `plugin.seal_broken`, naming the first file that differs.
    """
    if not is_sealed(folder):
        return
    try:
        sums = _read_seal(folder)
        found = set(_list_files(folder))
    except (OSError, ValueError) as error:
        raise _seal_broken(folder, str(error)) from None
    for name in sorted(found - sums.keys()):
        raise _seal_broken(folder, f"the file {name} was added")
    for name, digest in sums.items():
        with suppress(OSError):
            if name in found and _digest(folder / name) == digest:
                continue
        change = "was changed" if name in found else "was removed"
        raise _seal_broken(folder, f"the file {name} {change}")


def _read_seal(folder: Path) -> dict[str, str]:
    path = folder / SEAL_FILE
    if path.stat().st_size > _MAX_BYTES:
        raise ValueError(f"{SEAL_FILE} is larger than {_MAX_BYTES} bytes")
    sums = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(
                f"{SEAL_FILE}: expected `<sha256>  <file>`, found {escape_text(line, 100)!r}"
            )
        sums[match[2]] = match[1]
    return sums


def _list_files(folder: Path) -> Iterator[str]:
    """Yield the relative names of the files below a folder. Links must lead to files in it."""
    root = folder.resolve()
    for number, path in enumerate(_walk(root)):
        if number >= MAX_FILES:
            raise ValueError(f"more than {MAX_FILES} files")
        if not path.resolve().is_relative_to(root):
            raise ValueError(f"the link {path.relative_to(root)} leads out of the folder")
        yield str(path.relative_to(root))


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            if path.name not in EXCLUDED_FOLDERS:
                yield from _walk(path)
        elif path.name not in {SEAL_FILE, f"{SEAL_FILE}.part"}:
            yield path


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _seal_broken(folder: Path, why: str) -> ConfigError:
    return ConfigError(
        "plugin.seal_broken",
        f"the plugin in {folder} differs from its seal: {escape_text(why, 500)}",
        fix="Install the plugin again. If you changed it yourself: "
        f"`penstock plugin seal {folder}`.",
    )
