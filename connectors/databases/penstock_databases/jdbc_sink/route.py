"""Rows of one schema on their way into one table: checked, sorted by what is done, encoded. Pure.

A route is used by several threads at once, and never changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import ConnectorError, DataError, Op, SchemaError
from penstock_databases.casting import cast_rows, plain
from penstock_databases.changes import effect, is_change
from penstock_databases.dialect import Shape
from penstock_databases.fitting import Limit, Problem, fit
from penstock_databases.jdbc_sink.config import JdbcSinkConfig
from penstock_databases.jdbc_sink.evolve import readable
from penstock_databases.jdbc_sink.keys import BEFORE, OP, Place, Places
from penstock_databases.writing import Layout, Text, Verb, Writer


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows that one thing is done with.

    Attributes:
        verb: What is done with them.
        layout: Where they go.
        text: The rows, as the writer encoded them.
        rows: How many they are.
    """

    verb: Verb
    layout: Layout
    text: Text
    rows: int


@dataclass(frozen=True, slots=True)
class _Way:
    """One column's way from rows into the table."""

    place: Place
    limit: Limit
    key: bool


class Route:
    """Where rows of a dataset and a schema go."""

    def __init__(
        self,
        config: JdbcSinkConfig,
        writer: Writer,
        dataset: str,
        shape: Shape,
        places: Places,
        unique: Sequence[frozenset[str]],
        *,
        direct: bool,
    ) -> None:
        self._config, self._writer, self._dataset = config, writer, dataset
        self._verb = Verb(config.verb)
        key = tuple(place.field.name for place in places.key)
        columns, ways = [], []
        for place in places.all:
            column = shape.find(place.field.name)
            if column is None or column.generated:  # made by the database from other columns
                continue
            limit = replace(writer.limit(column), strips=config.text_nul == "remove")
            _check_types(place.field, limit, f"{shape.table}: column {column.name!r}")
            columns.append(column)
            ways.append(_Way(place, limit, column.name in key))
        alone = all(other == frozenset(key) for other in unique)
        self.layout = Layout(shape.table, tuple(columns), key, alone, direct)
        keyed = tuple(column for column in columns if column.name in key)
        self._by_key = Layout(shape.table, keyed, key, alone)
        self._ways = tuple(ways)
        self._found = bool(key) and (self._verb is not Verb.INSERT or config.delete_enabled)

    def pieces(self, rows: pa.RecordBatch) -> tuple[list[tuple[int, ConnectorError]], list[Piece]]:
        """Return the rows that cannot be written and why, and what is done with the others."""
        ops = self._ops(rows)
        refused: dict[int, ConnectorError] = {}
        deleted = None if ops is None else is_change(ops, Op.DELETE)
        if ops is not None and not self._config.delete_enabled:
            unwanted = is_change(ops, Op.DELETE, Op.TRUNCATE)
            if not self._config.handle_tombstone:
                _refuse(refused, unwanted, self._unwanted)
            rows, ops, deleted = _without(rows, unwanted), None, None
            numbers = pc.indices_nonzero(pc.invert(unwanted))
        else:
            numbers = None
        values, bad = self._fitted(rows, ops, deleted, refused, numbers)
        if bad is not None:
            good = pc.invert(bad)
            rows = rows.filter(good)
            values = [array.filter(good) for array in values]
            ops = None if ops is None else ops.filter(good)
        found = list(self._done(rows, ops, values))
        return sorted(refused.items()), found

    # ── values ───────────────────────────────────────────────────────────────────────────────────

    def _ops(self, rows: pa.RecordBatch) -> pa.Array | None:
        """Return what the rows stand for; None when all of them are simply written."""
        if OP not in rows.schema.names:
            return None
        ops = rows.column(OP)
        special = is_change(ops, Op.DELETE, Op.TRUNCATE, Op.UPDATE)
        return ops if pc.any(special).as_py() else None

    def _fitted(
        self,
        rows: pa.RecordBatch,
        ops: pa.Array | None,
        deleted: pa.Array | None,
        refused: dict[int, ConnectorError],
        numbers: pa.Array | None,
    ) -> tuple[list[pa.Array], pa.Array | None]:
        """Return the columns of the table, and which rows have no place in it."""
        bad: pa.Array | None = None
        fitted = []
        for way in self._ways:
            array = self._column(way, rows, deleted)
            values, problems = fit(array, way.limit, self._config.db_timezone)
            fitted.append(values)
            if way.key and self._found and values.null_count:
                keyless = Problem(pc.is_null(values), "is null, and it is of the key")
                problems = [*problems, keyless]
            for problem in problems:
                wrong = pc.fill_null(problem.rows, False)
                if ops is not None:
                    spared = (Op.TRUNCATE,) if way.key else (Op.TRUNCATE, Op.DELETE)
                    wrong = pc.and_not(wrong, is_change(ops, *spared))
                self._tell(refused, wrong, way, problem, numbers)
                bad = wrong if bad is None else pc.or_(bad, wrong)
        return fitted, bad if bad is not None and pc.any(bad).as_py() else None

    def _column(self, way: _Way, rows: pa.RecordBatch, deleted: pa.Array | None) -> pa.Array:
        path = way.place.path
        if not path:
            return pa.repeat(pa.scalar(self._dataset, pa.string()), rows.num_rows)
        array = _at(rows, path)
        if way.key and deleted is not None and len(path) == 1:
            before = _before(rows, path[0])
            if before is not None:  # a deletion may tell its key only as that of the row before
                array = pc.if_else(deleted, pc.coalesce(array, before), array)
        return array

    # ── what is done ─────────────────────────────────────────────────────────────────────────────

    def _done(
        self, rows: pa.RecordBatch, ops: pa.Array | None, values: list[pa.Array]
    ) -> Iterator[Piece]:
        count = rows.num_rows
        keys = [v for v, way in zip(values, self._ways, strict=True) if way.key]
        origin = None
        if ops is not None and self._config.delete_enabled:
            keys, ops, origin = self._moved(rows, ops, keys)
        what = effect(ops, keys if self._found else [], merge=self._verb is not Verb.INSERT)
        if what.truncate:
            yield Piece(Verb.TRUNCATE, self._by_key, b"", 1)
        if len(what.delete):
            gone = [key.take(what.delete) for key in keys]
            text = self._writer.encode(self._by_key.columns, gone)
            yield Piece(Verb.DELETE, self._by_key, text, len(what.delete))
        written = what.write
        if written is not None and origin is not None:
            written = origin.take(written)
        left = count if written is None else len(written)
        if left:
            kept = values if written is None else [array.take(written) for array in values]
            text = self._writer.encode(self.layout.columns, kept)
            yield Piece(self._verb, self.layout, text, left)

    def _moved(
        self, rows: pa.RecordBatch, ops: pa.Array, keys: list[pa.Array]
    ) -> tuple[list[pa.Array], pa.Array, pa.Array | None]:
        """Put a deletion before each update that changed the key: the row it was is gone."""
        before = self._keys_before(rows)
        if before is None:
            return keys, ops, None
        differs = pa.array([False] * len(ops))
        for old, new in zip(before, keys, strict=True):
            differs = pc.or_(differs, pc.fill_null(pc.not_equal(old, new), False))
        differs = pc.and_(differs, is_change(ops, Op.UPDATE))
        changed = pc.indices_nonzero(differs).cast(pa.int64())
        if not len(changed):
            return keys, ops, None
        own = pa.array(range(len(ops)), pa.int64())
        places = pa.concat_arrays([pc.multiply(own, 2), pc.subtract(pc.multiply(changed, 2), 1)])
        order = pc.array_sort_indices(places)
        gone = pa.array([int(Op.DELETE)] * len(changed), ops.type)
        both = [
            pa.concat_arrays([new, old.take(changed)]).take(order)
            for old, new in zip(before, keys, strict=True)
        ]
        origin = pa.concat_arrays([own, changed]).take(order)
        return both, pa.concat_arrays([ops, gone]).take(order), origin

    def _keys_before(self, rows: pa.RecordBatch) -> list[pa.Array] | None:
        found = []
        for way in self._ways:
            if way.key:
                old = _before(rows, way.place.path[-1]) if way.place.path else None
                if old is None:
                    return None
                values, _ = fit(old, way.limit, self._config.db_timezone)
                found.append(values)
        return found or None

    # ── refusals ─────────────────────────────────────────────────────────────────────────────────

    def _tell(
        self,
        refused: dict[int, ConnectorError],
        wrong: pa.Array,
        way: _Way,
        problem: Problem,
        numbers: pa.Array | None,
    ) -> None:
        name = way.place.field.name
        error = DataError(
            "jdbc.value",
            f"{self.layout.table}: the value of {name!r} {problem.why}",
            fix=self._remedy(way, problem),
            dataset=self._dataset,
        )
        rows = pc.indices_nonzero(wrong)
        for row in (rows if numbers is None else numbers.take(rows)).to_pylist():
            refused.setdefault(row, error)

    def _remedy(self, way: _Way, problem: Problem) -> str:
        """Return what makes such rows pass."""
        field = way.place.field
        if problem.nul:
            return "Set `text.nul=remove`, or change the rows with a transform."
        if problem.narrow and not pa.types.is_temporal(field.type):
            statement = readable(self._writer.retype(self.layout.table, field))
            if statement and not statement.endswith(f" {way.limit.native}"):
                return f"Run: {statement}; or change the rows with a transform."
        return "Change the column, or the rows with a transform."

    @property
    def _unwanted(self) -> ConnectorError:
        return DataError(
            "jdbc.delete_disabled",
            f"{self.layout.table}: a deletion arrived, and `delete.enabled` is false",
            fix="Set `delete.enabled=true`, or `handle.tombstone=true` to pass deletions over.",
            dataset=self._dataset,
        )


def _refuse(refused: dict[int, ConnectorError], mask: pa.Array, error: ConnectorError) -> None:
    for row in pc.indices_nonzero(mask).to_pylist():
        refused.setdefault(row, error)


def _without(rows: pa.RecordBatch, mask: pa.Array) -> pa.RecordBatch:
    return rows.filter(pc.invert(mask))


def _at(rows: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    array = plain(rows.column(path[0]))
    for name in path[1:]:
        array = pc.struct_field(array, name)
    return array


def _before(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    """Return a field of the row before the change; None when rows do not tell."""
    if BEFORE not in rows.schema.names:
        return None
    kind = rows.schema.field(BEFORE).type
    known = pa.types.is_struct(kind) and kind.get_field_index(name) >= 0
    return pc.struct_field(rows.column(BEFORE), name) if known else None


def _check_types(field: pa.Field, limit: Limit, where: str) -> None:
    """Refuse a column that can hold no value of a field at all."""
    try:
        cast_rows(plain(pa.array([], field.type)), limit.type, limit.shape, "UTC")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, KeyError) as error:
        raise SchemaError(
            "jdbc.incompatible",
            f"{where} is {limit.native}, and rows have {field.type}",
            fix="Cast the field with a transform, or change the column.",
        ) from error
