"""`penstock plugins`, `penstock plugin list`: what is installed here."""

from __future__ import annotations

import argparse
from pathlib import Path

from penstock.cli.errors import FAILED, print_diagnostic
from penstock.cli.remote.showing import OUTPUTS, show
from penstock.plugin import Manifest, Registry
from penstock.plugin.installed import seal


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("--plugins", type=Path, action="append", default=[], help="plugin folder")
    parser.add_argument("-o", "--output", choices=OUTPUTS, default="table")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    registry = Registry.load(arguments.plugins)
    rows = [
        {
            "connector": entry.name,
            "kind": entry.kind.value,
            "plugin": manifest.name,
            "version": manifest.version,
            "where": _where(manifest),
            "also known as": list(entry.aliases),
        }
        for manifest in registry.manifests
        for entry in manifest.connectors
    ]
    show(arguments.output, rows, rows)
    for problem in registry.problems:
        print_diagnostic(problem)
    return FAILED if registry.problems else 0


def _where(manifest: Manifest) -> str:
    if manifest.remote is not None:
        return f"at {manifest.remote.address}" + (" over TLS" if manifest.remote.tls else "")
    return "here, sealed" if seal.is_sealed(manifest.folder) else "here"
