"""The columns of a row out of an envelope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from penstock.model.columns import OP, TS_US, Op
from penstock.model.errors import ConfigError
from penstock.transform.change import Output
from penstock.transform.parts import members
from penstock.transform.row import Row
from penstock.transform.sql import quoting


def carried(before: Output | None, after: Output | None, deleted: str) -> tuple[Output, ...]:
    """Return the fields of a row: those after the change, and of a delete those before it, so that
    sinks find its key. `deleted` is a condition.
    """
    old = {field.name: field for field in (members(before) if before else ())}
    new = {field.name: field for field in (members(after) if after else ())}
    return tuple(
        Output(
            name,
            f"CASE WHEN {deleted} THEN {_sql(old, name)} ELSE {_sql(new, name)} END",
            (new.get(name) or old[name]).type,
            certain=True,
        )
        for name in dict.fromkeys((*new, *old))
    )


def _sql(fields: Mapping[str, Output], name: str) -> str:
    return fields[name].sql if name in fields else "NULL"


def operation(text: str, codes: Mapping[str, Op]) -> Output:
    """Return the column that tells what a row stands for, from the codes of an envelope."""
    cases = " ".join(f"WHEN {quoting.literal(code)} THEN {op:d}" for code, op in codes.items())
    value = f"CAST(CASE {text} {cases} ELSE {Op.UNSPECIFIED:d} END AS TINYINT)"
    return Output(OP, value, pa.int8(), certain=True)


_OWN: Final = ("op", "ts_ms", "ts_us", "ts_ns")
_TRANSACTION: Final = ("id", "total_order", "data_collection_order")


@dataclass(frozen=True, slots=True)
class Added:
    """A field `struct.field` of the envelope, and the name that it gets."""

    struct: str
    field: str
    name: str

    @staticmethod
    def parse(text: str, prefix: str, path: str) -> Added:
        """Return what `field`, `struct.field` or `struct.field:name` asks for.

        Raises:
            ConfigError: it is none of these.
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
            return Added(struct, field, prefix + (name or f"{struct}_{field}"))
        return Added(_struct_of(struct), struct, prefix + (name or struct))

    def of(self, row: Mapping[str, Output]) -> Output | None:
        """Return the field; None when the rows do not have it: Debezium then adds nothing."""
        level = row
        if self.struct:
            parent = row.get(self.struct)
            inner = () if parent is None else members(parent)
            level = {field.name: field for field in inner}
        found = level.get(self.field) or row.get(self.field)
        return None if found is None else replace(found, name=self.name, source=None)


def _struct_of(field: str) -> str:
    if field in _OWN:
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


def of_changes(dataset: str, row: Row) -> Mapping[str, Output]:
    """Return the fields of an envelope that rows tell of themselves, which have none: what the row
    stands for, the table, and when it changed.
    """
    op, time = quoting.name(OP), quoting.name(TS_US)
    cases = " ".join(
        f"WHEN {number:d} THEN {quoting.literal(code)}" for number, code in _CODES.items()
    )
    table = quoting.literal(dataset.rpartition(".")[2])
    found = {
        "op": Output("", f"CASE {op} {cases} END", pa.string(), certain=True),
        "source.table": Output("", table, pa.string(), certain=True),
    }
    if row.get(TS_US) is not None:
        # a number times a thousand may be too large for its type: such a time is none
        times = {"ms": f"{time} div 1000", "us": time, "ns": f"try_multiply({time}, 1000L)"}
        for unit, text in times.items():
            output = Output("", text, pa.int64(), certain=True)
            found |= {f"ts_{unit}": output, f"source.ts_{unit}": output}
    return found
