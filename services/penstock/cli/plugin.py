"""`penstock plugin …`: what authors of plugins do with one; `penstock plugins`: what is installed.

`plugin new` and `plugin test` have files of their own, which are imported for these verbs alone.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from penstock.cli.errors import EXIT_FAILED, print_diagnostic
from penstock.cli.output import OUTPUTS, print_value
from penstock.cli.plugin_keys import print_connector
from penstock.cli.process import run_process
from penstock.cli.progress import print_status
from penstock.plugin.catalog import seal
from penstock.plugin.catalog.manifest import Manifest, read_manifest
from penstock.plugin.catalog.registry import Registry
from penstock.plugin.limits import LaunchOptions
from penstock.plugin.process.proxy import PluginProxy
from penstock.plugin.process.startup import start_plugin


def describe(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the options of `plugins`, or the verbs of `plugin`."""
    if name == "plugins":
        _describe_list(parser)
        return
    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB")
    for verb, module, summary in (
        (
            "new",
            "plugin_new",
            "create a project of a connector: it builds, with tests and manifest",
        ),
        ("test", "plugin_test", "test whether a plugin conforms to the protocol"),
    ):
        described = verbs.add_parser(verb, help=summary, description=summary)
        import_module(f"penstock.cli.{module}").describe(described, verb)
    for verb, describe_verb, summary in (
        ("run", _describe_run, "serve a plugin at an address, with reflection, for grpcurl"),
        ("list", _describe_list, "list the installed connectors"),
        ("seal", _describe_seal, "write checksums of its files, which each start verifies"),
    ):
        describe_verb(verbs.add_parser(verb, help=summary, description=summary))


def _describe_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("connector", nargs="?", help="print the keys of this connector")
    parser.add_argument("--plugins", type=Path, action="append", default=[], help="plugin folder")
    parser.add_argument("-o", "--output", choices=OUTPUTS, default="table")
    parser.set_defaults(verb=print_plugins)


def _describe_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="folder with plugin.toml")
    parser.add_argument("--listen", default="127.0.0.1:9000", metavar="HOST:PORT")
    parser.set_defaults(verb=run_plugin)


def _describe_seal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="folder with plugin.toml")
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    parser.set_defaults(verb=seal_plugin)


def print_plugins(arguments: argparse.Namespace) -> int:
    """Print the installed connectors, and the plugins that cannot be loaded; or one connector."""
    registry = Registry.load(arguments.plugins)
    if arguments.connector:
        return print_connector(arguments, registry)
    rows = [
        {
            "connector": entry.name,
            "kind": entry.kind.value,
            "plugin": manifest.name,
            "version": manifest.version,
            "where": _place(manifest),
            "also known as": list(entry.aliases),
        }
        for manifest in registry.manifests
        for entry in manifest.connectors
    ]
    print_value(arguments.output, rows, rows)
    for problem in registry.problems:
        print_diagnostic(problem)
    return EXIT_FAILED if registry.problems else 0


def _place(manifest: Manifest) -> str:
    if manifest.remote is not None:
        return f"at {manifest.remote.address}" + (" over TLS" if manifest.remote.tls else "")
    return "here, sealed" if seal.is_sealed(manifest.folder) else "here"


def run_plugin(arguments: argparse.Namespace) -> int:
    """Serve a plugin until interrupted, or until the plugin ends."""
    return run_process(
        lambda _: _serve_plugin(arguments.folder, arguments.listen), level="INFO", stopped_code=0
    )


async def _serve_plugin(folder: Path, listen: str) -> int:
    manifest = read_manifest(folder)
    with tempfile.TemporaryDirectory(prefix="penstock-") as runtime:
        plugin = await start_plugin(manifest, manifest.connectors[0], LaunchOptions(Path(runtime)))
        proxy = PluginProxy(plugin.connection)
        try:
            port = await proxy.start(listen)
            address = f"{listen.rpartition(':')[0]}:{port}"
            name = f"{manifest.name} {manifest.version}"
            method = "penstock.api.connector.v1.PluginService/Describe"
            print_status(f"{name} answers at {address}; Ctrl-C ends it. Try:")
            print_status(f"  grpcurl -plaintext {address} {method}")
            await asyncio.shield(plugin.exited)
            print_status(str(plugin.connection.exit_error()))
        finally:
            await proxy.stop()
            await plugin.stop(1.0)
    return EXIT_FAILED


def seal_plugin(arguments: argparse.Namespace) -> int:
    """Write the checksums of a plugin's files, or compare them."""
    folder: Path = arguments.folder
    manifest = read_manifest(folder)
    if arguments.check:
        if not seal.is_sealed(folder):
            print(f"{folder} is not sealed", file=sys.stderr)
            return EXIT_FAILED
        seal.check_seal(folder)
        print(f"{manifest.name} {manifest.version} is what was sealed", file=sys.stderr)
        return 0
    files = seal.write_seal(folder)
    print(
        f"sealed {manifest.name} {manifest.version}: {files} files in {folder / seal.SEAL_FILE}",
        file=sys.stderr,
    )
    return 0
