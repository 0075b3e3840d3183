"""Tables as datasets that a user may choose, with the columns that their rows have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from penstock_connector import ConnectorError, Dataset, RetriableError
from penstock_connector.tables.columns import Shape
from penstock_connector.tables.names import TableId
from penstock_databases.dialect import Connection, Dialect


def with_columns(
    datasets: Mapping[TableId, Dataset],
    dialect: Dialect,
    connection: Connection,
    row_fields: Callable[[Shape], Iterable[pa.Field]],
) -> Iterator[Dataset]:
    """Yield the datasets of tables with their columns: `row_fields` are those of rows. A table that
    was dropped meanwhile is left out.

    Raises:
        RetriableError: the connection is lost. Any other error is the problem of one dataset.
    """
    for table, dataset in datasets.items():
        try:
            shape = dialect.shape(connection, table)
        except RetriableError:
            raise
        except ConnectorError as error:
            yield replace(dataset, problem=error)
            continue
        if shape is not None:
            nullable = {column.name: column.nullable for column in shape.columns}
            fields = [field.with_nullable(nullable[field.name]) for field in row_fields(shape)]
            schema = pa.schema(fields)
            key = tuple(name for name in shape.key if name in schema.names)
            yield replace(dataset, schema=schema, key_columns=key)
