"""Reads the dead letters of a topic: counts by kind, and single dead letters."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import pyarrow as pa

from penstock.client.offset import OffsetClient
from penstock.connector_config.keys import DLQ_TOPIC, EMBEDDED
from penstock.model.columns import HEADERS
from penstock.model.connector import Connector
from penstock.model.dead_letter import DEAD_LETTER_SCHEMA, Stage, split_key_columns
from penstock.model.dead_letter_queue import (
    DeadLetter,
    DeadLetterCount,
    DeadLetterId,
    DeadLetterQuery,
    DeadLetterResult,
    dead_letter_id,
    group_ranges,
)
from penstock.model.errors import ConfigError, Diagnostic, ErrorClass
from penstock.spark.connector_io.row_edits import edit_row
from penstock.topic.embedded.row_ranges import OffsetRange, TopicRows
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.worker.config.broker_topics import NO_BROKERS, BrokerTopics
from penstock.worker.config.reach import NO_RULES, ReachRules
from penstock.worker.dead_letters.raw_rows import ParsedLetter, RawLetter, RawRowParser
from penstock_values.identity import partition_key

MAX_SCANNED: Final = 1_000_000
"""Dead letters of a partition that are counted, the newest: some seconds. For more, read the topic
with a sink.
"""

PAGE_LETTERS: Final = 100
"""Dead letters that are read together, and the most of one page of the result."""

MAX_PAGE_BYTES: Final = 1 << 20
"""Bytes of rows after which a page of the result is sent."""

_SCAN_COLUMNS: Final = pa.schema(
    [
        DEAD_LETTER_SCHEMA.field(name)
        for name in ("connector", "stage", "code", "dataset", "failed_at")
    ]
)
_COLUMNS_WITHOUT_ROW: Final = pa.schema(
    [f for f in DEAD_LETTER_SCHEMA if f.name not in {"row", "raw", HEADERS}]
)

_Kind: TypeAlias = tuple[str, str, str]

OpenParser: TypeAlias = Callable[[Connector], Awaitable[RawRowParser]]


@dataclass(slots=True)
class _Scan:
    """Counts of the dead letters of a topic by kind, and those that the query selects."""

    query: DeadLetterQuery
    done: Collection[DeadLetterId]
    counts: Counter[_Kind] = field(default_factory=Counter)
    replayed: Counter[_Kind] = field(default_factory=Counter)
    heap: list[tuple[int, int, DeadLetterId]] = field(default_factory=list)

    def add(self, letter: DeadLetterId, kind: _Kind, at_us: int) -> None:
        """Count a matching dead letter."""
        done = letter in self.done
        self.counts[kind] += 1
        self.replayed[kind] += done
        if not self.query.waiting:
            self._keep((at_us, letter.partition, letter))
        elif not done:
            self._keep((-at_us, -letter.offset, letter))

    def _keep(self, one: tuple[int, int, DeadLetterId]) -> None:
        if len(self.heap) < self.query.limit:
            heapq.heappush(self.heap, one)
        else:
            heapq.heappushpop(self.heap, one)

    def count_by_kind(self) -> tuple[DeadLetterCount, ...]:
        """Return the counts, largest first."""
        return tuple(
            DeadLetterCount(*kind, letters=count, replayed=self.replayed[kind])
            for kind, count in self.counts.most_common()
        )

    def selected(self) -> list[DeadLetterId]:
        """Return the selected dead letters: the newest first, or in their order for a replay."""
        newest = [letter for *_, letter in sorted(self.heap, reverse=True)]
        return sorted(newest) if self.query.waiting else newest


class DeadLetterReader:
    """Reads dead letters of this worker's topics. `offsets` know which were replayed."""

    def __init__(
        self,
        topics: EmbeddedTopics,
        offsets: OffsetClient,
        reach: ReachRules = NO_RULES,
        brokers: BrokerTopics = NO_BROKERS,
        open_parser: OpenParser | None = None,
    ) -> None:
        """`open_parser` returns what parses the bytes of rows of a connector."""
        self._topics, self._offsets, self._reach = topics, offsets, reach
        self._brokers, self._open_parser = brokers, open_parser

    async def read(self, query: DeadLetterQuery) -> AsyncGenerator[DeadLetterResult, None]:
        """Iterate over the pages of a result: first the counts, then dead letters.

        Raises:
            PenstockError: `letters.not_found`, `letters.at_broker`, `letters.bad_edit`,
                `topic.no_row`, `reach.…`; the source that parses rows has errors.
        """
        self._reach.for_connector(query.connector).require_topic(query.topic)
        rows, done = self._topics.rows(query.topic), await self._replayed(query)
        windows = await rows.run(rows.offset_ranges)
        if not windows and self._brokers.default != EMBEDDED:
            raise _at_broker(query, self._brokers.default)
        if query.ids:
            wanted, first = _existing(query.ids, windows), DeadLetterResult()
        else:
            scan = _Scan(query, done)
            more = await rows.run(_scan, rows, windows, scan)
            wanted, first = scan.selected(), DeadLetterResult(scan.count_by_kind(), more)
        yield first
        parser = None
        if query.parse_as is not None and self._open_parser is not None:
            parser = await self._open_parser(query.parse_as)
        for at in range(0, len(wanted), PAGE_LETTERS):
            some = wanted[at : at + PAGE_LETTERS]
            letters, raw = await rows.run(_read_letters, rows, some, query, done)
            if parser is not None:
                parsed = await parser.parse(raw)
                letters = [_with_parsed(one, parsed.get(one.id), query) for one in letters]
            for part in _pages(letters):
                yield DeadLetterResult(letters=part)

    async def _replayed(self, query: DeadLetterQuery) -> Collection[DeadLetterId]:
        if not query.replays:
            return ()
        keys = [partition_key(id_) async for id_, _ in self._offsets.list(query.replays)]
        return {dead_letter_id(key) for key in keys if key.get("topic") == query.topic}


def _existing(
    ids: Sequence[DeadLetterId], windows: Mapping[int, tuple[int, int]]
) -> list[DeadLetterId]:
    for letter in ids:
        low, end = windows.get(letter.partition, (0, 0))
        if not low <= letter.offset < end:
            raise _not_found(letter)
    return list(ids)


def _scan(rows: TopicRows, windows: Mapping[int, tuple[int, int]], scan: _Scan) -> bool:
    """Scan all dead letters, or the newest of them. Returns whether there are older ones."""
    whole = [(n, max(low, end - MAX_SCANNED), end) for n, (low, end) in windows.items()]
    picks: list[OffsetRange] = [(n, first, end - first) for n, first, end in whole if end > first]
    query = scan.query
    for batch in rows.read(picks, _SCAN_COLUMNS):
        at_us = batch.column("failed_at").cast(pa.int64()).to_pylist()
        columns = [batch.column(name).to_pylist() for name in batch.schema.names[:4]]
        places = [batch.column(name).to_pylist() for name in batch.schema.names[5:]]
        for connector, *kind, at, number, offset in zip(*columns, at_us, *places, strict=True):
            stage, code, dataset = (text or "" for text in kind)
            if connector == query.connector and _matches(query, stage, code, dataset, at or 0):
                scan.add(DeadLetterId(number, offset), (stage, code, dataset), at or 0)
    return any(first > windows[n][0] for n, first, _ in whole)


def _matches(query: DeadLetterQuery, stage: str, code: str, dataset: str, at_us: int) -> bool:
    return (
        query.stage in {"", stage}
        and query.code in {"", code}
        and query.dataset in {"", dataset}
        and at_us >= query.since_us
    )


def _read_letters(
    rows: TopicRows,
    wanted: Sequence[DeadLetterId],
    query: DeadLetterQuery,
    done: Collection[DeadLetterId],
) -> tuple[list[DeadLetter], list[RawLetter]]:
    """Return the dead letters, and those whose bytes are to be parsed."""
    changing = bool(query.edits.all_rows or query.edits.by_id)
    is_whole = query.whole or changing or query.parse_as is not None
    columns = DEAD_LETTER_SCHEMA if is_whole else _COLUMNS_WITHOUT_ROW
    picks = [
        (first.partition, first.offset, count) for first, count in group_ranges(sorted(wanted))
    ]
    found, raw = {}, list[RawLetter]()
    for batch in rows.read(picks, columns):
        for fields in batch.to_pylist():
            letter = _to_dead_letter(fields, query, done)
            found[letter.id] = letter
            if query.parse_as is not None and letter.stage == Stage.READ and not letter.replayed:
                raw.append(RawLetter.of(letter.id, fields, query.edits))
    return [found[letter] for letter in wanted], raw


def _with_parsed(
    letter: DeadLetter, parsed: ParsedLetter | None, query: DeadLetterQuery
) -> DeadLetter:
    """Return a dead letter with what its source made of its bytes."""
    if parsed is None:
        return letter
    raw, is_row = letter.raw if query.whole else b"", parsed.reason is None
    return replace(letter, has_row=is_row, row=parsed.row, raw=raw, unparsed=parsed.reason)


def _to_dead_letter(
    fields: Mapping[str, Any], query: DeadLetterQuery, done: Collection[DeadLetterId]
) -> DeadLetter:
    letter = DeadLetterId(fields["__partition"], fields["__offset"])
    if fields["connector"] != query.connector:
        raise _not_found(letter)
    row, at = fields.get("row") or "", fields["failed_at"]
    changes = query.edits.for_letter(letter)
    if row and query.edits.text_for(letter) is not None:
        raise _not_bytes(letter)
    if row and changes and letter not in done:
        schema, _ = split_key_columns(pa.ipc.read_schema(pa.py_buffer(fields["schema"])))
        row = edit_row(row, changes, schema, f"dead letter {letter}")
    return DeadLetter(
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


def _pages(letters: Sequence[DeadLetter]) -> Iterator[tuple[DeadLetter, ...]]:
    part, size = list[DeadLetter](), 0
    for letter in letters:
        part.append(letter)
        size += len(letter.row) + len(letter.raw)
        if size > MAX_PAGE_BYTES:
            yield tuple(part)
            part, size = [], 0
    if part:
        yield tuple(part)


def _not_bytes(letter: DeadLetterId) -> ConfigError:
    return ConfigError(
        "letters.bad_edit",
        f"dead letter {letter} has a row with columns, not the bytes of one, and a text was given "
        "for the whole of it",
        fix="Change its columns: `--set amount=12`.",
        config_path="replay.edits",
    )


def _at_broker(query: DeadLetterQuery, backend: str) -> ConfigError:
    return ConfigError(
        "letters.at_broker",
        f"the topic {query.topic!r} has no dead letters here; those of connectors with topics of "
        f"{backend} are messages there",
        fix="Read them with the tools of the broker, or by a connector whose `topics` names "
        f"{query.topic}.",
        config_path=DLQ_TOPIC,
    )


def _not_found(letter: DeadLetterId) -> ConfigError:
    return ConfigError(
        "letters.not_found",
        f"the connector has no dead letter {letter}",
        fix="List its dead letters with `penstock dlq list`. The retention of the topic may have "
        "removed this one.",
    )
