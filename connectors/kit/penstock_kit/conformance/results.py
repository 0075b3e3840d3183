"""Results of cases: outcomes and their reasons; as a table, as JSON, as the record of a plugin."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from penstock.api.error.v1 import diagnostic_pb2
from penstock.plugin.errors import escape_text
from penstock.wire.error import DIAGNOSTIC

T = TypeVar("T")


class Outcome(StrEnum):
    """How a case ended."""

    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    NOT_APPLICABLE = "n/a"


class RuleBrokenError(Exception):
    """The plugin breaks the rule of a case; the text describes what it did."""


class NotApplicableError(Exception):
    """The case does not apply to this connector; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one case for one connector; `connector` is empty for the process."""

    connector: str
    case: str
    level: str
    outcome: Outcome
    reason: str
    seconds: float

    @property
    def is_violation(self) -> bool:
        """Whether it makes the plugin not conform."""
        return self.outcome is Outcome.FAIL and self.level == "MUST"


def format_diagnostics(diagnostics: Iterable[diagnostic_pb2.Diagnostic], limit: int = 3) -> str:
    """Return the first diagnostics as text."""
    listed = list(diagnostics)
    text = "; ".join(str(DIAGNOSTIC.from_proto(one)) for one in listed[:limit])
    return f"{text} (and {len(listed) - limit} more)" if len(listed) > limit else text


def require(condition: object, reason: str) -> None:
    """Check a condition.

    Raises:
        RuleBrokenError: it does not hold.
    """
    if not condition:
        raise RuleBrokenError(reason)


def present(value: T | None, reason: str) -> T:
    """Return a value that must be there.

    Raises:
        RuleBrokenError: it is None.
    """
    if value is None:
        raise RuleBrokenError(reason)
    return value


_STYLES: Mapping[Outcome, str] = {
    Outcome.PASS: "green",
    Outcome.FAIL: "bold red",
    Outcome.NOT_APPLICABLE: "dim",
}


def shared_failures(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Return the reasons for which several cases failed, with these results."""
    failed: dict[str, list[Result]] = {}
    for one in results:
        if one.outcome is Outcome.FAIL:
            failed.setdefault(one.reason, []).append(one)
    return {reason: group for reason, group in failed.items() if len(group) > 1}


def print_results(results: Sequence[Result], console: Console) -> None:
    """Print a line for each case, each shared reason once below, and the summary."""
    shared = shared_failures(results)
    numbers = {reason: f"cause {number}" for number, reason in enumerate(shared, start=1)}
    table = Table("connector", "case", "", "result", "why", box=None, pad_edge=False)
    table.add_column("s", justify="right")
    before = None
    for one in results:
        shown = "" if one.connector == before else one.connector or "(process)"
        before = one.connector
        style = _STYLES[one.outcome]
        table.add_row(
            shown,
            one.case,
            one.level,
            f"[{style}]{one.outcome}[/]",
            escape(escape_text(numbers.get(one.reason, one.reason), 300)),
            f"{one.seconds:.1f}",
        )
    console.print(table)
    for reason, group in shared.items():
        names = ", ".join(f"{one.connector} {one.case}".strip() for one in group)
        console.print(
            escape(
                f"{numbers[reason]}: {escape_text(reason, 300)}\n"
                f"  fails {len(group)} cases: {names}"
            ),
            highlight=False,
        )
    console.print(summary(results))


def summary(results: Sequence[Result]) -> str:
    """Return a line with the counts of outcomes."""
    counts = Counter(one.outcome for one in results)
    broken = sum(one.is_violation for one in results)
    words = [
        f"{counts[Outcome.PASS]} passed",
        f"{counts[Outcome.FAIL]} failed, {broken} of them a MUST",
        f"{counts[Outcome.NOT_APPLICABLE]} not applicable",
    ]
    return ", ".join(words)


def as_json(results: Sequence[Result], *, plugin: str, spec: str) -> dict[str, Any]:
    """Return the results as a JSON value."""
    return {
        "spec": spec,
        "plugin": plugin,
        "conforms": not any(one.is_violation for one in results),
        "results": [
            {
                "connector": one.connector,
                "case": one.case,
                "level": one.level,
                "result": one.outcome.value,
                "why": escape_text(one.reason),
                "seconds": one.seconds,
            }
            for one in results
        ],
    }


def format_record(results: Sequence[Result], *, plugin: str, spec: str) -> str:
    """Return the JSON record for the plugin's folder: without times, equal for equal results."""
    connectors: dict[str, dict[str, str]] = {}
    for one in results:
        reason = f": {one.reason}" if one.outcome is Outcome.NOT_APPLICABLE else ""
        connectors.setdefault(one.connector or "(process)", {})[one.case] = (
            one.outcome.value + reason
        )
    conforms = not any(one.is_violation for one in results)
    table = {"spec": spec, "plugin": plugin, "conforms": conforms, "cases": connectors}
    return json.dumps(table, indent=1, ensure_ascii=False) + "\n"
