"""The source reader of a replay: the dead letters of a topic that were not replayed yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from penstock.model.connector import Partition
from penstock.model.dead_letter import DEAD_LETTER_SCHEMA, split_key_columns
from penstock.model.dead_letter_queue import (
    REPLAYED,
    DeadLetterId,
    RowEdits,
    dead_letter_id,
    group_ranges,
)
from penstock.model.errors import ConfigError
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

MAX_UNRELEASED: Final = 2_000
"""Dead letters that are announced and not released: their positions must fit into one ticket."""

MAX_PER_CHECKPOINT: Final = 500
"""Dead letters between two checkpoints: their offsets go into one commit."""

ASSUMED_ROW_BYTES: Final = 1024
"""Assumed size of a row when work is divided: it has not been read yet."""

_SCHEMA_COLUMNS: Final = pa.schema(
    [DEAD_LETTER_SCHEMA.field("dataset"), DEAD_LETTER_SCHEMA.field("schema")]
)


class ReplayReader:
    """Reads the dead letters that were not replayed yet, then ends. Belongs to one run of a
    task.
    """

    confirms = False
    """A topic needs no acknowledgements."""

    def __init__(self, rows: TopicRows, partitions: Sequence[Partition], edits: RowEdits) -> None:
        """`partitions` are dead letters; those with an offset were replayed before."""
        self._rows, self._edits = rows, edits
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

    async def __aiter__(self) -> AsyncIterator[ReadEvent]:
        """Yield the dead letters, and the end."""
        for schema in self._schemas.values():
            yield SchemaVersion(schema)
        letters, seq = list(self._ids), 0
        while seq < len(letters):
            self._event.clear()
            if len(self._unreleased) >= MAX_UNRELEASED:
                await self._event.wait()
                continue
            some = letters[seq : seq + MAX_PER_CHECKPOINT]
            for event in self._announce(some, seq):
                yield event
            seq += len(some)
            yield Progress(rows_left=len(letters) - seq)
        yield EndOfStream(self._checkpoint)

    def ticket(self, seqs: Sequence[int], schema_id: int) -> dict[str, Any]:
        """Return the files that hold these dead letters now."""
        letters = [self._unreleased[seq] for seq in seqs]
        rows = self._rows.ticket(_ranges(letters), source_reader.DEAD_LETTER_COLUMNS)
        return source_reader.replay_spec(rows, letters, self._by_id[schema_id].arrow, self._edits)

    async def committed(self, checkpoint_id: int) -> None:
        """Do nothing: dead letters stay in their topic."""

    async def release(self, seq: int) -> None:
        """Release batches up to `seq`. Cumulative."""
        for gone in [one for one in self._unreleased if one <= seq]:
            del self._unreleased[gone]
        self._event.set()

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _load_schemas(self) -> None:
        for batch in self._rows.read(_ranges(self._ids), _SCHEMA_COLUMNS):
            for fields in batch.to_pylist():
                letter = DeadLetterId(fields["__partition"], fields["__offset"])
                if fields["schema"] is None:
                    raise _no_row(letter)
                self._schema_of[letter] = self._schema(fields["dataset"] or "", fields["schema"])

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
            yield BatchReady(seq, schema_id, self._ids[letter], 1, ASSUMED_ROW_BYTES)
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
        f"dead letter {letter} has no row: the source could not read it",
        fix="Correct the row at the source, and leave the dead letter out of the replay. "
        "`penstock dlq show` has its bytes.",
        config_path="replay.letters",
    )
