"""Rows as Arrow columns: of declared types, or of types that are found and grow. Pure."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa

from penstock_connector import ConfigError, DataError
from penstock_values.decimals import at_scale

Row = Mapping[str, Any]
Reader = tuple[pa.DataType, Callable[[Any], Any]]

_MISFITS: Final = (
    pa.ArrowInvalid,
    pa.ArrowTypeError,
    pa.ArrowNotImplementedError,
    OverflowError,
)
_DECIMAL: Final = re.compile(r"decimal\((\d+);(\d+)\)")


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}[str(value).lower()]


def _whole(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise TypeError
    if isinstance(value, Decimal):  # 1E+999999999 would take all memory
        return int(at_scale(value, 0))
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    return float(value)


def _decimal(precision: int, scale: int) -> Reader:
    def read(value: Any) -> Decimal:
        if isinstance(value, bool):
            raise TypeError
        return at_scale(Decimal(str(value)), scale)

    return pa.decimal128(precision, scale), read


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _moment(value: Any) -> datetime:
    read = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read


def _day(value: Any) -> date:
    return value if isinstance(value, date) else date.fromisoformat(value)


_READERS: Final[Mapping[str, Reader]] = {
    "boolean": (pa.bool_(), _boolean),
    "int": (pa.int32(), _whole),
    "long": (pa.int64(), _whole),
    "float": (pa.float32(), _number),
    "double": (pa.float64(), _number),
    "string": (pa.string(), _text),
    "json": (pa.string(), lambda value: json.dumps(value, ensure_ascii=False, default=str)),
    "bytes": (pa.binary(), lambda value: base64.b64decode(value, validate=True)),
    "date": (pa.date32(), _day),
    "timestamp": (pa.timestamp("us", "UTC"), _moment),
}


def declared(columns: Sequence[str]) -> dict[str, Reader]:
    """Return the columns of `name:type`.

    Raises:
        ConfigError: `config.invalid_value`.
    """
    found: dict[str, Reader] = {}
    for text in columns:
        name, _, kind = text.rpartition(":")
        decimal = _DECIMAL.fullmatch(kind)
        if decimal and 1 <= int(decimal[1]) <= 38 and int(decimal[2]) <= int(decimal[1]):
            found[name] = _decimal(int(decimal[1]), int(decimal[2]))
        elif name and kind in _READERS:
            found[name] = _READERS[kind]
        else:
            raise ConfigError(
                "config.invalid_value",
                f"`columns`: {text!r} is no column",
                fix=f"Write name:type; types are {', '.join(_READERS)}, decimal(p;s).",
                config_path="columns",
            )
    return found


class Columns:
    """Makes columns of rows; types that were found once stay, and grow where they can."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._declared = declared(columns)
        self._known: pa.Schema | None = None

    def of(self, rows: Sequence[Row]) -> tuple[pa.RecordBatch, list[tuple[int, DataError]]]:
        """Return the rows as columns, and the rows that do not fit the declared types.

        Raises:
            DataError: `http.schema_incompatible`: rows have no types in common.
        """
        return self._typed(rows) if self._declared else (self._found(rows), [])

    def _typed(self, rows: Sequence[Row]) -> tuple[pa.RecordBatch, list[tuple[int, DataError]]]:
        good: list[list[Any]] = []
        bad: list[tuple[int, DataError]] = []
        for index, row in enumerate(rows):
            try:
                good.append([_cell(row, name, reader) for name, reader in self._declared.items()])
            except DataError as error:
                bad.append((index, error))
        kinds = [kind for kind, _ in self._declared.values()]
        arrays = [
            pa.array([cells[at] for cells in good], type=kind) for at, kind in enumerate(kinds)
        ]
        return pa.RecordBatch.from_arrays(arrays, list(self._declared)), bad

    def _found(self, rows: Sequence[Row]) -> pa.RecordBatch:
        try:
            names = dict.fromkeys(name for row in rows for name in row)
            seen = [(name, pa.array([row.get(name) for row in rows])) for name in names]
            found = {n: column for n, column in seen if _settled(column.type) is not None}
            if not found and seen:  # rows of nulls alone must not vanish
                found = {name: column.cast(pa.string()) for name, column in seen[:1]}
            fields = [pa.field(n, _settled(c.type) or pa.string()) for n, c in found.items()]
            known = self._known or pa.schema([])
            schema = pa.unify_schemas([known, pa.schema(fields)], promote_options="permissive")
            batch = pa.RecordBatch.from_arrays(
                [_fitted(rows, found.get(field.name), field) for field in schema], schema=schema
            )
        except _MISFITS as error:
            raise DataError(
                "http.schema_incompatible",
                f"the rows have no types in common: {str(error).splitlines()[0]}",
                fix="Name the columns with their types in `columns`, for instance "
                "`columns=id:long,name:string`; type `json` takes anything.",
            ) from None
        self._known = schema
        return batch


def _cell(row: Row, name: str, reader: Reader) -> Any:
    value = row.get(name)
    if value is None:
        return None
    kind, read = reader
    try:
        made = read(value)
        pa.scalar(made, kind)  # what does not fit, for instance too many digits, is told here
    except (ValueError, TypeError, KeyError, OverflowError, InvalidOperation) as error:
        shown = repr(value)[:80]
        raise DataError(
            "http.bad_value",
            f"column {name!r} cannot be {shown}",
            fix=f"It is declared as {kind}; correct `columns`, or the row at its origin.",
        ) from error
    return made


def _fitted(rows: Sequence[Row], column: pa.Array | None, field: pa.Field) -> pa.Array:
    """Return a column in its final type. Nested ones are made anew: a cast leaves no field out."""
    if column is None:
        return pa.nulls(len(rows), field.type)
    if column.type.equals(field.type):
        return column
    if pa.types.is_nested(field.type):
        return pa.array(column.to_pylist(), type=field.type)
    return column.cast(field.type)


def _settled(kind: pa.DataType) -> pa.DataType | None:
    """Return a type that was found, without what has had no value yet; None when that is all."""
    if pa.types.is_null(kind):
        return None
    if pa.types.is_list(kind):
        inner = _settled(kind.value_type)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_struct(kind):
        fields = [(field.name, _settled(field.type)) for field in kind]
        kept = [(name, inner) for name, inner in fields if inner is not None]
        return pa.struct(kept) if kept else None
    return kind
