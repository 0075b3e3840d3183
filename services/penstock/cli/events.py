"""`penstock events [CONNECTOR]`: what happened to connectors, tasks and workers."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from penstock.cli.live_lines import add_line_options, print_lines
from penstock.cli.output import cell_text
from penstock.model.events import MAX_EVENTS


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    add_line_options(parser, "all of them, and the workers", "events", MAX_EVENTS)
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Print events."""
    return print_lines(arguments, "events", _format_event)


def _format_event(event: Mapping[str, Any]) -> str:
    return f"{event['time']} {event['kind']:<13} {cell_text(event['message'])}"
