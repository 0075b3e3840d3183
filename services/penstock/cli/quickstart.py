"""`penstock quickstart`: a first pipeline, on real data, without preparation."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from rich.console import Console

from penstock.cli.process import run_process
from penstock.standalone.quickstart import Quickstart


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("--dir", type=Path, help="folder to work in; default: a temporary one")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the pipeline, and print what it does."""
    folder = arguments.dir or Path(tempfile.mkdtemp(prefix="penstock-quickstart-"))
    console = Console(highlight=False)
    return run_process(lambda _: Quickstart(folder.absolute(), console.print).run())
