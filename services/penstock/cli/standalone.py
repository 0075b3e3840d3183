"""`penstock standalone [worker file] connector files…`: all services in one process, as Kafka
Connect's standalone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock.cli.errors import print_diagnostic, print_error
from penstock.cli.process import Earlier, JvmLostError, hosted
from penstock.model.connector import Connector, ConnectorKind, TargetState
from penstock.model.errors import ConfigError, Severity
from penstock.pipeline_files.connector_file import is_connector, read_connector
from penstock.pipeline_files.files import read_document, read_flat
from penstock.standalone.fronting import fronted
from penstock.standalone.node import Node
from penstock.standalone.reconcile import run_only, validate
from penstock.standalone.settings import NodeSettings, node_settings

IN_USE: Final = "rpc.address_in_use"
_ELSEWHERE: Final = "Set `listeners` to another http://HOST:PORT, or to none."


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        help="a worker file (optional, first), then connector files: properties, YAML or JSON",
    )
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    return hosted(lambda earlier: _run(arguments.files, earlier), level="INFO", ended=0)


async def _run(files: Sequence[Path], earlier: Earlier) -> int:
    began = time.monotonic()
    worker, connectors = split(files)
    settings, warnings = node_settings(worker)
    for warning in warnings:
        print_diagnostic(warning)
    async with Node(settings) as node:
        say(f"control plane answers after {time.monotonic() - began:.1f} s")
        if earlier.resumed:
            # the process replaced itself: what was made or changed by REST meanwhile goes on, too
            await node.begin()
        else:
            await _begin(node, connectors)
        async with AsyncExitStack() as stack:
            await _front(stack, node, settings)
            await node.engine_ready()
            say(f"rows move after {time.monotonic() - began:.1f} s")
            await node.lost()
    raise JvmLostError


async def _begin(node: Node, connectors: Sequence[Connector]) -> None:
    checked = [await _checked(node, connector) for connector in connectors]
    await run_only(node, checked)
    for connector in checked:
        state = (connector.target_state or TargetState.RUNNING).name.lower()
        began_as = "started" if state == "running" else f"is {state}"
        say(f"connector {connector.name} {began_as} ({connector.kind.name.lower()})")


async def _front(stack: AsyncExitStack, node: Node, settings: NodeSettings) -> None:
    """Answer REST from now on. Where nobody said where, and another process is there already, that
    is told and nothing more: rows move without.
    """
    try:
        places = await stack.enter_async_context(fronted(node, settings.rest))
    except ConfigError as error:
        if settings.placed or error.code != IN_USE:
            raise
        print_diagnostic(replace(error.diagnostic, severity=Severity.WARNING, fix=_ELSEWHERE))
        return
    for place in places:
        say(f"REST at {place}")


def split(files: Sequence[Path]) -> tuple[dict[str, str], list[Connector]]:
    """Return the worker's keys and the connectors: a first file that is no connector is the
    worker's.
    """
    worker: dict[str, str] = {}
    if not is_connector(read_document(files[0])):
        worker, files = read_flat(files[0]), files[1:]
    connectors = [_connector(path) for path in files]
    names = [connector.name for connector in connectors]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                "config.duplicate_name",
                f"two connector files are named `{name}`",
                fix="Give every connector a name of its own.",
                config_path="name",
            )
    if not connectors:
        raise ConfigError(
            "config.missing",
            "no connector file was given",
            fix="Name the files of the connectors after that of the worker.",
        )
    return worker, connectors


def _connector(path: Path) -> Connector:
    connector = read_connector(path)
    if connector.kind is not ConnectorKind.PIPELINE and "connector.class" not in connector.config:
        raise ConfigError(
            "config.missing",
            f"{path} names no connector",
            fix="Set `connector.class`; only the first file may be a worker file.",
            config_path="connector.class",
        )
    return connector


async def _checked(node: Node, connector: Connector) -> Connector:
    try:
        checked, findings = await validate(node, connector)
    except ConfigError as error:
        print_error(error)
        raise ConfigError(
            "connector.not_valid",
            f"connector `{connector.name}` cannot be started",
            fix="See the error above.",
        ) from error
    for finding in findings:
        print_diagnostic(finding)
    return checked


def say(text: str) -> None:
    """Tell a person what happens, on standard error."""
    print(text, file=sys.stderr, flush=True)
