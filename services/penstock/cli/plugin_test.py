"""`penstock plugin test`: the conformance kit over a plugin."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.status import Status
from rich.text import Text

from penstock.cli.errors import FAILED
from penstock.cli.remote.showing import OUTPUTS, show
from penstock.conformance import (
    Case,
    Declaration,
    Result,
    Subject,
    Watch,
    as_json,
    kept,
    load,
    print_table,
    read_declaration,
    run_cases,
)
from penstock.conformance.declared import FILE_NAME
from penstock.model.errors import ConfigError
from penstock.plugin.installed.manifest import FILE_NAME as MANIFEST
from penstock.plugin.installed.manifest import Manifest, read_manifest

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
    parser.add_argument(
        "--jobs",
        type=_jobs,
        default=os.cpu_count() or 1,
        metavar="N",
        help="connectors that are tested at the same time (default: one for each processor)",
    )
    parser.add_argument("-o", "--output", choices=OUTPUTS, default="table")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the result without times")
    parser.set_defaults(verb=test)


def test(arguments: argparse.Namespace) -> int:
    """Run the conformance kit; the exit code is 1 when a MUST is broken."""
    spec = load()
    subject = _subject(arguments)
    chosen = spec.chosen(arguments.case)
    with _watching() as watch:
        results = asyncio.run(run_cases(subject, chosen, watch))
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


@contextmanager
def _watching() -> Iterator[Watch]:
    """Show on the standard error which cases run and how each one ended: on a terminal a line that
    changes, elsewhere a line for each case.
    """
    console = Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)
    status = Status("", console=console)
    running: list[str] = []
    done = itertools.count(1)

    def began(name: str, case: Case) -> None:
        running.append(f"{name} {case.id}".strip())
        status.update(Text(f"running: {', '.join(running)}"))

    def ended(result: Result) -> None:
        name = f"{result.connector} {result.case}".strip()
        running.remove(name)
        status.update(Text(f"running: {', '.join(running)}"))
        if not console.is_terminal:
            console.print(f"{next(done)}: {name}: {result.outcome} ({result.seconds:.1f} s)")

    if console.is_terminal:
        status.start()
    try:
        yield Watch(began, ended)
    finally:
        status.stop()


def _jobs(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError("give a whole number, 1 or more")


def _subject(arguments: argparse.Namespace) -> Subject:
    first, *others = arguments.command
    folder = Path(first)
    is_folder = not others and (folder / MANIFEST).is_file()
    manifest = read_manifest(folder) if is_folder else _of_command(first, others)
    path = arguments.config or (_declared_of(folder) if is_folder else None)
    declaration = (
        read_declaration(path) if path and path.is_file() else Declaration(manifest.folder)
    )
    return Subject(
        manifest, declaration, is_folder, tuple(arguments.connector), jobs=arguments.jobs
    )


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
