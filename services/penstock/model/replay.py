"""Dead letters that are looked at and replayed: which, and with which changes. Pure.

A letter is named by where it lies in its topic: `0/17` is partition 0, offset 17. To a replay each
letter is a partition of its own, whose offset says that it was replayed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.model.connector import Partition
from penstock.model.errors import ConfigError, Diagnostic

MOST_LETTERS: Final = 10_000
"""Letters of one replay, and of one answer (invariant 12): each is a partition of a plan, and its
name is part of a configuration."""

USUAL_LETTERS: Final = 100
"""Letters of an answer when nothing is said."""

SUFFIX: Final = ".replay"
"""Behind the name of a connector: the name of the connector that replays its letters."""

REPLAYED: Final[Mapping[str, Any]] = {"replayed": True}
"""The offset of a letter that was replayed."""

_ID: Final = re.compile(r"(\d{1,6})/(\d{1,15})(?:-(\d{1,15}))?")


def default_topic(connector: str) -> str:
    """Return where the letters of a connector go that tolerates bad rows and names no place."""
    return f"{connector}.letters"


@dataclass(frozen=True, slots=True, order=True)
class LetterId:
    """Where a letter lies in its topic."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}/{self.offset}"

    def within(self, topic: str) -> Partition:
        """Return the letter as what a task reads."""
        key = {"letter": self.offset, "partition": self.partition, "topic": topic}
        return Partition(key, bounded=True)


def letter_of(key: Mapping[str, Any]) -> LetterId:
    """Return the letter that a partition's key names."""
    return LetterId(int(key["partition"]), int(key["letter"]))


def read_ids(text: str) -> list[LetterId]:
    """Return the letters that a text names, in order and each once: `0/3, 0/17-20`.

    Raises:
        ConfigError: `letters.no_id`, `letters.too_many`.
    """
    found: set[LetterId] = set()
    for one in filter(None, (part.strip() for part in text.split(","))):
        match = _ID.fullmatch(one)
        if match is None:
            raise ConfigError(
                "letters.no_id",
                f"{one[:100]!r} names no dead letter",
                fix="Write partition and offset, as `penstock dlq list` shows them: 0/17, or "
                "0/17-20 for four of them.",
                config_path="replay.letters",
            )
        partition, first, last = match.groups()
        span = range(int(first), int(last or first) + 1)
        if len(span) + len(found) > 2 * MOST_LETTERS:
            raise _too_many()
        found.update(LetterId(int(partition), offset) for offset in span)
    if len(found) > MOST_LETTERS:
        raise _too_many()
    return sorted(found)


def written_ids(letters: Iterable[LetterId]) -> str:
    """Return letters as a text that `read_ids` reads; neighbours as one."""
    return ",".join(
        f"{first}-{first.offset + count - 1}" if count > 1 else str(first)
        for first, count in runs(letters)
    )


def runs(letters: Iterable[LetterId]) -> Iterator[tuple[LetterId, int]]:
    """Yield the runs of neighbours among letters, in their order: the first, and how many."""
    first, count = None, 0
    for letter in letters:
        if first and letter == LetterId(first.partition, first.offset + count):
            count += 1
            continue
        if first:
            yield first, count
        first, count = letter, 1
    if first:
        yield first, count


@dataclass(frozen=True, slots=True)
class Changes:
    """What is changed of rows before they are replayed: of all, and of single ones, which counts
    more. A column that is None has no value.
    """

    every: Mapping[str, Any] = field(default_factory=dict)
    single: Mapping[LetterId, Mapping[str, Any]] = field(default_factory=dict)

    def of(self, letter: LetterId) -> dict[str, Any]:
        """Return the columns that change of a letter's row."""
        return {**self.every, **self.single.get(letter, {})}


def read_changes(every: str, single: Mapping[str, str]) -> Changes:
    """Return changes that are written as JSON objects.

    Raises:
        ConfigError: `letters.bad_edit`, `letters.no_id`.
    """
    found = {
        letter: read_object(text, f"the change of {name}")
        for name, text in single.items()
        for letter in read_ids(name)
    }
    return Changes(read_object(every, "the change of all rows"), found)


def read_object(text: str, what: str) -> dict[str, Any]:
    """Return a JSON object; an empty text is an empty one.

    Raises:
        ConfigError: `letters.bad_edit`.
    """
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ConfigError(
            "letters.bad_edit",
            f"{what[:100]} is no JSON object",
            fix='Write the columns that change: {"amount": 12, "note": null}.',
        )
    return found


def changed(row: str, changes: Mapping[str, Any]) -> str:
    """Return a row, a JSON object, with changes; null takes a column's value away."""
    if not changes:
        return row
    columns = {**json.loads(row), **changes}
    kept = {name: value for name, value in columns.items() if value is not None}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class LetterQuery:
    """Which letters of a connector in a topic are asked for; see ReadLettersRequest."""

    topic: str
    connector: str
    ids: Sequence[LetterId] = ()
    stage: str = ""
    code: str = ""
    dataset: str = ""
    since_us: int = 0
    limit: int = USUAL_LETTERS
    replays: str = ""
    waiting: bool = False
    whole: bool = False
    changes: Changes = field(default_factory=Changes)


@dataclass(frozen=True, slots=True)
class LetterCount:
    """How many letters have these in common."""

    stage: str
    code: str
    dataset: str
    letters: int
    replayed: int


@dataclass(frozen=True, slots=True)
class LetterFound:
    """A letter, for whoever looks. `row` is empty where only `raw` is known, or was not asked
    for; so is `offset` where it is not known.
    """

    id: LetterId
    connector: str
    task: str
    stage: str
    reason: Diagnostic
    dataset: str
    partition: str
    epoch: int
    transaction: int
    failed_at_us: int
    replayed: bool = False
    has_row: bool = False
    row: str = ""
    raw: bytes = b""
    headers: Mapping[str, bytes] = field(default_factory=dict)
    offset: str = ""
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class LettersTold:
    """A part of an answer: the counts come with its first one."""

    counts: tuple[LetterCount, ...] = ()
    more: bool = False
    letters: tuple[LetterFound, ...] = ()


def _too_many() -> ConfigError:
    return ConfigError(
        "letters.too_many",
        f"more than {MOST_LETTERS} dead letters are named",
        fix="Replay them in parts.",
        config_path="replay.letters",
    )
