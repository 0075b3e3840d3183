"""The record of a dead letter: a row that could not be read, transformed or written, and why.

All dead letters have the same columns, so that one dead-letter queue takes rows of any schema.
`row` is the row as the source sent it, as a JSON line of the protocol (`proto/README.md`);
`schema` is the Arrow IPC schema that reads this text back without loss. A row that could not be
read has its original bytes in `raw` instead, which its source can parse once they were corrected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

import pyarrow as pa

from penstock.model.columns import HEADERS
from penstock.model.errors import Diagnostic


class Stage(StrEnum):
    """The stage of processing in which a row failed."""

    READ = "read"
    TRANSFORM = "transform"
    WRITE = "write"


KAFKA_STAGES: Final[Mapping[Stage, str]] = {
    Stage.READ: "TASK_POLL",
    Stage.TRANSFORM: "TRANSFORMATION",
    Stage.WRITE: "TASK_PUT",
}
"""Kafka Connect's names of the stages (KIP-298)."""

_CONVERTER_STAGES: Final = frozenset({"KEY_CONVERTER", "VALUE_CONVERTER", "HEADER_CONVERTER"})
"""Stages of reading that the reason begins with, where a message could not be converted."""

DEAD_LETTER_SCHEMA: Final = pa.schema(
    [
        ("connector", pa.string()),
        ("task", pa.string()),
        ("stage", pa.string()),
        ("code", pa.string()),
        ("message", pa.string()),
        ("fix", pa.string()),
        ("config_path", pa.string()),
        ("dataset", pa.string()),
        ("partition", pa.string()),
        ("epoch", pa.int64()),
        ("transaction", pa.int64()),
        ("failed_at", pa.timestamp("us", tz="UTC")),
        ("row", pa.string()),
        ("schema", pa.binary()),
        ("raw", pa.binary()),
        (HEADERS, pa.map_(pa.string(), pa.binary())),
        ("offset", pa.string()),
        ("attempt", pa.int64()),
    ]
)
"""The columns of dead letters. Dead-letter queues have them stored: add new ones only at the end.
"""

RowOrigin: TypeAlias = tuple[str, int | str | None]
"""Where the rows of a slot come from: a partition and an offset. An integer is the topic offset of
the slot's row 0; the offsets of the other rows follow without gaps. A text is the offset of all
rows. None: unknown.
"""


@dataclass(frozen=True, slots=True)
class RowFailure:
    """The stage in which a row failed, and the reason."""

    stage: Stage
    reason: Diagnostic


def kafka_stage(failure: RowFailure) -> str:
    """Return Kafka Connect's name of the stage in which a row failed."""
    named = failure.reason.message.partition(":")[0]
    return named if named in _CONVERTER_STAGES else KAFKA_STAGES[failure.stage]


_KEY: Final = b"penstock.key"


def with_key_columns(schema: pa.Schema, key_columns: Sequence[str]) -> pa.Schema:
    """Return the schema of a dead letter's row with the names of its key columns as metadata."""
    return schema.with_metadata({_KEY: json.dumps(list(key_columns))} if key_columns else None)


def split_key_columns(schema: pa.Schema) -> tuple[pa.Schema, tuple[str, ...]]:
    """Return the schema without the metadata of `with_key_columns`, and the key columns."""
    text = (schema.metadata or {}).get(_KEY, b"[]")
    return schema.remove_metadata(), tuple(json.loads(text))
