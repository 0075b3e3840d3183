"""What became of the rows of a batch, checked: each input row is in exactly one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock_connector._errors import ConnectorError
from penstock_connector._rows import plain_rows
from penstock_connector._transform import Changed, Transformed


@dataclass(frozen=True, slots=True)
class Outcome:
    """Rows that came out; their input rows (empty: one for one), and those that did not."""

    rows: pa.RecordBatch
    input_rows: Sequence[int] = ()
    filtered: Sequence[int] = ()
    failed: Sequence[tuple[int, ConnectorError]] = ()


def outcome_of(changed: Changed, given: pa.RecordBatch, schema: pa.Schema | None) -> Outcome:
    """Return what an author's method returned, checked against the rows that it was given.

    Raises:
        ConnectorError: `transform.rows`, `transform.schema`: a defect of the author's.
    """
    made = changed if isinstance(changed, Transformed) else Transformed(changed)
    if not isinstance(made.rows, pa.RecordBatch):
        raise ConnectorError("transform.rows", f"a {type(made.rows).__name__} is no RecordBatch")
    rows = plain_rows(made.rows)
    if schema is not None and not rows.schema.equals(schema):
        raise ConnectorError(
            "transform.schema",
            f"the rows that came out have other columns than `schema` said: {_names(made.rows)}",
            fix="Return from `schema` what `apply` makes.",
        )
    gone = {*made.filtered, *(row for row, _ in made.failed)}
    kept = made.input_rows
    if kept is None:
        kept = [row for row in range(given.num_rows) if row not in gone]
    _check(made, kept, gone, given.num_rows)
    one_for_one = not gone and made.input_rows is None
    input_rows = () if one_for_one else tuple(kept)
    return Outcome(rows, input_rows, tuple(made.filtered), tuple(made.failed))


def _check(made: Transformed, kept: Sequence[int], gone: set[int], given: int) -> None:
    if len(kept) != made.rows.num_rows:
        raise ConnectorError(
            "transform.rows",
            f"{made.rows.num_rows} rows came of {given}, and it is not said of which",
            fix="Return `Transformed` with `filtered`, `failed` or `input_rows`.",
        )
    if {*kept, *gone} != set(range(given)) or gone & {*kept}:
        raise ConnectorError(
            "transform.rows",
            "a row is in none of output, filtered and failed, or in two of them",
            fix="Name every input row in exactly one of them.",
        )


def _names(rows: pa.RecordBatch) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in rows.schema)[:500]
