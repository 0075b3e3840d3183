"""`penstock plugin test`: the conformance kit over a plugin."""

from __future__ import annotations

import argparse
import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from penstock.cli.errors import FAILED
from penstock.cli.remote.showing import OUTPUTS, show
from penstock.cli.waiting import waiting
from penstock.conformance import (
    Declaration,
    Subject,
    as_json,
    kept,
    load,
    print_table,
    read_declaration,
    run_cases,
)
from penstock.conformance.declared import FILE_NAME
from penstock.model.errors import ConfigError
from penstock.plugin.manifest import FILE_NAME as MANIFEST
from penstock.plugin.manifest import Manifest, read_manifest

_WIDTH: Final = 160
"""Columns of a table that is no terminal's: wide enough for what a finding says."""


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options."""
    parser.add_argument(
        "command", nargs="+", help="a folder with plugin.toml, or a command and its words"
    )
    parser.add_argument("--config", type=Path, help=f"default: {FILE_NAME} of the folder")
    parser.add_argument("--connector", action="append", default=[], help="only this one")
    parser.add_argument("--case", action="append", default=[], help="only this case, or `read.`…")
    parser.add_argument("-o", "--output", choices=OUTPUTS, default="table")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the result without times")
    parser.set_defaults(verb=test)


def test(arguments: argparse.Namespace) -> int:
    """Run the conformance kit; the exit code is 1 when a MUST is broken."""
    spec = load()
    subject = _subject(arguments)
    chosen = spec.chosen(arguments.case)
    with waiting(f"trying {len(chosen.cases)} cases"):
        results = asyncio.run(run_cases(subject, chosen))
    told = as_json(results, plugin=subject.manifest.name, spec=spec.version)
    if arguments.keep:
        text = kept(results, plugin=subject.manifest.name, spec=spec.version)
        arguments.keep.write_text(text, encoding="utf-8")
    if arguments.output == "table":
        console = Console()
        print_table(results, console if console.is_terminal else Console(width=_WIDTH))
    else:
        show(arguments.output, told)
    return 0 if told["conforms"] else FAILED


def _subject(arguments: argparse.Namespace) -> Subject:
    first, *others = arguments.command
    folder = Path(first)
    is_folder = not others and (folder / MANIFEST).is_file()
    manifest = read_manifest(folder) if is_folder else _of_command(first, others)
    path = arguments.config or (_declared_of(folder) if is_folder else None)
    declaration = (
        read_declaration(path) if path and path.is_file() else Declaration(manifest.folder)
    )
    return Subject(manifest, declaration, is_folder, tuple(arguments.connector))


def _declared_of(folder: Path) -> Path:
    """Return where the declaration is: in the folder, or beside it when that is a package."""
    here = folder / FILE_NAME
    return here if here.is_file() else folder.resolve().parent / FILE_NAME


def _of_command(program: str, words: Sequence[str]) -> Manifest:
    """Return the manifest of a plugin that is not installed: what it serves it says itself.

    Raises:
        ConfigError: `conformance.no_program`.
    """
    found = shutil.which(program)  # on the person's path, not on the plugins'
    if found is None:
        raise ConfigError(
            "conformance.no_program",
            f"{program!r} is no program, and no folder with a {MANIFEST}",
            fix="Name a command that starts the plugin, or the folder of its manifest.",
        )
    return Manifest(Path([program, *words][-1]).stem, "", (found, *words), Path.cwd(), ())
