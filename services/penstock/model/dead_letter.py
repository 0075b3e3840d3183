"""A dead letter: a row that could not be read, changed or written, and all that is known of it.

Letters have columns of their own, the same for all rows, so that one place takes those of any
schema. `row` is the row as the source gave it, in JSON lines of the protocol (`proto/README.md`),
and `schema` what it takes to read that text back without loss (an Arrow IPC schema); a row that
could not even be read has its original bytes in `raw` instead.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

import pyarrow as pa

from penstock.model.columns import HEADERS
from penstock.model.errors import Diagnostic


class Stage(StrEnum):
    """Where a row failed."""

    READ = "read"
    TRANSFORM = "transform"
    WRITE = "write"


KAFKA_STAGE: Final[Mapping[Stage, str]] = {
    Stage.READ: "TASK_POLL",
    Stage.TRANSFORM: "TRANSFORMATION",
    Stage.WRITE: "TASK_PUT",
}
"""What Kafka Connect calls the stages (KIP-298)."""

LETTER: Final = pa.schema(
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
"""The columns of letters. A place that has them already is only ever given more, at the end."""

Spot: TypeAlias = tuple[str, int | str | None]
"""Where rows of a slot come from: a partition, and an offset. A number is that of the topic's row
which has the number 0 in the slot: the others are counted from there. A text is of all rows alike;
None: not known.
"""


@dataclass(frozen=True, slots=True)
class Failed:
    """Why a row failed, and where."""

    stage: Stage
    reason: Diagnostic


_KEY: Final = b"penstock.key"


def keyed(schema: pa.Schema, key_columns: Sequence[str]) -> pa.Schema:
    """Return the schema of a letter's row: it also tells which columns are its key."""
    return schema.with_metadata({_KEY: json.dumps(list(key_columns))} if key_columns else None)


def unkeyed(schema: pa.Schema) -> tuple[pa.Schema, tuple[str, ...]]:
    """Return the schema of a letter's row as it was, and its key columns."""
    text = (schema.metadata or {}).get(_KEY, b"[]")
    return schema.remove_metadata(), tuple(json.loads(text))


def stamp() -> int:
    """Return the wall clock in microseconds, for people: it decides nothing."""
    return time.time_ns() // 1000
