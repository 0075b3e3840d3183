"""`penstock plugins NAME`: the keys of a connector, as its plugin describes them; an example."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from penstock.cli.output import print_value
from penstock.model.config_def import KeyDefinition
from penstock.plugin.catalog.manifest import ConnectorEntry, Kind, Manifest
from penstock.plugin.catalog.registry import Registry
from penstock.plugin.limits import LaunchOptions
from penstock.plugin.process.startup import start_plugin
from penstock.plugin.responses import ConnectorSpec

_ROLES: Final = {Kind.SOURCE: "source", Kind.SINK: "sink"}


def print_connector(arguments: argparse.Namespace, registry: Registry) -> int:
    """Print what a connector is, its keys, and a section of a pipeline file for it."""
    manifest, entry = registry.find(arguments.connector)
    spec = asyncio.run(describe_connector(manifest, entry))
    if arguments.output == "table":
        print(f"{spec.name}: {spec.title}" if spec.title else spec.name)
        print(f"\n{spec.description.strip()}\n" if spec.description else "")
    keys = [asdict(key) for key in spec.keys]
    print_value(arguments.output, keys, [_row(key) for key in spec.keys])
    if arguments.output == "table" and entry.kind in _ROLES:
        print(f"\n{example(spec, _ROLES[entry.kind])}")
        if any(key.required or key.importance == "high" for key in spec.keys):
            print("Fill in what has no value.", file=sys.stderr)
    return 0


async def describe_connector(manifest: Manifest, entry: ConnectorEntry) -> ConnectorSpec:
    """Start a plugin, and return what it says about a connector."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as runtime:
        plugin = await start_plugin(manifest, entry, LaunchOptions(Path(runtime)))
        try:
            return plugin.spec
        finally:
            await plugin.stop(1.0)


def _row(key: KeyDefinition) -> dict[str, Any]:
    kind = " | ".join(key.choices) if key.choices else key.type
    return {
        "key": key.name,
        "default": "(required)" if key.required else key.default or None,
        "type": kind,
        "what it does": key.documentation,
    }


def example(spec: ConnectorSpec, role: str) -> str:
    """Return a section of a pipeline file with the keys that a user has to think of."""
    return "\n".join([f"{role}:", f"  connector.class: {spec.name}", *_lines(spec.keys)])


def _lines(keys: tuple[KeyDefinition, ...]) -> Iterator[str]:
    for key in keys:
        if key.required or key.importance == "high":
            variable = f"${{{key.name.upper().replace('.', '_')}}}" if key.sensitive else ""
            line = f"  {key.name}: {variable or key.default or ''}".rstrip()
            yield f"{line}  # {key.documentation}"
