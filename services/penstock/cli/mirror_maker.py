"""`penstock mirror-maker FILE`: mirrors between clusters of Kafka, by MirrorMaker's file."""

from __future__ import annotations

import argparse
from pathlib import Path

from penstock.cli.errors import print_diagnostic
from penstock.cli.standalone import run_node
from penstock.pipeline_files.files import read_flat
from penstock.standalone.mirror_maker import read_mirrors


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument(
        "file", type=Path, help="connect-mirror-maker.properties, or the same keys in YAML or JSON"
    )
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the mirrors until interrupted."""
    mirrors = read_mirrors(read_flat(arguments.file))
    for warning in mirrors.warnings:
        print_diagnostic(warning)
    return run_node(mirrors.node, mirrors.connectors)
