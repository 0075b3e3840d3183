"""Packages of Debian, downloaded once, their signatures checked by apt, and unpacked into a folder
of the cache: nothing is installed. `PENSTOCK_CACHE` names the cache (else `~/.cache/penstock`).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

_WITHIN_S: Final = 300.0


def unpacked(name: str, *packages: str) -> Path:
    """Return the folder with what is in packages; a machine that cannot get them fails the test.
    `name` is that of a folder in the cache, and changes with them.
    """
    cache = Path(os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache/penstock")
    base = cache / name
    base.mkdir(parents=True, exist_ok=True)
    if (base / "tree").exists():
        return base / "tree"
    with (cache / "debian.lock").open("a") as lock:  # one for all: apt's own lists have one, too
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (base / "tree").exists():
            try:
                _unpack(base, packages)
            except (OSError, subprocess.SubprocessError) as error:
                said = getattr(error, "stderr", None) or error
                pytest.fail(f"apt could not get {', '.join(packages)}: {str(said)[-500:]}")
    return base / "tree"


def environment(tree: Path) -> dict[str, str]:
    """Return the environment in which programs of a tree find its libraries."""
    libraries = [tree / part / "x86_64-linux-gnu" for part in ("usr/lib", "lib")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, libraries))}


def _unpack(base: Path, packages: tuple[str, ...]) -> None:
    half = base / "half"
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir()
    download = ["apt-get", "-oAPT::Sandbox::User=root", "download", *packages]
    try:
        _run(*download, folder=half)
    except subprocess.CalledProcessError:  # its lists are old, or were never fetched
        _run("apt-get", "update", folder=half)
        _run(*download, folder=half)
    for package in sorted(half.glob("*.deb")):
        _run("dpkg", "-x", str(package), str(half), folder=half)
        package.unlink()
    half.rename(base / "tree")


def _run(*command: str, folder: Path) -> None:
    subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=_WITHIN_S,
        stdin=subprocess.DEVNULL, cwd=folder,
    )  # fmt: skip
