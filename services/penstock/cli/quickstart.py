"""`penstock quickstart`: the first job a new user runs, on real data, with nothing prepared."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from penstock.cli.process import hosted
from penstock.standalone.quickstart import Quickstart


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "quickstart", help="move a real data file through a topic into two tables, and show it"
    )
    parser.add_argument("--dir", type=Path, help="folder to work in; default: a temporary one")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    folder = arguments.dir or Path(tempfile.mkdtemp(prefix="penstock-quickstart-"))
    console = Console(highlight=False)
    return hosted(lambda _: Quickstart(folder.absolute(), console.print).run())
