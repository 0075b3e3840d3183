"""`penstock plugins`: what is installed here."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table

from penstock.plugin import Registry


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("--path", type=Path, action="append", default=[], help="plugin folder")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    table = Table("connector", "kind", "plugin", "version", "also known as", box=None)
    for manifest in Registry.load(arguments.path).manifests:
        for entry in manifest.connectors:
            aliases = "\n".join(entry.aliases)
            table.add_row(entry.name, entry.kind.value, manifest.name, manifest.version, aliases)
    Console().print(table)
    return 0
