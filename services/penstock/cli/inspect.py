"""`penstock inspect CONNECTOR`: some of the rows that a connector moves, live."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.cli.gateway_client import url_path
from penstock.cli.gateway_options import (
    COMPLETION_TIMEOUT_S,
    add_connector_argument,
    add_gateway_options,
    connect_gateway,
)
from penstock.cli.output import cell_text, print_document
from penstock.model.errors import PenstockError
from penstock.model.inspection import list_stage_names


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    add_connector_argument(parser, "connector", "connector whose rows are printed")
    parser.add_argument("--task", type=int, default=0, help="number of its task (default: 0)")
    stage = parser.add_argument(
        "--stage",
        default="transformed",
        help="`read`, `transformed` (default), or the name of a transform: behind it",
    )
    stage.completer = complete_stages  # type: ignore[attr-defined]  # for argcomplete
    parser.add_argument("--rows", type=int, default=100, help="end after so many rows")
    parser.add_argument("--seconds", type=float, default=60, help="end after so many seconds")
    add_gateway_options(parser)
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Print a line for each row; with `-o json` or `yaml`, as the gateway sends it."""
    path = url_path("v1", "connectors", arguments.connector, "tasks", str(arguments.task), "rows")
    query = {
        "stage": arguments.stage,
        "rows": arguments.rows,
        "seconds": arguments.seconds,
    }
    with connect_gateway(arguments) as gateway:
        for line in gateway.stream("GET", path, **query):
            if arguments.output != "table":
                print_document(arguments.output, line)
            elif "missed" in line:
                print(f"… {line['missed']} rows that are not shown", flush=True)
            else:
                row = line["cut"] + "…" if "cut" in line else line["row"]
                cells = (cell_text(value) for value in (line["topic"], line["offset"], row))
                print(*cells, flush=True)
    return 0


def complete_stages(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the stages with a prefix: those of the connector, or, where no gateway answers in
    time, those that every connector has.
    """
    transforms = ""
    try:
        with connect_gateway(parsed_args, COMPLETION_TIMEOUT_S) as gateway:
            config = gateway.get(url_path("connectors", parsed_args.connector, "config"))
            transforms = config.get("transforms", "")
    except (PenstockError, AttributeError, TypeError):
        pass  # completion prints no errors
    names = [name.strip() for name in transforms.split(",") if name.strip()]
    return [name for name in list_stage_names(names) if name.startswith(prefix)]
