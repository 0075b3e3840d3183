"""`penstock plugins`, `penstock plugin list`: what is installed here."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from penstock.cli.errors import FAILED, print_diagnostic
from penstock.plugin import Manifest, Registry, seal

_COLUMNS: Final = ("connector", "kind", "plugin", "version", "where", "also known as")


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("--path", type=Path, action="append", default=[], help="plugin folder")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    registry = Registry.load(arguments.path)
    table = Table(*_COLUMNS, box=None)
    for manifest in registry.manifests:
        for entry in manifest.connectors:
            aliases = "\n".join(entry.aliases)
            table.add_row(
                entry.name,
                entry.kind.value,
                manifest.name,
                manifest.version,
                _where(manifest),
                aliases,
            )
    Console().print(table)
    for problem in registry.problems:
        print_diagnostic(problem)
    return FAILED if registry.problems else 0


def _where(manifest: Manifest) -> str:
    if manifest.remote is not None:
        return f"at {manifest.remote.address}" + (" over TLS" if manifest.remote.tls else "")
    return "here, sealed" if seal.is_sealed(manifest.folder) else "here"
