"""`penstock logs [CONNECTOR]`: what workers log, about one connector or all."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

from penstock.cli.remote import options
from penstock.cli.remote.asking import path
from penstock.cli.remote.showing import cell, document
from penstock.model.log_lines import MOST_KEPT

LEVELS: Final = ("DEBUG", "INFO", "WARN", "ERROR")


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    options.connector(parser, "connector", "default: all of them", nargs="?", default="")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with lines that come")
    parser.add_argument("--level", choices=LEVELS, default="DEBUG", help="the lowest")
    parser.add_argument(
        "--tail", type=int, default=100, help=f"lines that there are, at most {MOST_KEPT}"
    )
    options.add(parser)
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the verb: a line for each; with `-o json` or `yaml`, as the gateway tells it."""
    of = ("connectors", arguments.connector) if arguments.connector else ()
    asked = {
        "level": arguments.level,
        "tail": arguments.tail,
        "follow": "true" if arguments.follow else "false",
    }
    with options.server(arguments) as server:
        for line in server.lines("GET", path("v1", *of, "logs"), **asked):
            if arguments.output == "table":
                print(_text(line), flush=True)
            else:
                document(arguments.output, line)
    return 0


def _text(line: Mapping[str, Any]) -> str:
    if "missed" in line:
        return f"… {line['missed']} lines of {cell(line['worker'])} that are not shown"
    about = " ".join(f"{key}={line[key]}" for key in ("connector", "task", "epoch") if key in line)
    head = f"{line['time']} {line['level']:<7} {line['worker']} {about}".rstrip()
    first, *rest = line["message"].splitlines() or [""]
    shown = [
        f"{cell(head)} {cell(line['logger'])}: {cell(first)}",
        *(f"    {cell(t)}" for t in rest),
    ]
    return "\n".join(shown)
