"""Answers whose rows are messages of a converter: the bytes of each, and the columns of all. Pure,
but for a schema registry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from penstock_connector import DataError
from penstock_connector.converter_keys import open_converter
from penstock_connector.messages import MESSAGE_SCHEMA, TS_US, Converters, MessageDecoder
from penstock_converters.json.values import format_json
from penstock_net.web.converting import PATH

MESSAGE: Final = "message"
"""The one field of a row that is not converted yet."""


def message_row(item: Any) -> dict[str, Any]:
    """Return an item of JSON as a row that is a message."""
    return {MESSAGE: format_json(item).encode()}


class MessageColumns:
    """Makes columns of messages; columns of earlier ones stay."""

    def __init__(self, name: str, keys: Mapping[str, str], dataset: str) -> None:
        """`dataset` is what a schema registry knows the messages by.

        Raises:
            ConfigError: as `open_converter`.
        """
        converter = open_converter(PATH, name, keys, is_key=False)
        # the messages have no keys, so that their converter is never asked
        self._decoder = MessageDecoder("http", dataset, Converters(converter, converter))

    def of(
        self, rows: Sequence[Mapping[str, Any]]
    ) -> tuple[pa.Table | tuple[()], list[tuple[int, DataError]]]:
        """Return the messages as columns, and those that are no values of the converter.

        Raises:
            ConnectorError: a schema registry does not answer.
            DataError: `http.schema_incompatible`: messages have no types in common.
        """
        count = len(rows)
        columns = [
            pa.nulls(count, pa.binary()),
            pa.array([row[MESSAGE] for row in rows], pa.binary()),
            pa.nulls(count, pa.int64()),
            pa.nulls(count, MESSAGE_SCHEMA.field("headers").type),
        ]
        decoded, bad = self._decoder.decode(
            pa.RecordBatch.from_arrays(columns, schema=MESSAGE_SCHEMA)
        )
        parts = [pa.Table.from_batches([one.rows]).drop_columns([TS_US]) for one in decoded]
        misfits = [(one.index, _as_data_error(one.error)) for one in bad]
        if not parts:
            return (), misfits
        try:
            return pa.concat_tables(parts, promote_options="permissive"), misfits
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise DataError(
                "http.schema_incompatible",
                f"the messages have no types in common: {str(error).splitlines()[0]}",
                fix="Read messages of one schema from an address.",
            ) from None

    def close(self) -> None:
        """Close the converter."""
        self._decoder.close()


def _as_data_error(error: Any) -> DataError:
    if isinstance(error, DataError):
        return error
    return DataError(error.code, error.message, fix=error.fix)
