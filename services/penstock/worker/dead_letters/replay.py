"""The source reader of a replay: the dead letters of a topic that were not replayed yet.

Dead letters with a row are read by the executors. The bytes of a row that the source could not read
are parsed here, by that source, some at a time; their rows travel in the tickets.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from penstock.model.connector import Partition
from penstock.model.dead_letter import (
    DEAD_LETTER_SCHEMA,
    Stage,
    split_key_columns,
    with_key_columns,
)
from penstock.model.dead_letter_queue import (
    REPLAYED,
    DeadLetterId,
    RowEdits,
    dead_letter_id,
    group_ranges,
)
from penstock.model.errors import (
    ConfigError,
    Diagnostic,
    InternalError,
    PenstockError,
    error_from_diagnostic,
)
from penstock.model.stream import (
    BatchReady,
    Checkpoint,
    EndOfStream,
    Progress,
    ReadEvent,
    SchemaVersion,
    StreamSchema,
)
from penstock.spark.connector_io import source_reader
from penstock.topic.embedded.row_ranges import OffsetRange, TopicRows
from penstock.worker.dead_letters.raw_rows import MAX_BYTES, RawLetter, RawRowParser

MAX_UNRELEASED: Final = 2_000
"""Dead letters that are announced and not released: their positions must fit into one ticket."""

MAX_PER_CHECKPOINT: Final = 500
"""Dead letters between two checkpoints: their offsets go into one commit."""

ASSUMED_ROW_BYTES: Final = 1024
"""Assumed size of a row when work is divided: it has not been read yet."""

PARSED_BYTE_WEIGHT: Final = 32
"""Weight of a byte of a parsed row, compared with other rows, because it passes through the
driver. A micro-batch of such rows has about 2 MiB."""

_SCHEMA_COLUMNS: Final = pa.schema(
    [DEAD_LETTER_SCHEMA.field(name) for name in ("stage", "dataset", "schema")]
)
_RAW_COLUMNS: Final = pa.schema(
    [DEAD_LETTER_SCHEMA.field(name) for name in ("dataset", "partition", "raw")]
)


class ReplayReader:
    """Reads the dead letters that were not replayed yet, then ends. Belongs to one run of a
    task.
    """

    confirms = False
    """A topic needs no acknowledgements."""

    def __init__(
        self,
        rows: TopicRows,
        partitions: Sequence[Partition],
        edits: RowEdits,
        parser: RawRowParser | None = None,
    ) -> None:
        """`partitions` are dead letters; those with an offset were replayed before. `parser` parses
        rows that the source could not read; None: they are refused.
        """
        self._rows, self._edits, self._parser = rows, edits, parser
        self._raw: set[DeadLetterId] = set()
        self._parsed: dict[DeadLetterId, str] = {}
        waiting = {dead_letter_id(one.key): one.id for one in partitions if one.offset is None}
        self._ids = dict(sorted(waiting.items()))
        self._schemas: dict[tuple[str, bytes], StreamSchema] = {}
        self._by_id: dict[int, StreamSchema] = {}
        self._unreleased: dict[int, DeadLetterId] = {}
        self._schema_of: dict[DeadLetterId, StreamSchema] = {}
        self._event = asyncio.Event()
        self._checkpoint = 0

    async def open(self) -> None:
        """Read the schemas of the dead letters.

        Raises:
            ConfigError: `letters.no_row`, `topic.no_row`.
        """
        await self._rows.run(self._rows.offset_ranges)
        await self._rows.run(self._load_schemas)
        if self._raw and self._parser is None:
            raise _no_row(min(self._raw))

    async def __aiter__(self) -> AsyncIterator[ReadEvent]:
        """Yield the dead letters, and the end.

        Raises:
            PenstockError: the bytes of a dead letter are not a row. Those before it go on.
        """
        for schema in self._schemas.values():
            yield SchemaVersion(schema)
        letters, seq = list(self._ids), 0
        while seq < len(letters):
            self._event.clear()
            if len(self._unreleased) >= MAX_UNRELEASED or self._parsed_bytes() > MAX_BYTES:
                await self._event.wait()
                continue
            some = letters[seq : seq + MAX_PER_CHECKPOINT]
            raw = await self._rows.run(self._load_raw, [one for one in some if one in self._raw])
            if raw and raw[-1].id != max(self._raw.intersection(some)):
                some = [one for one in some if one <= raw[-1].id]  # the others had too many bytes
            known = len(self._schemas)
            await self._parse(raw)
            for schema in list(self._schemas.values())[known:]:
                yield SchemaVersion(schema)
            for event in self._announce(some, seq):
                yield event
            seq += len(some)
            yield Progress(rows_left=len(letters) - seq)
        yield EndOfStream(self._checkpoint)

    def ticket(self, seqs: Sequence[int], schema_id: int) -> dict[str, Any]:
        """Return the files that hold these dead letters now."""
        letters = [self._unreleased[seq] for seq in seqs]
        rows = self._rows.ticket(_ranges(letters), source_reader.DEAD_LETTER_COLUMNS)
        schema = self._by_id[schema_id].arrow
        return source_reader.replay_spec(rows, letters, schema, self._edits, self._parsed)

    async def committed(self, checkpoint_id: int) -> None:
        """Do nothing: dead letters stay in their topic."""

    async def release(self, seq: int) -> None:
        """Release batches up to `seq`. Cumulative."""
        for gone in [one for one in self._unreleased if one <= seq]:
            self._parsed.pop(self._unreleased.pop(gone), None)
        self._event.set()

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _load_schemas(self) -> None:
        for batch in self._rows.read(_ranges(self._ids), _SCHEMA_COLUMNS):
            for fields in batch.to_pylist():
                letter = DeadLetterId(fields["__partition"], fields["__offset"])
                if fields["stage"] == Stage.READ:
                    self._raw.add(letter)
                elif fields["schema"] is None:
                    raise _no_row(letter)
                else:
                    dataset, schema = fields["dataset"] or "", fields["schema"]
                    self._schema_of[letter] = self._schema(dataset, schema)

    def _load_raw(self, letters: Sequence[DeadLetterId]) -> list[RawLetter]:
        """Return dead letters with their bytes, in order: as many as may wait for their release."""
        found, size = list[RawLetter](), 0
        for batch in self._rows.read(_ranges(letters), _RAW_COLUMNS) if letters else ():
            for fields in batch.to_pylist():
                letter = DeadLetterId(fields["__partition"], fields["__offset"])
                found.append(RawLetter.of(letter, fields, self._edits))
                size += len(found[-1].row.raw)
                if size > MAX_BYTES:
                    return found
        return found

    async def _parse(self, letters: Sequence[RawLetter]) -> None:
        if self._parser is None:
            return
        for letter, parsed in (await self._parser.parse(letters)).items():
            if parsed.reason is not None or parsed.schema is None:
                raise _not_parsed(letter, parsed.reason)
            schema = with_key_columns(parsed.schema.arrow, parsed.schema.key_columns)
            encoded = schema.serialize().to_pybytes()
            self._schema_of[letter] = self._schema(parsed.schema.dataset, encoded)
            self._parsed[letter] = parsed.row

    def _parsed_bytes(self) -> int:
        return sum(map(len, self._parsed.values()))

    def _schema(self, dataset: str, schema_bytes: bytes) -> StreamSchema:
        known = self._schemas.get((dataset, schema_bytes))
        if known is None:
            schema, keys = split_key_columns(pa.ipc.read_schema(pa.py_buffer(schema_bytes)))
            known = StreamSchema(len(self._schemas) + 1, dataset, schema, keys)
            self._schemas[dataset, schema_bytes] = self._by_id[known.schema_id] = known
        return known

    def _announce(self, letters: Sequence[DeadLetterId], before: int) -> Iterator[ReadEvent]:
        for seq, letter in enumerate(letters, before + 1):
            self._unreleased[seq] = letter
            schema_id = self._schema_of[letter].schema_id
            size = PARSED_BYTE_WEIGHT * len(self._parsed.get(letter, "")) or ASSUMED_ROW_BYTES
            yield BatchReady(seq, schema_id, self._ids[letter], 1, size)
        self._checkpoint += 1
        offsets = {self._ids[letter]: REPLAYED for letter in letters}
        last = before + len(letters)
        yield Checkpoint(self._checkpoint, offsets, len(letters), last)


def _ranges(
    letters: Iterator[DeadLetterId] | Sequence[DeadLetterId] | dict[DeadLetterId, str],
) -> list[OffsetRange]:
    return [(first.partition, first.offset, count) for first, count in group_ranges(letters)]


def _no_row(letter: DeadLetterId) -> ConfigError:
    return ConfigError(
        "letters.no_row",
        f"dead letter {letter} has neither a row nor bytes that a source could parse",
        fix="Correct the row where it comes from, and leave the dead letter out of the replay.",
        config_path="replay.letters",
    )


def _not_parsed(letter: DeadLetterId, reason: Diagnostic | None) -> PenstockError:
    if reason is None:
        return InternalError("letters.no_row", f"dead letter {letter} became nothing")
    return error_from_diagnostic(replace(reason, message=f"dead letter {letter}: {reason.message}"))
