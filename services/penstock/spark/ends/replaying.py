"""The read end of a replay: the rows of dead letters as the source gave them, with the changes that
a person made.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from penstock.model.errors import ConfigError
from penstock.model.replay import Changes, LetterId, changed
from penstock.model.ticket import SlotTicket
from penstock.spark.ends import json_lines
from penstock.spark.schema import normal_batch, normal_schema
from penstock.topic_files import read_files

ROW: Final = pa.schema([("row", pa.string())])
"""The column of letters that is read here."""


def place(
    rows: Mapping[str, Any], letters: Sequence[LetterId], schema: pa.Schema, changes: Changes
) -> dict[str, Any]:
    """Return the ticket of this end: `rows` says where the letters are, in their order; `schema` is
    that of their rows.
    """
    single = {
        str(at): changes.of(letter) for at, letter in enumerate(letters) if letter in changes.single
    }
    whole = base64.b64encode(schema.serialize().to_pybytes()).decode()
    return {"kind": "replay", **rows, "rows": whole, "every": dict(changes.every), "single": single}


def read(slot: SlotTicket) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a slot, as Spark takes them."""
    place, first = slot.read, 0
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(place["rows"])))
    for letters in read_files(place):
        texts = letters.column(0).to_pylist()
        lines = [
            changed(text, place["single"].get(str(at), place["every"]))
            for at, text in enumerate(texts, first)
        ]
        first += len(texts)
        yield normal_batch(rows_of(lines, schema), normal_schema(schema))


def rows_of(lines: Sequence[str], schema: pa.Schema, whose: str = "a letter") -> pa.RecordBatch:
    """Return rows out of their texts; `whose` they are is told when they are none.

    Raises:
        ConfigError: `letters.bad_edit`: what was changed is no row of this schema any more.
    """
    try:
        return json_lines.read("".join(f"{line}\n" for line in lines).encode(), schema)
    except json_lines.NotRows as error:
        raise ConfigError(
            "letters.bad_edit",
            f"the changed row of {whose} does not fit its columns: {error}",
            fix="Change columns that the row can have, to values of their types: "
            + ", ".join(f"{field.name} {field.type}" for field in schema)[:500],
            config_path="replay.edits",
        ) from None
