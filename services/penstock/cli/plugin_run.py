"""`penstock plugin run FOLDER`: a plugin at an address, for grpcurl and debuggers."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from penstock.cli.errors import FAILED
from penstock.cli.process import Earlier, hosted
from penstock.plugin import Ground, Serving, start_plugin
from penstock.plugin.installed.manifest import read_manifest


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the word."""
    parser.add_argument("folder", type=Path, help="folder with plugin.toml")
    parser.add_argument("--listen", default="127.0.0.1:9000", metavar="HOST:PORT")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the word, until it is interrupted or the plugin ends."""
    return hosted(lambda _: _run(arguments.folder, arguments.listen, _), level="INFO", ended=0)


async def _run(folder: Path, listen: str, _: Earlier) -> int:
    manifest = read_manifest(folder)
    with tempfile.TemporaryDirectory(prefix="penstock-") as runtime:
        plugin = await start_plugin(manifest, manifest.connectors[0], Ground(Path(runtime)))
        serving = Serving(plugin.link)
        try:
            port = await serving.start(listen)
            address = f"{listen.rpartition(':')[0]}:{port}"
            say(f"{manifest.name} {manifest.version} answers at {address}; Ctrl-C ends it. Try:")
            say(f"  grpcurl -plaintext {address} penstock.api.connector.v1.PluginService/Describe")
            await asyncio.shield(plugin.exited)
            say(str(plugin.link.death()))
        finally:
            await serving.stop()
            await plugin.stop(1.0)
    return FAILED


def say(text: str) -> None:
    """Tell a person what happens, on standard error."""
    print(text, file=sys.stderr, flush=True)
