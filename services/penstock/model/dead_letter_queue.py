"""Queries and replays of a dead-letter queue: ids, filters, results, edits of rows. Pure.

The id of a dead letter is its position in its topic: `0/17` is partition 0, offset 17. A replay
reads each dead letter as a partition of its own, whose stored offset means that it was replayed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.model.connector import Connector, Partition
from penstock.model.errors import ConfigError, Diagnostic

MAX_REJECTED_ROWS: Final = 10_000
"""Rejected rows of a micro-batch, of one of its slots, and unreadable rows between two checkpoints
(invariant 12). Their reasons travel through the driver, which has to stay small. A connector with
more has another problem than single rows."""

MAX_DEAD_LETTERS: Final = 10_000
"""Dead letters of one replay, and of one result (invariant 12): each is a partition of a task plan,
and its id is part of a configuration."""

DEFAULT_DEAD_LETTERS: Final = 100
"""Dead letters of a result when the request has no limit."""

REPLAY_SUFFIX: Final = ".replay"
"""Suffix of a connector's name in the name of the connector that replays its dead letters."""

REPLAYED: Final[Mapping[str, Any]] = {"replayed": True}
"""The stored offset of a dead letter that was replayed."""

_ID: Final = re.compile(r"(\d{1,6})/(\d{1,15})(?:-(\d{1,15}))?")


def default_dead_letter_topic(connector: str) -> str:
    """Return the dead-letter queue of a connector that tolerates errors and configures no topic."""
    return f"{connector}.letters"


@dataclass(frozen=True, slots=True, order=True)
class DeadLetterId:
    """The position of a dead letter in its topic; as text `0/17`."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}/{self.offset}"

    def to_partition(self, topic: str) -> Partition:
        """Return the partition by which a replay reads this dead letter from `topic`."""
        key = {"letter": self.offset, "partition": self.partition, "topic": topic}
        return Partition(key, bounded=True)


def dead_letter_id(key: Mapping[str, Any]) -> DeadLetterId:
    """Return the id of the dead letter that a partition's key names; see `to_partition`."""
    return DeadLetterId(int(key["partition"]), int(key["letter"]))


def parse_ids(text: str) -> list[DeadLetterId]:
    """Parse ids and ranges of ids, `0/3, 0/17-20`. The result is sorted and without duplicates.

    Raises:
        ConfigError: `letters.no_id`, `letters.too_many`.
    """
    found: set[DeadLetterId] = set()
    for one in filter(None, (part.strip() for part in text.split(","))):
        match = _ID.fullmatch(one)
        if match is None:
            raise ConfigError(
                "letters.no_id",
                f"{one[:100]!r} is not the id of a dead letter",
                fix="Write partition and offset, as `penstock dlq list` shows them: 0/17, or "
                "0/17-20 for four of them.",
                config_path="replay.letters",
            )
        partition, first, last = match.groups()
        span = range(int(first), int(last or first) + 1)
        if len(span) + len(found) > 2 * MAX_DEAD_LETTERS:
            raise _too_many()
        found.update(DeadLetterId(int(partition), offset) for offset in span)
    if len(found) > MAX_DEAD_LETTERS:
        raise _too_many()
    return sorted(found)


def format_ids(letters: Iterable[DeadLetterId]) -> str:
    """Format ids for `parse_ids`; consecutive ids as a range."""
    return ",".join(
        f"{first}-{first.offset + count - 1}" if count > 1 else str(first)
        for first, count in group_ranges(letters)
    )


def group_ranges(letters: Iterable[DeadLetterId]) -> Iterator[tuple[DeadLetterId, int]]:
    """Yield the ranges of consecutive ids, in order: the first id and the number of ids."""
    first, count = None, 0
    for letter in letters:
        if first and letter == DeadLetterId(first.partition, first.offset + count):
            count += 1
            continue
        if first:
            yield first, count
        first, count = letter, 1
    if first:
        yield first, count


@dataclass(frozen=True, slots=True)
class RowEdits:
    """Edits of rows before they are replayed: column → new value, None for no value.

    Attributes:
        all_rows: Edits of every row.
        by_id: Edits of single rows, which override `all_rows`; or the whole text of one that could
            not be read, in the place of its bytes.
    """

    all_rows: Mapping[str, Any] = field(default_factory=dict)
    by_id: Mapping[DeadLetterId, Mapping[str, Any] | str] = field(default_factory=dict)

    def for_letter(self, letter: DeadLetterId) -> dict[str, Any]:
        """Return the columns to change in the row of a dead letter, with their new values."""
        single = self.by_id.get(letter, {})
        return {**self.all_rows, **({} if isinstance(single, str) else single)}

    def text_for(self, letter: DeadLetterId) -> str | None:
        """Return the text in the place of the bytes of a dead letter; None: they stay."""
        single = self.by_id.get(letter)
        return single if isinstance(single, str) else None


def parse_edits(every: str, single: Mapping[str, str]) -> RowEdits:
    """Parse edits that are written in JSON: an object for all rows, and one for each id or range,
    or a text in the place of the bytes.

    Raises:
        ConfigError: `letters.bad_edit`, `letters.no_id`.
    """
    found = {
        letter: _parse_single(text, f"the edit of {name}")
        for name, text in single.items()
        for letter in parse_ids(name)
    }
    return RowEdits(parse_edit(every, "the edit of all rows"), found)


def _parse_single(text: str, what: str) -> dict[str, Any] | str:
    if text.startswith('"'):
        try:
            return str(json.loads(text))
        except ValueError:
            pass  # the error below is the one to tell
    return parse_edit(text, what)


def parse_edit(text: str, what: str) -> dict[str, Any]:
    """Parse a JSON object; an empty text is an empty object. `what` names it in the error.

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
            f"{what[:100]} is not a JSON object",
            fix='Write the columns to change: {"amount": 12, "note": null}.',
        )
    return found


@dataclass(frozen=True, slots=True)
class DeadLetterQuery:
    """A query of a connector's dead letters in a topic; see ReadDeadLettersRequest.

    Attributes:
        replays: Generation of the connector that replays them; empty: none was replayed.
        waiting: Only those that can be replayed and were not, the oldest first.
        whole: With `row`, `raw` and headers.
        edits: Edits to apply to the rows of the result.
        parse_as: The connector whose source parses rows that could not be read; None: they are not
            parsed.
    """

    topic: str
    connector: str
    ids: Sequence[DeadLetterId] = ()
    stage: str = ""
    code: str = ""
    dataset: str = ""
    since_us: int = 0
    limit: int = DEFAULT_DEAD_LETTERS
    replays: str = ""
    waiting: bool = False
    whole: bool = False
    edits: RowEdits = field(default_factory=RowEdits)
    parse_as: Connector | None = None


@dataclass(frozen=True, slots=True)
class DeadLetterCount:
    """The number of dead letters with this stage, code and dataset."""

    stage: str
    code: str
    dataset: str
    letters: int
    replayed: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter of a result. `row` is empty where only `raw` is known or the query is not
    `whole`; `offset` is empty where it is unknown. `has_row`: it can be replayed. `unparsed`: why
    its bytes are not a row.
    """

    id: DeadLetterId
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
    unparsed: Diagnostic | None = None


@dataclass(frozen=True, slots=True)
class DeadLetterResult:
    """A part of the result of a query. The counts are in the first one; `more`: there are older."""

    counts: tuple[DeadLetterCount, ...] = ()
    more: bool = False
    letters: tuple[DeadLetter, ...] = ()


def _too_many() -> ConfigError:
    return ConfigError(
        "letters.too_many",
        f"more than {MAX_DEAD_LETTERS} dead letters are selected",
        fix=f"Replay them in parts of at most {MAX_DEAD_LETTERS}.",
        config_path="replay.letters",
    )
