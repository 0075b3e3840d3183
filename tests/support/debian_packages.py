"""Debian's packages for tests, unpacked into a cache folder: nothing is installed.

    tree = unpacked("redis", ("redis-server", "redis-tools"))

They are downloaded once, and their signatures checked by apt. `PENSTOCK_CACHE` names the cache
folder (else `~/.cache/penstock`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

_WITHIN = 300.0


def unpacked(name: str, packages: Sequence[str]) -> Path:
    """Return the folder that packages are unpacked in; a machine without them and without a way to
    get them fails the test.
    """
    base = os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache/penstock"
    tree = Path(base, name, "tree")
    if tree.exists():
        return tree
    tree.parent.mkdir(parents=True, exist_ok=True)
    with _locked(tree.parent):
        if not tree.exists():
            try:
                _unpack(tree, packages)
            except (OSError, subprocess.SubprocessError) as error:
                said = getattr(error, "stderr", None) or error
                pytest.fail(f"no {name}: apt does not give its packages: {str(said)[-500:]}")
    return tree


def environment(tree: Path) -> dict[str, str]:
    """Return the environment in which programs of a tree find its libraries."""
    libraries = tree / "usr/lib/x86_64-linux-gnu"
    return {**os.environ, "LD_LIBRARY_PATH": f"{libraries}:{tree / 'lib/x86_64-linux-gnu'}"}


def _unpack(tree: Path, packages: Sequence[str]) -> None:
    half = tree.with_suffix(".half")
    shutil.rmtree(half, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        try:
            _run("apt-get", "download", *packages, cwd=folder)
        except subprocess.CalledProcessError:
            _run("apt-get", "update")
            _run("apt-get", "download", *packages, cwd=folder)
        for package in sorted(Path(folder).glob("*.deb")):
            _run("dpkg", "-x", str(package), str(half))
    half.rename(tree)


def _run(*command: str, cwd: str | None = None) -> None:
    subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=_WITHIN, cwd=cwd,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time fill the cache."""
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
