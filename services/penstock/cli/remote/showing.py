"""Answers as a person or a program wants them: a table, JSON, YAML."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml
from rich.console import Console
from rich.table import Table

OUTPUTS: Final = ("table", "json", "yaml")

_ENDLESS: Final = 1 << 20
"""Columns of what is no terminal: nothing is folded or cut for a program."""


def show(output: str, value: Any, rows: Sequence[Mapping[str, Any]] | None = None) -> None:
    """Print a value; as a table by its `rows`, whose keys are the columns."""
    if output == "json":
        print(json.dumps(value, indent=2, ensure_ascii=False))
    elif output == "yaml":
        print(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), end="")
    else:
        table(rows if rows is not None else [value])


def document(output: str, value: Any) -> None:
    """Print one of many values as soon as it is there: a line of JSON, a document of YAML."""
    if output == "yaml":
        told = f"---\n{yaml.safe_dump(value, sort_keys=False, allow_unicode=True)}"
        print(told, end="", flush=True)
    else:
        print(json.dumps(value, ensure_ascii=False), flush=True)


def table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as a table; of none, nothing."""
    if not rows:
        return
    drawing = console()
    with drawing.capture() as lines:
        drawing.print(drawn(rows))
    print("\n".join(line.rstrip() for line in lines.get().splitlines()))


def drawn(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> Table:
    """Return a table of rows. What does not fit into a terminal goes on in the next line: a value
    is never cut.
    """
    columns = columns or list(dict.fromkeys(key for row in rows for key in row))
    made = Table(box=None)
    for column in columns:
        made.add_column(cell(column), overflow="fold")
    for row in rows:
        made.add_row(*(cell(row.get(column)) for column in columns))
    return made


def console() -> Console:
    """Return what draws tables: text is text, whatever it looks like."""
    width = None if sys.stdout.isatty() else _ENDLESS
    return Console(width=width, markup=False, emoji=False, highlight=False)


def cell(value: Any) -> str:
    """Return a value as the text of a cell: control characters cannot reach the terminal."""
    match value:
        case None:
            text = "-"
        case str():
            text = value
        case bool():
            text = "yes" if value else "no"
        case list():
            text = ", ".join(map(cell, value))
        case dict():
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        case _:
            text = str(value)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
