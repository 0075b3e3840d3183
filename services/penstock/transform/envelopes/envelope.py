"""The columns of unwrapped rows, and the fields that are added to them from an envelope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from penstock.model.columns import OP, TS_US, Op
from penstock.model.errors import ConfigError
from penstock.transform.change import OutputColumn
from penstock.transform.row import Row
from penstock.transform.row_parts import struct_fields
from penstock.transform.sql import literals


def unwrap_fields(
    before: OutputColumn | None, after: OutputColumn | None, deleted: str
) -> tuple[OutputColumn, ...]:
    """Return the fields of a row: those after the change, and for a delete those before it, so that
    sinks find its key. `deleted` is an SQL condition.
    """
    old = {field.name: field for field in (struct_fields(before) if before else ())}
    new = {field.name: field for field in (struct_fields(after) if after else ())}
    return tuple(
        OutputColumn(
            name,
            f"CASE WHEN {deleted} THEN {_field_sql(old, name)} ELSE {_field_sql(new, name)} END",
            (new.get(name) or old[name]).type,
            certain=True,
        )
        for name in dict.fromkeys((*new, *old))
    )


def _field_sql(fields: Mapping[str, OutputColumn], name: str) -> str:
    return fields[name].sql if name in fields else "NULL"


def operation_column(text: str, codes: Mapping[str, Op]) -> OutputColumn:
    """Return the column `__op` from the codes of an envelope; `text` is the SQL of the code."""
    cases = " ".join(f"WHEN {literals.literal(code)} THEN {op:d}" for code, op in codes.items())
    value = f"CAST(CASE {text} {cases} ELSE {Op.UNSPECIFIED:d} END AS TINYINT)"
    return OutputColumn(OP, value, pa.int8(), certain=True)


_TOP_LEVEL: Final = ("op", "ts_ms", "ts_us", "ts_ns")
_TRANSACTION: Final = ("id", "total_order", "data_collection_order")


@dataclass(frozen=True, slots=True)
class AddedField:
    """A field `struct.field` of the envelope, and its name in the row."""

    struct: str
    field: str
    name: str

    @staticmethod
    def parse(text: str, prefix: str, path: str) -> AddedField:
        """Parse `field`, `struct.field` or `struct.field:name`.

        Raises:
            ConfigError: the text has none of these forms.
        """
        place, colon, name = text.partition(":")
        struct, dot, field = place.partition(".")
        if not struct or (dot and not field) or (colon and not name) or "." in field:
            raise ConfigError(
                "config.wrong_type",
                f"`{text}` is not a field of an envelope",
                fix="Write `field`, `struct.field` or `struct.field:name`.",
                config_path=path,
            )
        if dot:
            return AddedField(struct, field, prefix + (name or f"{struct}_{field}"))
        return AddedField(_find_struct(struct), struct, prefix + (name or struct))

    def find_in(self, row: Mapping[str, OutputColumn]) -> OutputColumn | None:
        """Return the field; None when the rows do not have it, and nothing is added then."""
        level = row
        if self.struct:
            parent = row.get(self.struct)
            inner = () if parent is None else struct_fields(parent)
            level = {field.name: field for field in inner}
        found = level.get(self.field) or row.get(self.field)
        return None if found is None else replace(found, name=self.name, source=None)


def _find_struct(field: str) -> str:
    if field in _TOP_LEVEL:
        return ""
    return "transaction" if field in _TRANSACTION else "source"


_CODES: Final = {
    Op.CREATE: "c",
    Op.UPDATE: "u",
    Op.DELETE: "d",
    Op.SNAPSHOT: "r",
    Op.UPSERT: "u",
    Op.PATCH: "u",
    Op.TRUNCATE: "t",
}
"""Debezium's codes of operations."""


def list_change_fields(dataset: str, row: Row) -> Mapping[str, OutputColumn]:
    """Return those fields of an envelope that can be derived from the columns of rows without one:
    operation, table and time of the change.
    """
    op, time = literals.name(OP), literals.name(TS_US)
    cases = " ".join(
        f"WHEN {number:d} THEN {literals.literal(code)}" for number, code in _CODES.items()
    )
    table = literals.literal(dataset.rpartition(".")[2])
    found = {
        "op": OutputColumn("", f"CASE {op} {cases} END", pa.string(), certain=True),
        "source.table": OutputColumn("", table, pa.string(), certain=True),
    }
    if row.get(TS_US) is not None:
        # nanoseconds may not fit into int64: null then
        times = {"ms": f"{time} div 1000", "us": time, "ns": f"try_multiply({time}, 1000L)"}
        for unit, text in times.items():
            output = OutputColumn("", text, pa.int64(), certain=True)
            found |= {f"ts_{unit}": output, f"source.ts_{unit}": output}
    return found
