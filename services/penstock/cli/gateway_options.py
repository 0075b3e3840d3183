"""Options of the commands that call a gateway, completion of connector names, verbs of a noun."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from penstock.cli.gateway_client import TIMEOUT_S, GatewayClient
from penstock.cli.output import OUTPUTS
from penstock.model.errors import PenstockError

SERVER_VARIABLE: Final = "PENSTOCK_SERVER"
CREDENTIAL_VARIABLE: Final = "PENSTOCK_CREDENTIAL"
"""NAME:PASSWORD, or a token. It has no option: other users of a machine see command lines."""
CA_VARIABLE: Final = "PENSTOCK_CA"
DEFAULT_SERVER: Final = "http://127.0.0.1:8083"

COMPLETION_TIMEOUT_S: Final = 1.0
"""How long the shell may wait after the tabulator was pressed."""

CONNECTOR: Final = "name of the connector"
"""Help of an argument that shells complete by the names of connectors."""
WORKER: Final = "name of the worker"
"""Help of an argument that shells complete by the names of workers."""

GatewayVerb: TypeAlias = Callable[[GatewayClient, argparse.Namespace], int]
"""Runs a verb; returns the exit code."""


def add_gateway_options(parser: argparse.ArgumentParser) -> None:
    """Add `--server`, `--ca` and `--output`."""
    parser.add_argument(
        "--server",
        default=os.environ.get(SERVER_VARIABLE, DEFAULT_SERVER),
        help=f"URL of a gateway (default: {SERVER_VARIABLE}, else {DEFAULT_SERVER})",
    )
    parser.add_argument(
        "--ca",
        default=os.environ.get(CA_VARIABLE, ""),
        help=f"PEM file of the authority of its certificate (default: {CA_VARIABLE}); "
        f"{CREDENTIAL_VARIABLE} holds your NAME:PASSWORD, or your token",
    )
    parser.add_argument("-o", "--output", choices=OUTPUTS, default="table", help="output format")


def connect_gateway(arguments: argparse.Namespace, timeout_s: float = TIMEOUT_S) -> GatewayClient:
    """Return a client of the gateway that the options name."""
    credential = os.environ.get(CREDENTIAL_VARIABLE, "")
    return GatewayClient(arguments.server, credential, arguments.ca, timeout_s)


def add_connector_argument(
    parser: argparse.ArgumentParser, name: str, summary: str, **more: Any
) -> None:
    """Add an argument that takes the name of a connector, with completion by the gateway."""
    argument = parser.add_argument(name, help=summary, **more)
    argument.completer = complete_connector_names  # type: ignore[attr-defined]  # for argcomplete


def complete_connector_names(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the connector names with a prefix; none where no gateway answers in time."""
    return _complete_names(prefix, parsed_args, lambda gateway: gateway.get("/connectors"))


def complete_worker_names(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the worker names with a prefix; none where no gateway answers in time."""
    return _complete_names(
        prefix,
        parsed_args,
        lambda gateway: [worker["name"] for worker in gateway.get("/v1/cluster")["workers"]],
    )


def _complete_names(
    prefix: str, parsed_args: argparse.Namespace, list_names: Callable[[GatewayClient], list[str]]
) -> list[str]:
    try:
        with connect_gateway(parsed_args, COMPLETION_TIMEOUT_S) as gateway:
            return [name for name in list_names(gateway) if name.startswith(prefix)]
    except (PenstockError, AttributeError):
        return []


class NounParser:
    """The parser of a noun, `penstock NOUN VERB`: each verb calls a gateway."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB")

    def add_verb(
        self, name: str, summary: str, run: GatewayVerb, /, **arguments: str
    ) -> argparse.ArgumentParser:
        """Add a verb; `arguments` are its positional arguments with their help. Return its parser,
        for more options.
        """
        parser: argparse.ArgumentParser = self._verbs.add_parser(
            name, help=summary, description=summary
        )
        for argument, text in arguments.items():
            if text == CONNECTOR:
                add_connector_argument(parser, argument, text)
                continue
            added = parser.add_argument(argument, help=text)
            if text == WORKER:
                added.completer = complete_worker_names  # type: ignore[attr-defined]  # for argcomplete
        add_gateway_options(parser)
        parser.set_defaults(verb=lambda parsed: _run_verb(run, parsed))
        return parser


def _run_verb(run: GatewayVerb, arguments: argparse.Namespace) -> int:
    with connect_gateway(arguments) as gateway:
        return run(gateway, arguments)
