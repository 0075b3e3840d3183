"""What a run came to: a table for people, JSON for programs, a file that is kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from penstock.conformance.verdict import Outcome, Result
from penstock.plugin.errors import printable

_STYLES: Mapping[Outcome, str] = {
    Outcome.PASS: "green",
    Outcome.FAIL: "bold red",
    Outcome.NOT_APPLICABLE: "dim",
}


def causes(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Return what failed several cases for the same reason, by that reason."""
    failed: dict[str, list[Result]] = {}
    for one in results:
        if one.outcome is Outcome.FAIL:
            failed.setdefault(one.why, []).append(one)
    return {why: them for why, them in failed.items() if len(them) > 1}


def print_table(results: Sequence[Result], console: Console) -> None:
    """Print a line for each case, each cause that failed several once, and the sum of all."""
    shared = causes(results)
    numbers = {why: f"cause {number}" for number, why in enumerate(shared, start=1)}
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
            escape(printable(numbers.get(one.why, one.why), 300)),
            f"{one.seconds:.1f}",
        )
    console.print(table)
    for why, them in shared.items():
        names = ", ".join(f"{one.connector} {one.case}".strip() for one in them)
        console.print(
            escape(f"{numbers[why]}: {printable(why, 300)}\n  fails {len(them)} cases: {names}"),
            highlight=False,
        )
    console.print(summary(results))


def summary(results: Sequence[Result]) -> str:
    """Return how many cases passed and failed, in a line."""
    counts = Counter(one.outcome for one in results)
    broken = sum(one.breaks for one in results)
    words = [
        f"{counts[Outcome.PASS]} passed",
        f"{counts[Outcome.FAIL]} failed, {broken} of them a MUST",
        f"{counts[Outcome.NOT_APPLICABLE]} not applicable",
    ]
    return ", ".join(words)


def as_json(results: Sequence[Result], *, plugin: str, spec: str) -> dict[str, Any]:
    """Return all of it for programs."""
    return {
        "spec": spec,
        "plugin": plugin,
        "conforms": not any(one.breaks for one in results),
        "results": [
            {
                "connector": one.connector,
                "case": one.case,
                "level": one.level,
                "result": one.outcome.value,
                "why": printable(one.why),
                "seconds": one.seconds,
            }
            for one in results
        ],
    }


def kept(results: Sequence[Result], *, plugin: str, spec: str) -> str:
    """Return what a plugin's folder keeps: the same for the same plugin, without times."""
    connectors: dict[str, dict[str, str]] = {}
    for one in results:
        why = f": {one.why}" if one.outcome is Outcome.NOT_APPLICABLE else ""
        connectors.setdefault(one.connector or "(process)", {})[one.case] = one.outcome.value + why
    conforms = not any(one.breaks for one in results)
    table = {"spec": spec, "plugin": plugin, "conforms": conforms, "cases": connectors}
    return json.dumps(table, indent=1, ensure_ascii=False) + "\n"
