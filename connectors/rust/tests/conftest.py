"""What the tests of the Rust connectors share: the plugin, built once for the machine."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.foreign import install, run_tool

FOLDER = ROOT / "connectors/rust"
OLDEST = (1, 89)
"""What `Cargo.toml` asks for; Debian 12's own is 1.63."""


def find_cargo() -> str:
    """Return a cargo that is new enough, in PATH or where rustup puts it."""
    places = [shutil.which("cargo"), str(Path.home() / ".cargo/bin/cargo")]
    found = {place: _version(place) for place in places if place and Path(place).exists()}
    for place, version in found.items():
        if version >= OLDEST:
            return place
    raise AssertionError(
        f"there is no cargo from 1.{OLDEST[1]} on: {found or 'none at all'}. "
        "`. deploy/local/setup.sh dev` installs Debian's cargo-web; elsewhere install the "
        "toolchain of rustup.rs"
    )


def _version(cargo: str) -> tuple[int, ...]:
    told = subprocess.run([cargo, "--version"], capture_output=True, text=True, check=False)
    found = re.match(r"cargo (\d+)\.(\d+)", told.stdout)
    return tuple(int(number) for number in found.groups()) if found else ()


def build() -> Path:
    """Build the plugin and return its program.

    Cargo's folder is kept: libraries take a minute. So is the place of protoc, which cargo notes.
    """
    cache = Path(os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache/penstock", "rust")
    cache.mkdir(parents=True, exist_ok=True)
    protoc = cache / "protoc"
    script = f'#!/bin/sh\nexec "{sys.executable}" -m grpc_tools.protoc "$@"\n'
    if not protoc.exists() or protoc.read_text() != script:
        new = protoc.with_suffix(f".{os.getpid()}")
        new.write_text(script)
        new.chmod(0o755)
        new.rename(protoc)
    variables = (f"PROTOC={protoc}", f"CARGO_TARGET_DIR={cache}")
    run_tool("env", *variables, find_cargo(), "build", "--release", "--locked", cwd=FOLDER)
    return cache / "release/penstock-rust"


@pytest.fixture(scope="session")
def tools() -> str:
    """A PATH with cargo and this Python."""
    folders = [Path(sys.executable).parent, Path(find_cargo()).parent, os.environ["PATH"]]
    return os.pathsep.join(map(str, folders))


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plugin as a user installs it."""
    return install(FOLDER, build(), tmp_path_factory.mktemp("rust") / "plugin")
