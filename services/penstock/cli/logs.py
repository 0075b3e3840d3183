"""`penstock logs [CONNECTOR]`: log lines of the workers, of one connector or all.

Of workers that are gone, these are warnings and errors.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

from penstock.cli.live_lines import add_line_options, print_lines
from penstock.cli.output import cell_text
from penstock.model.logs import MAX_KEPT_LINES

LEVELS: Final = ("DEBUG", "INFO", "WARN", "ERROR")


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    add_line_options(parser, "all of them", "lines", MAX_KEPT_LINES)
    parser.add_argument("--level", choices=LEVELS, default="DEBUG", help="the lowest level")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Print log lines."""
    return print_lines(arguments, "logs", _format_line, level=arguments.level)


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
