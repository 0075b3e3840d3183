"""`penstock plugin seal FOLDER`: checksums of all files of a plugin."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from penstock.cli.errors import FAILED
from penstock.plugin.installed import seal
from penstock.plugin.installed.manifest import read_manifest


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the word."""
    parser.add_argument("folder", type=Path, help="folder with plugin.toml")
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the word."""
    folder: Path = arguments.folder
    manifest = read_manifest(folder)
    if arguments.check:
        if not seal.is_sealed(folder):
            print(f"{folder} is not sealed", file=sys.stderr)
            return FAILED
        seal.check(folder)
        print(f"{manifest.name} {manifest.version} is what was sealed", file=sys.stderr)
        return 0
    files = seal.write(folder)
    print(
        f"sealed {manifest.name} {manifest.version}: {files} files in {folder / seal.FILE_NAME}",
        file=sys.stderr,
    )
    return 0
