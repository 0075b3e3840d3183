"""Dead letters in a topic, for a person who looks at them, or wants them replayed."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa

from penstock.client import OffsetClient
from penstock.model.columns import HEADERS
from penstock.model.dead_letter import LETTER, Stage, unkeyed
from penstock.model.errors import ConfigError, Diagnostic, ErrorClass
from penstock.model.identity import partition_key
from penstock.model.replay import (
    LetterCount,
    LetterFound,
    LetterId,
    LetterQuery,
    LettersTold,
    changed,
    letter_of,
    runs,
)
from penstock.spark.ends.replaying import rows_of
from penstock.topic.embedded.row_slices import Run, TopicRows
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.worker.config.reach import NO_RULES, Rules

MOST_SEEN: Final = 1_000_000
"""Letters of a partition that are counted, the newest: some seconds. Who has more looks at the
topic with a sink."""

AT_ONCE: Final = 100
"""Letters that are read at once, and most of an answer's part. Rows may be large."""

MOST_PART: Final = 1 << 20
"""Bytes of rows after which a part of an answer is sent."""

_SIGHT: Final = pa.schema(
    [LETTER.field(name) for name in ("connector", "stage", "code", "dataset", "failed_at")]
)
_WITHOUT_ROW: Final = pa.schema([f for f in LETTER if f.name not in {"row", "raw", HEADERS}])

_Kind: TypeAlias = tuple[str, str, str]


@dataclass(slots=True)
class _Seen:
    """What was seen of a topic: letters by kind, and those that are wanted."""

    query: LetterQuery
    done: Collection[LetterId]
    counts: Counter[_Kind] = field(default_factory=Counter)
    replayed: Counter[_Kind] = field(default_factory=Counter)
    heap: list[tuple[int, int, LetterId]] = field(default_factory=list)

    def take(self, letter: LetterId, kind: _Kind, at_us: int) -> None:
        """Take note of a letter that matches."""
        done = letter in self.done
        self.counts[kind] += 1
        self.replayed[kind] += done
        if not self.query.waiting:
            self._keep((at_us, letter.partition, letter))
        elif not done and kind[0] != Stage.READ:  # those have no row
            self._keep((-at_us, -letter.offset, letter))

    def _keep(self, one: tuple[int, int, LetterId]) -> None:
        if len(self.heap) < self.query.limit:
            heapq.heappush(self.heap, one)
        else:
            heapq.heappushpop(self.heap, one)

    def told(self) -> tuple[LetterCount, ...]:
        """Return the counts, the most first."""
        return tuple(
            LetterCount(*kind, letters=count, replayed=self.replayed[kind])
            for kind, count in self.counts.most_common()
        )

    def wanted(self) -> list[LetterId]:
        """Return the letters to tell: the newest first, or in their order."""
        newest = [letter for *_, letter in sorted(self.heap, reverse=True)]
        return sorted(newest) if self.query.waiting else newest


class LetterReader:
    """Reads dead letters of this worker's topics. `offsets` know which were replayed."""

    def __init__(
        self, topics: EmbeddedTopics, offsets: OffsetClient, reach: Rules = NO_RULES
    ) -> None:
        self._topics, self._offsets, self._reach = topics, offsets, reach

    async def read(self, query: LetterQuery) -> AsyncGenerator[LettersTold, None]:
        """Iterate over an answer: first the counts, then letters.

        Raises:
            ConfigError: `letters.not_found`, `letters.bad_edit`, `topic.no_row`, `reach.…`.
        """
        self._reach.of(query.connector).require_topic(query.topic)
        rows, done = self._topics.rows(query.topic), await self._replayed(query)
        windows = await rows.run(rows.windows)
        if query.ids:
            wanted, first = _there(query.ids, windows), LettersTold()
        else:
            seen = _Seen(query, done)
            more = await rows.run(_look, rows, windows, seen)
            wanted, first = seen.wanted(), LettersTold(seen.told(), more)
        yield first
        for at in range(0, len(wanted), AT_ONCE):
            some = wanted[at : at + AT_ONCE]
            for part in _parts(await rows.run(_letters, rows, some, query, done)):
                yield LettersTold(letters=part)

    async def _replayed(self, query: LetterQuery) -> Collection[LetterId]:
        if not query.replays:
            return ()
        keys = [partition_key(id_) async for id_, _ in self._offsets.list(query.replays)]
        return {letter_of(key) for key in keys if key.get("topic") == query.topic}


def _there(ids: Sequence[LetterId], windows: Mapping[int, tuple[int, int]]) -> list[LetterId]:
    for letter in ids:
        low, end = windows.get(letter.partition, (0, 0))
        if not low <= letter.offset < end:
            raise _not_found(letter)
    return list(ids)


def _look(rows: TopicRows, windows: Mapping[int, tuple[int, int]], seen: _Seen) -> bool:
    """Look at all letters, or the newest of them; tells whether there are older ones."""
    whole = [(n, max(low, end - MOST_SEEN), end) for n, (low, end) in windows.items()]
    picks: list[Run] = [(n, first, end - first) for n, first, end in whole if end > first]
    query = seen.query
    for batch in rows.read(picks, _SIGHT):
        at_us = batch.column("failed_at").cast(pa.int64()).to_pylist()
        columns = [batch.column(name).to_pylist() for name in batch.schema.names[:4]]
        places = [batch.column(name).to_pylist() for name in batch.schema.names[5:]]
        for connector, *kind, at, number, offset in zip(*columns, at_us, *places, strict=True):
            stage, code, dataset = (text or "" for text in kind)
            if connector == query.connector and _matches(query, stage, code, dataset, at or 0):
                seen.take(LetterId(number, offset), (stage, code, dataset), at or 0)
    return any(first > windows[n][0] for n, first, _ in whole)


def _matches(query: LetterQuery, stage: str, code: str, dataset: str, at_us: int) -> bool:
    return (
        query.stage in {"", stage}
        and query.code in {"", code}
        and query.dataset in {"", dataset}
        and at_us >= query.since_us
    )


def _letters(
    rows: TopicRows, wanted: Sequence[LetterId], query: LetterQuery, done: Collection[LetterId]
) -> list[LetterFound]:
    changing = bool(query.changes.every or query.changes.single)
    columns = LETTER if query.whole or changing else _WITHOUT_ROW
    picks = [(first.partition, first.offset, count) for first, count in runs(sorted(wanted))]
    found = {}
    for batch in rows.read(picks, columns):
        for fields in batch.to_pylist():
            letter = _found(fields, query, done)
            found[letter.id] = letter
    return [found[letter] for letter in wanted]


def _found(
    fields: Mapping[str, Any], query: LetterQuery, done: Collection[LetterId]
) -> LetterFound:
    letter = LetterId(fields["__partition"], fields["__offset"])
    if fields["connector"] != query.connector:
        raise _not_found(letter)
    row, at = fields.get("row") or "", fields["failed_at"]
    changes = query.changes.of(letter)
    if row and changes:
        row = changed(row, changes)
        schema, _ = unkeyed(pa.ipc.read_schema(pa.py_buffer(fields["schema"])))
        rows_of([row], schema, f"letter {letter}")
    return LetterFound(
        letter,
        fields["connector"],
        fields["task"] or "",
        fields["stage"] or "",
        Diagnostic(
            fields["code"] or "",
            fields["message"] or "",
            ErrorClass.DATA,
            fix=fields["fix"] or "",
            config_path=fields["config_path"] or "",
        ),
        fields["dataset"] or "",
        fields["partition"] or "",
        fields["epoch"] or 0,
        fields["transaction"] or 0,
        round(at.timestamp() * 1_000_000) if at else 0,
        letter in done,
        fields["schema"] is not None,
        row,
        fields.get("raw") or b"",
        dict(fields.get(HEADERS) or ()),
        fields["offset"] or "",
        fields["attempt"],
    )


def _parts(letters: Sequence[LetterFound]) -> Iterator[tuple[LetterFound, ...]]:
    part, size = list[LetterFound](), 0
    for letter in letters:
        part.append(letter)
        size += len(letter.row) + len(letter.raw)
        if size > MOST_PART:
            yield tuple(part)
            part, size = [], 0
    if part:
        yield tuple(part)


def _not_found(letter: LetterId) -> ConfigError:
    return ConfigError(
        "letters.not_found",
        f"the connector has no dead letter {letter}",
        fix="See which it has: `penstock dlq list`. It may have gone with its topic's retention.",
    )
