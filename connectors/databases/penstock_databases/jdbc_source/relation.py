"""One table or query that is read: its columns, its key, how it stands in a SELECT."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import ConfigError, SchemaError
from penstock_connector.tables.columns import Column
from penstock_connector.tables.names import TableId
from penstock_connector.tables.types import INSTANT, STAMP, field
from penstock_databases.dialect import Connection, Dialect
from penstock_databases.failing import sql_error
from penstock_databases.jdbc_source.config import JdbcSourceConfig
from penstock_databases.jdbc_source.tables import dataset_of

NO_INCREMENTING_COLUMN: Final = "jdbc.no_incrementing_column"
"""Code of tables without one column that the database numbers."""

_PLAIN: Final = re.compile(r"[\w. -]+")

MAX_NAMED: Final = 20
"""Tables that a message names."""


@dataclass(frozen=True, slots=True)
class Relation:
    """What is read, as it is now.

    Attributes:
        dialect: Its kind of database.
        source: What stands after FROM, as format text.
        columns: Its columns, in their order.
        key: Names of the primary key's columns; none of a query.
        dataset: Dataset of its rows.
        table: The table; None for a query.
        suffix: What ends statements that read rows, as format text.
        shown: For people.
    """

    dialect: Dialect
    source: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    dataset: str
    table: TableId | None
    suffix: str
    shown: str

    def find(self, name: str) -> Column:
        """Return a column by its name; its case counts only where it must.

        Raises:
            SchemaError: `jdbc.no_column`.
        """
        same = [c for c in self.columns if c.name == name]
        found = same or [c for c in self.columns if c.name.lower() == name.lower()]
        if not found:
            raise SchemaError(
                "jdbc.no_column",
                f"{self.shown} has no column {name!r}",
                fix="Correct `incrementing.column.name` or `timestamp.column.name`.",
                dataset=self.dataset,
            )
        return found[0]

    def select(self, tail: str, more: Sequence[str] = (), *, limit: int = 0) -> str:
        """Return a SELECT of all columns, and of more expressions after them."""
        listed = ", ".join([*map(self.dialect.selected, self.columns), *more])
        own_limit = self.dialect.limited(limit) if limit and not self.limits_itself else ""
        return f"SELECT {listed} FROM {self.source}{tail}{own_limit}{self.suffix}"  # noqa: S608 - names are quoted

    @property
    def limits_itself(self) -> bool:
        """The user's suffix says how many rows a statement gives."""
        return self.suffix.lstrip().lower().startswith(("limit", "fetch", "offset"))

    def rows(
        self,
        connection: Connection,
        sql: str,
        values: Sequence[Any],
        more: Sequence[Column] = (),
    ) -> Iterator[pa.RecordBatch]:
        """Stream the rows of a statement made by `select`."""
        return self.dialect.read(connection, sql, values, (*self.columns, *more))

    def read(
        self,
        connection: Connection,
        sql: str,
        values: Sequence[Any],
        more: Sequence[Column] = (),
    ) -> pa.RecordBatch:
        """Return all rows of a statement made by `select`: few enough, it has a limit."""
        batches = list(self.rows(connection, sql, values, more))
        if len(batches) == 1:
            return batches[0]
        schema = pa.schema([column.field for column in (*self.columns, *more)])
        if not batches:
            return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
        columns = [
            pa.concat_arrays([batch.column(place) for batch in batches])
            for place in range(len(schema))
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def look_up(config: JdbcSourceConfig, connection: Connection, table: TableId | None) -> Relation:
    """Return a table, or the query, as it is now.

    Raises:
        SchemaError: `sql.no_table`.
    """
    dialect, suffix = config.dialect, config.query_suffix.strip().replace("%", "%%")
    suffix = f" {suffix}" if suffix else ""
    dataset = dataset_of(config, table)
    if table is None:
        query = config.query.strip().rstrip(";")
        columns = dialect.described(connection, query)
        source = "(\n" + query.replace("%", "%%") + "\n) q"
        return Relation(dialect, source, columns, (), dataset, None, suffix, "the query")
    shape = dialect.shape(connection, table)
    if shape is None:
        raise sql_error("no_table", table, "there is no such table")
    source = table.sql(dialect.naming)
    return Relation(dialect, source, shape.columns, shape.key, dataset, table, suffix, str(table))


def ordering(relation: Relation, names: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns of a key by which rows can be ordered; none when one of them cannot."""
    columns = tuple(relation.find(name) for name in names)
    return columns if all(map(relation.dialect.ordered, columns)) else ()


def incrementing_column(config: JdbcSourceConfig, relation: Relation) -> Column:
    """Return the growing column.

    Raises:
        ConfigError: `jdbc.no_incrementing_column`, `jdbc.nullable_column`.
    """
    if config.incrementing_column_name:
        column = relation.find(config.incrementing_column_name)
    else:
        numbered = [column for column in relation.columns if column.auto]
        if len(numbered) != 1:
            raise no_incrementing_column([relation.shown])
        column = numbered[0]
    if config.validate_non_null and relation.table and column.nullable:
        raise _nullable(relation, column.name, "incrementing.column.name")
    if not relation.dialect.ordered(column):
        raise ConfigError(
            "jdbc.unordered_column",
            f"{relation.shown} cannot be read in the order of {column.name!r} ({column.native})",
            fix="Choose a column of numbers or texts.",
            config_path="incrementing.column.name",
        )
    return column


def no_incrementing_column(tables: Sequence[str]) -> ConfigError:
    """Return the error for tables without one column that the database numbers."""
    shown, more = tables[:MAX_NAMED], len(tables) - MAX_NAMED
    rest = f" and {more} more" if more > 0 else ""
    modes = ", ".join(f"{_pattern(table)}=bulk" for table in shown)
    return ConfigError(
        NO_INCREMENTING_COLUMN,
        f"{', '.join(shown)}{rest}: there is no column, or no single one, that the database "
        "numbers",
        fix=f"Read them in another mode: `table.modes: {modes}`; `bulk` reads all rows each time: "
        "give the sink keys (`insert.mode: upsert`), or copy once (`until.caught.up`). Or name the "
        "column by `incrementing.column.name`, or leave them out by `table.exclude.list`.",
        config_path="incrementing.column.name",
    )


def _pattern(table: str) -> str:
    """Return the pattern of a table's name, in a list that has commas."""
    if _PLAIN.fullmatch(table):
        return table  # its dots mean any character, so themselves
    return re.escape(table).replace(",", r"\x2c")


def timestamp_columns(config: JdbcSourceConfig, relation: Relation) -> tuple[Column, ...]:
    """Return the columns of the time.

    Raises:
        ConfigError: `jdbc.nullable_column`, `jdbc.bad_timestamp`.
    """
    columns = tuple(relation.find(name) for name in config.timestamp_column_name)
    for column in columns:
        if column.field.type not in {STAMP, INSTANT, pa.int64(), pa.string()} or (
            column.field.type not in {STAMP, INSTANT} and relation.dialect.name != "sqlite"
        ):
            raise ConfigError(
                "jdbc.bad_timestamp",
                f"{column.name!r} of {relation.shown} is no time but {column.native}",
                fix="Name columns with a date and a time of day.",
                config_path="timestamp.column.name",
            )
    if config.validate_non_null and relation.table and all(column.nullable for column in columns):
        raise _nullable(relation, columns[0].name, "timestamp.column.name")
    return columns


def _nullable(relation: Relation, column: str, path: str) -> ConfigError:
    return ConfigError(
        "jdbc.nullable_column",
        f"column {column!r} of {relation.shown} can be null, and such rows would never be read",
        fix="Make it NOT NULL, or set `validate.non.null=false` to leave such rows out.",
        config_path=path,
    )


# ── values as the user wants them ────────────────────────────────────────────────────────────────


def mapped(config: JdbcSourceConfig, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with numbers by `numeric.mapping`, and times by `db.timezone`."""
    arrays, fields = [], []
    for array, of in zip(rows.columns, rows.schema, strict=True):
        kind = _number(of.type, config) or of.type
        if config.db_timezone and of.type == STAMP:
            array = pc.assume_timezone(  # noqa: PLW2901 - the same column, as wanted
                array, config.db_timezone, ambiguous="earliest", nonexistent="latest"
            ).cast(INSTANT)
        elif kind != of.type:
            array = array.cast(kind)  # noqa: PLW2901 - as above
        arrays.append(array)
        fields.append(of if array.type == of.type else field(of.name, array.type))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def row_schema(config: JdbcSourceConfig, columns: Sequence[Column]) -> pa.Schema:
    """Return the schema of rows of these columns, as `mapped` makes them."""
    schema = pa.schema([column.field for column in columns])
    none = [pa.array([], of.type) for of in schema]
    return mapped(config, pa.RecordBatch.from_arrays(none, schema=schema)).schema


def _number(kind: pa.DataType, config: JdbcSourceConfig) -> pa.DataType | None:
    """Return the type of a decimal by Kafka Connect's rules; None: it stays."""
    mapping = config.numeric_mapping
    if config.numeric_precision_mapping and mapping == "none":
        mapping = "precision_only"
    if mapping == "none" or not pa.types.is_decimal(kind):
        return None
    if kind.scale == 0 and kind.precision < 19:
        sizes = ((3, pa.int8()), (5, pa.int16()), (10, pa.int32()), (19, pa.int64()))
        return next(whole for most, whole in sizes if kind.precision < most)
    if kind.scale and (
        mapping == "best_fit_eager_double" or (mapping == "best_fit" and kind.precision < 19)
    ):
        return pa.float64()
    return None


def renamed(column: Column, name: str, kind: pa.DataType) -> Column:
    """Return a column that is read beside a row."""
    return replace(column, name=name, field=field(name, kind))
