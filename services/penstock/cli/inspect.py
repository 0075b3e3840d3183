"""`penstock inspect CONNECTOR`: some of the rows that move, as they do."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.cli.remote import options
from penstock.cli.remote.asking import path
from penstock.cli.remote.showing import cell, document
from penstock.model.errors import PenstockError
from penstock.model.live_rows import stage_names


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    options.connector(parser, "connector", "whose rows are shown")
    parser.add_argument("--task", type=int, default=0, help="which of its tasks (default: 0)")
    stage = parser.add_argument(
        "--stage",
        default="transformed",
        help="where: `read`, `transformed` (default), or the name of a transform: behind it",
    )
    stage.completer = stages  # type: ignore[attr-defined]  # where argcomplete looks
    parser.add_argument("--rows", type=int, default=100, help="rows after which it ends")
    parser.add_argument("--seconds", type=float, default=60, help="seconds after which it ends")
    options.add(parser)
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the verb: a line for each row; with `-o json` or `yaml`, as the gateway tells it."""
    where = path("v1", "connectors", arguments.connector, "tasks", str(arguments.task), "rows")
    asked = {
        "stage": arguments.stage,
        "rows": arguments.rows,
        "seconds": arguments.seconds,
    }
    with options.server(arguments) as server:
        for line in server.lines("GET", where, **asked):
            if arguments.output != "table":
                document(arguments.output, line)
            elif "missed" in line:
                print(f"… {line['missed']} rows that are not shown", flush=True)
            else:
                shown = line["cut"] + "…" if "cut" in line else line["row"]
                print(cell(line["topic"]), cell(line["offset"]), cell(shown), flush=True)
    return 0


def stages(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the stages of the connector that begin so; when no gateway tells its transforms at
    once, those that every connector has.
    """
    transforms = ""
    try:
        with options.server(parsed_args, options.COMPLETED_WITHIN) as asked:
            config = asked.get(path("connectors", parsed_args.connector, "config"))
            transforms = config.get("transforms", "")
    except (PenstockError, AttributeError, TypeError):
        pass  # a person who has pressed the tabulator is told nothing
    named = [name.strip() for name in transforms.split(",") if name.strip()]
    return [name for name in stage_names(named) if name.startswith(prefix)]
