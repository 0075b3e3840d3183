"""Answers as a person or a program wants them: a table, JSON, YAML."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table


def show(output: str, value: Any, rows: Sequence[Mapping[str, Any]] | None = None) -> None:
    """Print a value; as a table by its `rows`, whose keys are the columns."""
    if output == "json":
        print(json.dumps(value, indent=2, ensure_ascii=False))
    elif output == "yaml":
        print(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), end="")
    else:
        table(rows if rows is not None else [value])


def table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as a table; of none, nothing."""
    if not rows:
        return
    columns = list(dict.fromkeys(key for row in rows for key in row))
    drawn = Table(*columns, box=None)
    for row in rows:
        drawn.add_row(*(cell(row.get(column)) for column in columns))
    # lines of a pipe are not folded
    Console(width=None if sys.stdout.isatty() else 1000, markup=False, highlight=False).print(drawn)


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
