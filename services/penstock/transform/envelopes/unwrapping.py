"""The columns of a row out of an envelope."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from penstock.model.columns import OP, Op
from penstock.transform import sql
from penstock.transform.change import Output
from penstock.transform.part import members


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
    cases = " ".join(f"WHEN {sql.literal(code)} THEN {op:d}" for code, op in codes.items())
    value = f"CAST(CASE {text} {cases} ELSE {Op.UNSPECIFIED:d} END AS TINYINT)"
    return Output(OP, value, pa.int8(), certain=True)
