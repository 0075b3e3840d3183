"""What the rows of a transaction come to where a table keeps the last row of each key. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_builtin.rowcolumns import OP
from penstock_connector import ConfigError, Op, SchemaError
from penstock_connector.envelopes import UNWRAP, is_envelope

GONE: Final = "__penstock_gone"
"""Whether the row of a key is to be deleted."""

_HAS: Final = "__penstock_has_"
_ROW: Final = "__penstock_row"
_KEY: Final = "__key"


@dataclass(frozen=True, slots=True)
class Merge:
    """Rows to be merged, at most one of each key.

    Attributes:
        rows: The rows, `GONE`, and for each column of `maybe` whether a row has it.
        maybe: Columns that some of the rows lack, and what says which.
        empties: All other rows of the table go: it was truncated.
    """

    rows: pa.Table
    maybe: dict[str, str]
    empties: bool

    @property
    def columns(self) -> list[str]:
        """The table's columns among those of the rows."""
        beside = {GONE, OP, *self.maybe.values()}
        return [name for name in self.rows.column_names if name not in beside]


def merge_of(files: Sequence[pa.Table], keys: Sequence[str]) -> Merge:
    """Return what rows come to, given in their order. Of the rows of a key the last one counts."""
    names = list(dict.fromkeys(name for rows in files for name in rows.column_names))
    lacked = [name for name in names if any(name not in rows.column_names for rows in files)]
    maybe = {name: f"{_HAS}{number}" for number, name in enumerate(lacked) if name != OP}
    rows = pa.concat_tables(
        [_marked(rows, maybe) for rows in files], promote_options="default"
    ).combine_chunks()
    ops = rows[OP] if OP in rows.column_names else pa.nulls(rows.num_rows, pa.int8())
    truncated = pc.indices_nonzero(pc.equal(ops, int(Op.TRUNCATE)))
    if len(truncated):
        start = truncated[-1].as_py() + 1
        rows, ops = rows.slice(start), ops.slice(start)
    rows = rows.append_column(GONE, pc.fill_null(pc.equal(ops, int(Op.DELETE)), False))
    return Merge(rows.take(_last(rows, keys)), maybe, bool(len(truncated)))


def _marked(rows: pa.Table, maybe: dict[str, str]) -> pa.Table:
    for name, mark in maybe.items():
        has = pa.array([name in rows.column_names]).take(pa.array([0] * rows.num_rows, pa.int8()))
        rows = rows.append_column(mark, has)
    return rows


def _last(rows: pa.Table, keys: Sequence[str]) -> pa.Array:
    numbered = rows.select(keys).append_column(_ROW, pa.array(range(rows.num_rows), pa.int64()))
    last = numbered.group_by(list(keys), use_threads=False).aggregate([(_ROW, "max")])
    return last[f"{_ROW}_max"].combine_chunks().sort()


def key_of(wanted: Sequence[str], schema: pa.Schema, key_columns: Sequence[str]) -> list[str]:
    """Return the columns that tell rows apart: those that are named, else those of the rows.

    Raises:
        ConfigError: `delta.no_key`.
        SchemaError: `delta.key_column`, `delta.envelope`.
    """
    if is_envelope(schema):
        raise SchemaError(
            "delta.envelope",
            "`write.mode=upsert`, and rows are Debezium's envelopes, whose rows are in `after`",
            fix=UNWRAP,
        )
    names = list(wanted or key_columns)
    if not names and _KEY in schema.names and pa.types.is_struct(schema.field(_KEY).type):
        names = [part.name for part in schema.field(_KEY).type]
    if not names:
        raise ConfigError(
            "delta.no_key",
            "`write.mode=upsert`, and the rows have no key",
            fix="Name the columns of the key in `pk.fields`.",
            config_path="pk.fields",
        )
    for name in names:
        if name not in schema.names or pa.types.is_nested(schema.field(name).type):
            raise SchemaError(
                "delta.key_column",
                f"the key has a column {name!r}, and the rows have no such column of a plain type; "
                f"they have: {', '.join(n for n in schema.names if not n.startswith('__'))[:500]}",
                fix="Name other columns in `pk.fields`.",
                config_path="pk.fields",
            )
    return names
