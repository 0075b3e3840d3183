"""Rows of a source behind the transforms of its connector, as `check --rows` prints them.

The rows go to standard output. What was left out of them is told on standard error: rows that the
source could not read, and rows that a transform rejected.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from penstock.cli.output import cell_text, print_table
from penstock.model.errors import Diagnostic
from penstock.model.inspection import PreviewResult

_MAX_REASONS: Final = 3
"""Reasons that are printed for each kind of rows that were left out."""


@dataclass(frozen=True, slots=True)
class Preview:
    """Previewed rows. `failed` are the reasons of rows that a transform rejected, with the number
    of the row; `unread` those of the first rows that the source could not read.
    """

    dataset: str
    rows: Sequence[Mapping[str, Any]]
    failed: Sequence[tuple[int, str]]
    unread_count: int
    unread: Sequence[str]

    @classmethod
    def of_body(cls, body: Mapping[str, Any]) -> Self:
        """Return the preview in a response of the gateway."""
        return cls(
            body["dataset"],
            body["rows"],
            [(one["row"], _reason_of_body(one["finding"])) for one in body["failed"]],
            body["unread_count"],
            [_reason_of_body(one) for one in body["unread"]],
        )

    @classmethod
    def of_result(cls, result: PreviewResult) -> Self:
        """Return the preview that a worker of this process made."""
        return cls(
            result.dataset,
            [json.loads(row) for row in result.rows],
            [(row, _reason(why)) for row, why in result.failed],
            result.unread_count,
            [_reason(why) for why in result.unread],
        )

    def print_rows(self) -> None:
        """Print the rows as a table, below their dataset."""
        print(f"\n{cell_text(self.dataset)}")
        print_table(self.rows)

    def print_left_out(self) -> None:
        """Say which rows are not among them, and why."""
        for line in self.describe_left_out():
            print(line, file=sys.stderr)

    def describe_left_out(self) -> list[str]:
        """Return a line for each kind of rows that are not among them, and the first reasons."""
        lines = []
        if self.unread_count:
            count = _count(self.unread_count)
            lines.append(f"left out: {count} that the source could not read, near those shown")
            lines += [f"  {why}" for why in self.unread[:_MAX_REASONS]]
            lines += _more(self.unread_count)
        if self.failed:
            lines.append(f"left out: {_count(len(self.failed))} that a transform rejected")
            lines += [f"  row {row}: {why}" for row, why in self.failed[:_MAX_REASONS]]
            lines += _more(len(self.failed))
        return lines


def _count(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows:,} rows"


def _more(rows: int) -> list[str]:
    return [f"  and {rows - _MAX_REASONS:,} more"] if rows > _MAX_REASONS else []


def _reason(why: Diagnostic) -> str:
    return f"[{why.code}] {why.message}"


def _reason_of_body(finding: Mapping[str, Any]) -> str:
    return f"[{finding['code']}] {finding['message']}"
