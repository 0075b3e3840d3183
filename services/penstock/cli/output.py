"""Values on standard output: as a table for the user, as JSON or YAML for a program."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml
from rich.console import Console
from rich.table import Table

OUTPUTS: Final = ("table", "json", "yaml")

_UNLIMITED_WIDTH: Final = 1 << 20
"""Columns where the output is not a terminal: nothing is folded or cut for a program."""


def print_value(output: str, value: Any, rows: Sequence[Mapping[str, Any]] | None = None) -> None:
    """Print a value; as a table from `rows`, whose keys are the columns."""
    if output == "json":
        print(json.dumps(value, indent=2, ensure_ascii=False))
    elif output == "yaml":
        print(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), end="")
    else:
        print_table(rows if rows is not None else [value])


def print_document(output: str, value: Any) -> None:
    """Print one value of a stream at once: a line of JSON, or a document of YAML."""
    if output == "yaml":
        text = f"---\n{yaml.safe_dump(value, sort_keys=False, allow_unicode=True)}"
        print(text, end="", flush=True)
    else:
        print(json.dumps(value, ensure_ascii=False), flush=True)


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as a table; without rows, print nothing."""
    if not rows:
        return
    console = table_console()
    with console.capture() as lines:
        console.print(table_of(rows))
    print("\n".join(line.rstrip() for line in lines.get().splitlines()))


def table_of(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> Table:
    """Return a table of rows. A value that is wider than the terminal is folded, never cut."""
    columns = columns or list(dict.fromkeys(key for row in rows for key in row))
    table = Table(box=None)
    for column in columns:
        table.add_column(cell_text(column), overflow="fold")
    for row in rows:
        table.add_row(*(cell_text(row.get(column)) for column in columns))
    return table


def table_console() -> Console:
    """Return the console for tables: it interprets no markup, emoji or highlighting in values."""
    width = None if sys.stdout.isatty() else _UNLIMITED_WIDTH
    return Console(width=width, markup=False, emoji=False, highlight=False)


def cell_text(value: Any) -> str:
    """Return a value as the text of a cell. Control characters are escaped."""
    match value:
        case None:
            text = "-"
        case str():
            text = value
        case bool():
            text = "yes" if value else "no"
        case list():
            text = ", ".join(map(cell_text, value))
        case dict():
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        case _:
            text = str(value)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
