"""`penstock logs [CONNECTOR]`: log lines of the workers, of one connector or all."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

from penstock.cli.gateway_client import url_path
from penstock.cli.gateway_options import (
    add_connector_argument,
    add_gateway_options,
    connect_gateway,
)
from penstock.cli.output import cell_text, print_document
from penstock.model.logs import MAX_KEPT_LINES

LEVELS: Final = ("DEBUG", "INFO", "WARN", "ERROR")


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    add_connector_argument(parser, "connector", "default: all of them", nargs="?", default="")
    parser.add_argument("-f", "--follow", action="store_true", help="print new lines as they come")
    parser.add_argument("--level", choices=LEVELS, default="DEBUG", help="the lowest level")
    parser.add_argument(
        "--tail", type=int, default=100, help=f"earlier lines to print, at most {MAX_KEPT_LINES}"
    )
    add_gateway_options(parser)
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Print log lines; with `-o json` or `yaml`, as the gateway sends them."""
    noun = ("connectors", arguments.connector) if arguments.connector else ()
    query = {
        "level": arguments.level,
        "tail": arguments.tail,
        "follow": "true" if arguments.follow else "false",
    }
    with connect_gateway(arguments) as gateway:
        for line in gateway.stream("GET", url_path("v1", *noun, "logs"), **query):
            if arguments.output == "table":
                print(_format_line(line), flush=True)
            else:
                print_document(arguments.output, line)
    return 0


def _format_line(line: Mapping[str, Any]) -> str:
    if "missed" in line:
        return f"… {line['missed']} lines of {cell_text(line['worker'])} that are not shown"
    about = " ".join(f"{key}={line[key]}" for key in ("connector", "task", "epoch") if key in line)
    prefix = f"{line['time']} {line['level']:<7} {line['worker']} {about}".rstrip()
    first, *rest = line["message"].splitlines() or [""]
    lines = [
        f"{cell_text(prefix)} {cell_text(line['logger'])}: {cell_text(first)}",
        *(f"    {cell_text(text)}" for text in rest),
    ]
    return "\n".join(lines)
