"""`penstock events [CONNECTOR]`: what happened to connectors, tasks and workers."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from penstock.cli.gateway_client import url_path
from penstock.cli.gateway_options import (
    add_connector_argument,
    add_gateway_options,
    connect_gateway,
)
from penstock.cli.output import cell_text, print_document
from penstock.model.events import MAX_EVENTS


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    add_connector_argument(
        parser, "connector", "default: all of them, and the workers", nargs="?", default=""
    )
    parser.add_argument("-f", "--follow", action="store_true", help="print new events as they come")
    parser.add_argument(
        "--tail", type=int, default=100, help=f"earlier events to print, at most {MAX_EVENTS:,}"
    )
    add_gateway_options(parser)
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Print events; with `-o json` or `yaml`, as the gateway sends them."""
    noun = ("connectors", arguments.connector) if arguments.connector else ()
    query = {"tail": arguments.tail, "follow": "true" if arguments.follow else "false"}
    with connect_gateway(arguments) as gateway:
        for event in gateway.stream("GET", url_path("v1", *noun, "events"), **query):
            if arguments.output == "table":
                print(_format_event(event), flush=True)
            else:
                print_document(arguments.output, event)
    return 0


def _format_event(event: Mapping[str, Any]) -> str:
    return f"{event['time']} {event['kind']:<13} {cell_text(event['message'])}"
