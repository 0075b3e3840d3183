"""`penstock plugin test`: run the conformance kit over a plugin."""

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

from penstock.cli.errors import EXIT_FAILED
from penstock.cli.output import OUTPUTS, print_value
from penstock.model.errors import ConfigError
from penstock.plugin.catalog.manifest import MANIFEST_FILE, Manifest, read_manifest
from penstock_kit.conformance import (
    Case,
    Declaration,
    Result,
    RunObserver,
    Subject,
    as_json,
    format_record,
    load_spec,
    print_results,
    read_declaration,
    run_cases,
)
from penstock_kit.conformance.declaration import DECLARATION_FILE

_TABLE_WIDTH: Final = 160
"""Columns of a table outside a terminal: wide enough for the text of a finding."""


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument(
        "command", nargs="+", help="a folder with plugin.toml, or a command with its arguments"
    )
    parser.add_argument("--config", type=Path, help=f"default: {DECLARATION_FILE} of the folder")
    parser.add_argument("--connector", action="append", default=[], help="only this connector")
    parser.add_argument("--case", action="append", default=[], help="only this case, or `read.`…")
    parser.add_argument(
        "--jobs",
        type=_jobs,
        default=os.cpu_count() or 1,
        metavar="N",
        help="connectors to test at the same time (default: one for each processor)",
    )
    parser.add_argument("-o", "--output", choices=OUTPUTS, default="table")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the result without times")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the conformance kit; end with 1 when the plugin breaks a MUST."""
    spec = load_spec()
    subject = _subject(arguments)
    cases = spec.select(arguments.case)
    with _show_progress() as watch:
        results = asyncio.run(run_cases(subject, cases, watch))
    value = as_json(results, plugin=subject.manifest.name, spec=spec.version)
    if arguments.keep:
        text = format_record(results, plugin=subject.manifest.name, spec=spec.version)
        arguments.keep.write_text(text, encoding="utf-8")
    if arguments.output == "table":
        console = Console()
        print_results(results, console if console.is_terminal else Console(width=_TABLE_WIDTH))
    else:
        print_value(arguments.output, value)
    return 0 if value["conforms"] else EXIT_FAILED


@contextmanager
def _show_progress() -> Iterator[RunObserver]:
    """Show on standard error which cases run and how each one ended: on a terminal in a line that
    changes, elsewhere with a line for each case.
    """
    console = Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)
    status = Status("", console=console)
    running: list[str] = []
    done = itertools.count(1)

    def case_started(name: str, case: Case) -> None:
        running.append(f"{name} {case.id}".strip())
        status.update(Text(f"running: {', '.join(running)}"))

    def case_ended(result: Result) -> None:
        name = f"{result.connector} {result.case}".strip()
        running.remove(name)
        status.update(Text(f"running: {', '.join(running)}"))
        if not console.is_terminal:
            console.print(f"{next(done)}: {name}: {result.outcome} ({result.seconds:.1f} s)")

    if console.is_terminal:
        status.start()
    try:
        yield RunObserver(case_started, case_ended)
    finally:
        status.stop()


def _jobs(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError("expected a whole number, 1 or more")


def _subject(arguments: argparse.Namespace) -> Subject:
    first, *others = arguments.command
    folder = Path(first)
    is_folder = not others and (folder / MANIFEST_FILE).is_file()
    manifest = read_manifest(folder) if is_folder else _manifest_of_command(first, others)
    path = arguments.config or (_declaration_file(folder) if is_folder else None)
    declaration = (
        read_declaration(path) if path and path.is_file() else Declaration(manifest.folder)
    )
    return Subject(
        manifest, declaration, is_folder, tuple(arguments.connector), jobs=arguments.jobs
    )


def _declaration_file(folder: Path) -> Path:
    """Return the path of the declaration: in the folder, or beside it when that is a package."""
    file = folder / DECLARATION_FILE
    return file if file.is_file() else folder.resolve().parent / DECLARATION_FILE


def _manifest_of_command(program: str, arguments: Sequence[str]) -> Manifest:
    """Return the manifest of a plugin that is not installed. The plugin itself names its
    connectors.

    Raises:
        ConfigError: `conformance.no_program`.
    """
    path = shutil.which(program)  # by the PATH of the user, not by that of plugins
    if path is None:
        raise ConfigError(
            "conformance.no_program",
            f"{program!r} is neither a program nor a folder with a {MANIFEST_FILE}",
            fix="Name a command that starts the plugin, or the folder of its manifest.",
        )
    name = Path([program, *arguments][-1]).stem
    return Manifest(name, "", (path, *arguments), Path.cwd(), ())
