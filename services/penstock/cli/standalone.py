"""`penstock standalone [WORKER FILE] [CONNECTOR FILE…]`: all services in one process, as Kafka
Connect's standalone mode. Connectors may be created by REST, too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from penstock.cli.errors import print_diagnostic, print_error
from penstock.cli.process import JvmLostError, PreviousProcess, run_process
from penstock.cli.progress import print_status
from penstock.connector_config.validation import validate_connector
from penstock.gateway.access.guard import guard_from_settings
from penstock.gateway.app import build_app
from penstock.gateway.clients import Processes, ServiceClients, Workers
from penstock.gateway.http_server import serve
from penstock.gateway.listeners import certificate_from_settings, listeners_from_settings
from penstock.gateway.routes.connectors import connector_rules_from_settings
from penstock.model.connector import Connector, ConnectorKind, TargetState
from penstock.model.errors import ConfigError, Severity
from penstock.pipeline_files.connector_file import is_connector, read_connector
from penstock.pipeline_files.files import read_document, read_flat
from penstock.standalone.node import Node, run_connectors
from penstock.standalone.settings import NodeSettings, node_settings

ADDRESS_IN_USE: Final = "rpc.address_in_use"
_OTHER_ADDRESS: Final = "Set `listeners` to another http://HOST:PORT, or to none."


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
    """Run the connectors until interrupted."""
    config, connectors = split_files(arguments.files)
    return run_node(config, connectors)


def run_node(config: Mapping[str, str], connectors: Sequence[Connector]) -> int:
    """Run a node with connectors until interrupted. `config` has the keys of the worker."""
    return run_process(
        lambda previous: _run(config, connectors, previous), level="INFO", stopped_code=0
    )


async def _run(
    config: Mapping[str, str], connectors: Sequence[Connector], previous: PreviousProcess
) -> int:
    started_at = time.monotonic()
    settings, warnings = node_settings(config)
    for warning in warnings:
        print_diagnostic(warning)
    async with Node(settings) as node:
        print_status(f"control plane answers after {time.monotonic() - started_at:.1f} s")
        if previous.exists:
            # the files are older than what was created or changed by REST meanwhile: resume
            await node.start_connectors()
        else:
            await _start_connectors(node, connectors)
        async with AsyncExitStack() as stack:
            await _start_rest(stack, node, settings)
            await node.wait_until_ready()
            print_status(f"rows move after {time.monotonic() - started_at:.1f} s")
            await node.wait_until_lost()
    raise JvmLostError


async def _start_connectors(node: Node, connectors: Sequence[Connector]) -> None:
    validated = [await _validate(node, connector) for connector in connectors]
    await run_connectors(node, validated)
    for connector in validated:
        state = (connector.target_state or TargetState.RUNNING).name.lower()
        started = "started" if state == "running" else f"is {state}"
        print_status(f"connector {connector.name} {started} ({connector.kind.name.lower()})")


async def _start_rest(stack: AsyncExitStack, node: Node, settings: NodeSettings) -> None:
    """Serve the REST API. When no address is configured and the default one is taken by another
    process, print a warning: rows move without the API.
    """
    try:
        urls = await stack.enter_async_context(serve_rest_api(node, settings.rest))
    except ConfigError as error:
        if settings.has_listeners or error.code != ADDRESS_IN_USE:
            raise
        warning = replace(error.diagnostic, severity=Severity.WARNING, fix=_OTHER_ADDRESS)
        print_diagnostic(warning)
        return
    for url in urls:
        print_status(f"REST at {url}")


@asynccontextmanager
async def serve_rest_api(node: Node, values: Mapping[str, Any]) -> AsyncIterator[list[str]]:
    """Serve the REST API in the block, by the `values` of the gateway's keys. Yields the URLs.

    Raises:
        ConfigError: `config.bad_value`, `rpc.address_in_use`, `access.open`, `access.file`,
            `tls.file`.
    """
    listeners = listeners_from_settings(values)
    guard = guard_from_settings(values, listeners)
    workers = Workers(node.scheduler)
    processes = Processes(node.addresses)
    clients = ServiceClients(node.config, node.offset, node.scheduler, workers, processes)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(guard.close)
        stack.push_async_callback(workers.close)
        stack.push_async_callback(processes.close)
        app = build_app(clients, "standalone", guard, connector_rules_from_settings(values))
        yield await stack.enter_async_context(
            serve(app, listeners, certificate_from_settings(values))
        )


def split_files(files: Sequence[Path]) -> tuple[dict[str, str], list[Connector]]:
    """Return the worker's keys and the connectors. A first file that is not a connector's is the
    worker's.

    Raises:
        ConfigError: `config.duplicate_name`, `config.missing`, `config.file_…`.
    """
    config: dict[str, str] = {}
    if not is_connector(read_document(files[0])):
        config, files = read_flat(files[0]), files[1:]
    connectors = [_read_connector(path) for path in files]
    names = [connector.name for connector in connectors]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                "config.duplicate_name",
                f"two connector files have the name `{name}`",
                fix="Give every connector a name of its own.",
                config_path="name",
            )
    return config, connectors


def _read_connector(path: Path) -> Connector:
    connector = read_connector(path)
    if connector.kind is not ConnectorKind.PIPELINE and "connector.class" not in connector.config:
        raise ConfigError(
            "config.missing",
            f"{path} has no `connector.class`",
            fix="Set `connector.class`; only the first file may be a worker file.",
            config_path="connector.class",
        )
    return connector


async def _validate(node: Node, connector: Connector) -> Connector:
    try:
        validated, findings = await validate_connector(node.config, connector)
    except ConfigError as error:
        print_error(error)
        raise ConfigError(
            "connector.not_valid",
            f"connector `{connector.name}` cannot be started",
            fix="See the error above.",
        ) from error
    for finding in findings:
        print_diagnostic(finding)
    return validated
