"""A test of a pipeline as its file has it, and how what became of rows differs from it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final

from penstock.model.errors import ConfigError, nearest
from penstock.model.preview_rows import Given, Rehearsed

KEYS: Final = ("name", "dataset", "columns", "input", "expected", "expected_dataset", "failed")
MOST_SHOWN: Final = 20
"""Differences of one test that are told: who reads more mends the first."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Rows that are given, and what has to become of them. `rows` are those that come out, in
    order; `dataset` where they go, None: anywhere; `failed` the codes of rows that fail, by their
    number among those that are given, from 1.
    """

    name: str
    given: Given
    rows: tuple[Any, ...]
    dataset: str | None = None
    failed: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it differs; not at all when it passes."""

    differences: tuple[str, ...] = ()


def expected_of(raw: Any, where: str) -> Expected:
    """Return a test.

    Raises:
        ConfigError: `test.malformed`.
    """
    if not isinstance(raw, Mapping):
        raise _malformed(where, "it is no mapping")
    for key in raw:
        if key not in KEYS:
            near = nearest(str(key), KEYS)
            hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(KEYS)}"
            raise _malformed(where, f"there is no key `{key}`, {hint}")
    given, wanted = raw.get("input", []), raw.get("expected", [])
    columns, failed = raw.get("columns") or {}, raw.get("failed") or {}
    for rows in (given, wanted):
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            raise _malformed(
                where, "`input` and `expected` are lists of rows, `column: value` each"
            )
    if not isinstance(columns, Mapping) or not isinstance(failed, Mapping):
        raise _malformed(where, "`columns` says `column: type`, and `failed` `row: code`")
    if not all(isinstance(row, int) for row in failed):
        raise _malformed(where, "`failed` names rows by their number, from 1")
    dataset = raw.get("expected_dataset")
    return Expected(
        str(raw.get("name") or where),
        Given(
            tuple(_text(row) for row in given),
            str(raw.get("dataset") or ""),
            {str(name): str(type_) for name, type_ in columns.items()},
        ),
        tuple(json.loads(_text(row)) for row in wanted),
        None if dataset is None else str(dataset),
        {row: str(code) for row, code in failed.items()},
    )


def outcome(expected: Expected, became: Rehearsed) -> Outcome:
    """Return how what became of rows differs from what was expected."""
    found = list(_differences(expected, became))
    left = len(found) - MOST_SHOWN
    return Outcome((*found[:MOST_SHOWN], *([f"and {left} more"] if left > 0 else [])))


def _differences(expected: Expected, became: Rehearsed) -> Iterator[str]:
    if expected.dataset is not None and expected.dataset != became.dataset:
        yield f"rows go to {became.dataset!r}, not to {expected.dataset!r}"
    failed = dict(became.failed)
    for row in sorted(failed.keys() | expected.failed.keys()):
        wanted = expected.failed.get(row)
        if row not in failed:
            yield f"row {row} does not fail, {wanted} is expected"
        elif wanted != failed[row].code:
            yield f"row {row} fails: {failed[row]}" + (f"; {wanted} is expected" if wanted else "")
    got = [json.loads(text) for text in became.rows]
    for number, (one, other) in enumerate(zip_longest(expected.rows, got), 1):
        if one is None:
            yield f"row {number} that comes out is not expected: {_text(other)}"
        elif other is None:
            yield f"row {number} does not come out: {_text(one)}"
        elif one != other:
            yield from (f"row {number}: {text}" for text in _columns(one, other))


def _columns(expected: Mapping[str, Any], got: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*expected, *got)):
        if name not in got:
            yield f"column {name!r} is missing"
        elif name not in expected:
            yield f"column {name!r} is not expected: {_text(got[name])}"
        elif expected[name] != got[name]:
            yield f"column {name!r} is {_text(got[name])}, not {_text(expected[name])}"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _malformed(where: str, what: str) -> ConfigError:
    return ConfigError(
        "test.malformed",
        f"{where}: {what}",
        fix="Write `name: …`, `input: [{column: value}]` and `expected: [{column: value}]`.",
    )
