"""`penstock init`: a pipeline file to fill in, with the keys of its source and sink."""

from __future__ import annotations

import argparse
import asyncio
import re
from pathlib import Path
from typing import Final

from penstock.cli.plugin_keys import describe_connector, example
from penstock.cli.progress import print_status
from penstock.model.errors import ConfigError
from penstock.plugin.catalog.manifest import Kind
from penstock.plugin.catalog.registry import Registry

_NOT_A_NAME: Final = re.compile(r"[^a-z0-9]+")


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("file", nargs="?", type=Path, default=Path("pipeline.yaml"))
    parser.add_argument("--source", default="file-source", help="connector that rows come from")
    parser.add_argument("--sink", default="file-sink", help="connector that rows go to")
    parser.add_argument("--plugins", type=Path, action="append", default=[], help="plugin folder")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the file, unless it is there."""
    file: Path = arguments.file
    if file.exists():
        raise ConfigError(
            "init.file_exists",
            f"{file} is there already",
            fix="Name another file: `penstock init other.yaml`.",
        )
    registry = Registry.load(arguments.plugins)
    source = _section(registry, arguments.source, Kind.SOURCE, "--source")
    sink = _section(registry, arguments.sink, Kind.SINK, "--sink")
    name = _NOT_A_NAME.sub("-", file.resolve().stem.lower()).strip("-") or "pipeline"
    file.write_text(f"name: {name}\n{source}\n{sink}\n", encoding="utf-8")
    print_status(
        f"{file} is written. Fill in what has no value, then:\n"
        f"  penstock check {file} --connect\n"
        f"  penstock run {file}"
    )
    return 0


def _section(registry: Registry, name: str, kind: Kind, option: str) -> str:
    manifest, entry = registry.find(name)
    if entry.kind is not kind:
        raise ConfigError(
            "init.wrong_kind",
            f"{name} is a {entry.kind.value}, and {option} wants a {kind.value}",
            fix=f"`penstock plugins` lists the {kind.value}s.",
            config_path=option,
        )
    return example(asyncio.run(describe_connector(manifest, entry)), kind.value)
