"""What makes a connector a replay of another one's dead letters: its keys, read. Pure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from penstock.model.config_def import ConfigKey
from penstock.model.connector import Partition, TaskPlan
from penstock.model.dead_letter import LETTER, unkeyed
from penstock.model.errors import ConfigError, Diagnostic
from penstock.model.replay import (
    REPLAYED,
    Changes,
    LetterId,
    letter_of,
    read_changes,
    read_ids,
    read_object,
    runs,
)
from penstock.model.stream import (
    BatchReady,
    Checkpoint,
    Drained,
    Progress,
    ReadEvent,
    SchemaSeen,
    StreamSchema,
)
from penstock.spark.ends import replaying
from penstock.topic.embedded.row_slices import Run, TopicRows

REPLAY_KEYS: Final = (
    ConfigKey("replay.of", default="", doc="Connector whose dead letters are replayed."),
    ConfigKey("replay.letters", default="", doc="Letters to replay: 0/3,0/17-20."),
    ConfigKey("replay.set", "password", "", doc="Columns that change in all rows, in JSON."),
    ConfigKey("replay.edits", "password", "", doc="Columns that change, by letter, in JSON."),
)


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay: whose letters, which, and what is changed of their rows."""

    of: str
    letters: tuple[LetterId, ...] = ()
    changes: Changes = field(default_factory=Changes)

    def plan(self, topic: str) -> TaskPlan:
        """Return the one task of a replay: rows keep the order of their letters."""
        return TaskPlan("", tuple(letter.within(topic) for letter in self.letters))


def read_replay(values: Mapping[str, Any]) -> tuple[Replay | None, list[Diagnostic]]:
    """Return what the keys say, None for a connector that is no replay; and what is wrong."""
    if not values["replay.of"]:
        return None, []
    try:
        single = _edits(values["replay.edits"])
        changes = read_changes(values["replay.set"], single)
        return Replay(values["replay.of"], tuple(read_ids(values["replay.letters"])), changes), []
    except ConfigError as error:
        return Replay(values["replay.of"]), [error.diagnostic]


def replay_findings(replay: Replay | None, letters_topic: str, sink: bool) -> list[Diagnostic]:
    """Return what is wrong with a replay: its letters must be in a topic."""
    if replay is None or (letters_topic and not sink):
        return []
    return [
        ConfigError(
            "letters.no_topic",
            "a replay reads dead letters in a topic, and the connector has none for them",
            fix="Set `errors.deadletterqueue.topic.name`, and no sink of dead letters.",
            config_path="errors.deadletterqueue.topic.name",
        ).diagnostic
    ]


def _edits(text: str) -> dict[str, str]:
    return {name: json.dumps(one) for name, one in read_object(text, "`replay.edits`").items()}


HELD: Final = 2_000
"""Letters that are announced and not released: where each is must fit into one ticket."""

TOGETHER: Final = 500
"""Letters between two checkpoints: their offsets go into one commit."""

LETTER_BYTES: Final = 1024
"""What a row is taken to have, for those who divide work: nobody has read it yet."""

_ABOUT: Final = pa.schema([LETTER.field("dataset"), LETTER.field("schema")])


class LetterStream:
    """Reads letters that were not replayed yet, then ends. Owned by one run of a task."""

    confirms = False
    """Nobody waits for a commit of a topic."""

    def __init__(self, rows: TopicRows, partitions: Sequence[Partition], changes: Changes) -> None:
        """`partitions` are letters; those with an offset were replayed."""
        self._rows, self._changes = rows, changes
        waiting = {letter_of(one.key): one.id for one in partitions if one.offset is None}
        self._ids = dict(sorted(waiting.items()))
        self._schemas: dict[tuple[str, bytes], StreamSchema] = {}
        self._by_id: dict[int, StreamSchema] = {}
        self._held: dict[int, LetterId] = {}
        self._schema_of: dict[LetterId, StreamSchema] = {}
        self._event = asyncio.Event()
        self._draining = False
        self._checkpoint = 0

    async def open(self) -> None:
        """See what rows the letters have.

        Raises:
            ConfigError: `letters.no_row`, `topic.no_row`.
        """
        await self._rows.run(self._rows.windows)
        await self._rows.run(self._look)

    async def __aiter__(self) -> AsyncIterator[ReadEvent]:
        """Yield the letters, and the end."""
        for schema in self._schemas.values():
            yield SchemaSeen(schema)
        letters, seq = list(self._ids), 0
        while seq < len(letters):
            self._event.clear()
            if self._draining:
                break
            if len(self._held) >= HELD:
                await self._event.wait()
                continue
            some = letters[seq : seq + TOGETHER]
            for event in self._announced(some, seq):
                yield event
            seq += len(some)
            yield Progress(rows_left=len(letters) - seq)
        yield Drained(self._checkpoint)

    def ticket(self, seqs: Sequence[int], schema_id: int) -> dict[str, Any]:
        """Name the files that these letters are in now."""
        letters = [self._held[seq] for seq in seqs]
        rows = self._rows.ticket(_picks(letters), replaying.ROW)
        return replaying.place(rows, letters, self._by_id[schema_id].arrow, self._changes)

    async def committed(self, checkpoint_id: int) -> None:
        """Nothing to tell anyone: letters stay where they are."""

    async def release(self, seq: int) -> None:
        """Make room for others. Cumulative."""
        for gone in [one for one in self._held if one <= seq]:
            del self._held[gone]
        self._event.set()

    async def drain(self, grace: float) -> None:
        """End after what was announced."""
        del grace
        self._draining = True
        self._event.set()

    async def close(self) -> None:
        """Nothing is held. Idempotent."""

    def _look(self) -> None:
        for batch in self._rows.read(_picks(self._ids), _ABOUT):
            for fields in batch.to_pylist():
                letter = LetterId(fields["__partition"], fields["__offset"])
                if fields["schema"] is None:
                    raise _no_row(letter)
                self._schema_of[letter] = self._schema(fields["dataset"] or "", fields["schema"])

    def _schema(self, dataset: str, told: bytes) -> StreamSchema:
        known = self._schemas.get((dataset, told))
        if known is None:
            schema, keys = unkeyed(pa.ipc.read_schema(pa.py_buffer(told)))
            known = StreamSchema(len(self._schemas) + 1, dataset, schema, keys)
            self._schemas[dataset, told] = self._by_id[known.schema_id] = known
        return known

    def _announced(self, letters: Sequence[LetterId], before: int) -> Iterator[ReadEvent]:
        for seq, letter in enumerate(letters, before + 1):
            self._held[seq] = letter
            schema_id = self._schema_of[letter].schema_id
            yield BatchReady(seq, schema_id, self._ids[letter], 1, LETTER_BYTES)
        self._checkpoint += 1
        offsets = {self._ids[letter]: REPLAYED for letter in letters}
        last = before + len(letters)
        yield Checkpoint(self._checkpoint, offsets, len(letters), last)


def _picks(letters: Iterator[LetterId] | Sequence[LetterId] | dict[LetterId, str]) -> list[Run]:
    return [(first.partition, first.offset, count) for first, count in runs(letters)]


def _no_row(letter: LetterId) -> ConfigError:
    return ConfigError(
        "letters.no_row",
        f"the row of letter {letter} is not known: it could not be read",
        fix="Correct it at the source, whose bytes `penstock dlq show` has; leave it out here.",
        config_path="replay.letters",
    )
