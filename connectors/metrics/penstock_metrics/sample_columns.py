"""Columns of rows as what a sample has: texts, numbers, label pairs. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import DataError, SchemaError
from penstock_metrics.exposition import parse_numbers


def values_of(
    rows: pa.RecordBatch, name: str
) -> Iterator[tuple[str, npt.NDArray[np.float64], npt.NDArray[np.bool_], dict[int, DataError]]]:
    """Return for each column of values its name (empty for the only one), values, rows that have
    one, and rows that are wrong.
    """
    column = rows[name]
    if not pa.types.is_struct(column.type):
        yield ("", *_floats(column, name))
        return
    fields = [column.type.field(at).name for at in range(column.type.num_fields)]
    for field, values in zip(fields, column.flatten(), strict=True):
        # the one that Confluent's metrics have; it is no part of the name there, either
        yield ("" if field == "doubleValue" else field, *_floats(values, f"{name}.{field}"))


def _floats(
    column: pa.Array, name: str
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], dict[int, DataError]]:
    there = np.asarray(pc.is_valid(column), bool)
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        texts = pc.fill_null(column.cast(pa.string()), "0")
        values, wrong = parse_numbers(texts)
        errors = {
            int(row): bad_row(
                "prometheus.bad_value",
                f"`{name}` is {texts[int(row)].as_py()[:40]!r}, no number",
                "Correct the value.",
            )
            for row in np.nonzero(wrong)[0]
        }
        return values, there, errors
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise wrong_type(name, kind, "a number, a text of one, or a struct of numbers")
    floats = pc.cast(column, pa.float64(), safe=False)
    return np.asarray(pc.fill_null(floats, 0.0), np.float64), there, {}


def texts_of(rows: pa.RecordBatch, name: str) -> pa.StringArray:
    """Return a column as texts.

    Raises:
        SchemaError: `prometheus.column_type`.
    """
    column = rows[name]
    try:
        return column.cast(pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        raise wrong_type(name, column.type, "a text or a number") from None


def joined_pairs(pairs: pa.Array, name: str) -> pa.StringArray:
    """Return a text for each row that is the same for the same label pairs."""
    kind = pairs.type
    if pa.types.is_string(kind):
        return pairs
    try:
        if pa.types.is_map(kind):
            names, texts = pairs.keys, pairs.items
        elif pa.types.is_list(kind):
            names, texts = pairs.values.flatten()
        elif pa.types.is_struct(kind):
            return pc.binary_join_element_wise(
                *(one.cast(pa.string()) for one in pairs.flatten()),
                "\1",
                null_handling="replace",
                null_replacement="",
            )
        else:
            raise wrong_type(name, kind, "a map, a struct or a JSON object")
        each = pc.binary_join_element_wise(
            names.cast(pa.string()),
            texts.cast(pa.string()),
            "\1",
            null_handling="replace",
            null_replacement="",
        )
        return pc.binary_join(pa.ListArray.from_arrays(pairs.offsets, each), "\2")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, ValueError):
        raise wrong_type(name, kind, "a map of texts, a flat struct or a JSON object") from None


def pairs_of(told: pa.Scalar) -> dict[str, str | None] | DataError:
    """Return the label pairs of one row."""
    value = told.as_py()
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = 0
        if not isinstance(value, dict):
            return bad_row(
                "prometheus.bad_label", "its labels are no JSON object", "Correct the labels."
            )
    if isinstance(value, list):
        given = [tuple(one.values()) if isinstance(one, dict) else one for one in value]
        value = dict(given)
        if len(value) != len(given):
            return bad_row(
                "prometheus.bad_label", "one of its labels is there twice", "Correct the labels."
            )
    found: dict[str, str | None] = {}
    for name, text in (value or {}).items():
        if isinstance(text, dict | list):
            return bad_row(
                "prometheus.bad_label", f"its label {name!r} is no text", "Correct the labels."
            )
        found[str(name)] = text if text is None or isinstance(text, str) else json.dumps(text)
    return found


def bad_row(code: str, message: str, fix: str) -> DataError:
    """Return why a row is no sample."""
    return DataError(code, message, fix=fix)


def wrong_type(name: str, kind: pa.DataType, wanted: str) -> SchemaError:
    """Return the error of a column that cannot be what a key says."""
    return SchemaError(
        "prometheus.column_type",
        f"column `{name}` is {kind}; it must be {wanted}",
        fix="Name another column, or cast it with a transform.",
    )
