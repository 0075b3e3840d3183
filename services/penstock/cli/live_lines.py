"""What `penstock logs` and `penstock events` share: lines that a gateway streams, of all connectors
or of one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from penstock.cli.gateway_client import url_path
from penstock.cli.gateway_options import (
    add_connector_argument,
    add_gateway_options,
    connect_gateway,
)
from penstock.cli.output import print_document


def add_line_options(
    parser: argparse.ArgumentParser, all_connectors: str, lines: str, max_tail: int
) -> None:
    """Add the connector, `--follow`, `--tail` and the options of the gateway.

    Args:
        parser: The parser of the verb.
        all_connectors: What is shown without a connector.
        lines: What the lines are, for the help.
        max_tail: The largest number of earlier lines.
    """
    add_connector_argument(parser, "connector", f"default: {all_connectors}", nargs="?", default="")
    parser.add_argument(
        "-f", "--follow", action="store_true", help=f"print new {lines} as they come"
    )
    parser.add_argument(
        "--tail", type=int, default=100, help=f"earlier {lines} to print, at most {max_tail:,}"
    )
    add_gateway_options(parser)


def print_lines(
    arguments: argparse.Namespace,
    noun: str,
    format_line: Callable[[Mapping[str, Any]], str],
    **query: Any,
) -> int:
    """Print the lines of `/v1/<noun>`, or of that of the connector; with `-o json` or `yaml`, as
    the gateway sends them.
    """
    owner = ("connectors", arguments.connector) if arguments.connector else ()
    query |= {"tail": arguments.tail, "follow": "true" if arguments.follow else "false"}
    with connect_gateway(arguments) as gateway:
        for line in gateway.stream("GET", url_path("v1", *owner, noun), **query):
            if arguments.output == "table":
                print(format_line(line), flush=True)
            else:
                print_document(arguments.output, line)
    return 0
