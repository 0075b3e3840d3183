"""Rows of the kit: their encodings, their comparison, and generated rows for sinks.

The kit reads and writes both encodings by itself, apart from the SDKs and the host, so that it
finds their mistakes. Rows are compared in the form of JSON lines on the wire, which loses nothing:
decimals, dates and times are text, bytes are base64.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from penstock.api.record.v1 import record_pb2 as pb
from penstock.model.errors import ConfigError
from penstock_kit.conformance.declaration import ConnectorDeclaration
from penstock_kit.conformance.results import RuleBrokenError

Row = Mapping[str, Any]
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_TYPES: Final[Mapping[str, pa.DataType]] = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "instant": pa.timestamp("us", tz="UTC"),
}
_START: Final = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
_GENERATORS: Final[Mapping[str, Callable[[int], Any]]] = {
    "bool": lambda n: n % 2 == 0,
    "int8": lambda n: n % 100,
    "int16": lambda n: n,
    "int32": lambda n: n,
    "int64": lambda n: n,
    "float64": lambda n: n + 0.5,
    "string": lambda n: f"row {n}",
    "binary": lambda n: bytes([n % 256, 0, 255]),
    "date": lambda n: date(2026, 1, 1) + timedelta(days=n),
    "timestamp": lambda n: (_START + timedelta(seconds=n)).replace(tzinfo=None),
    "instant": lambda n: _START + timedelta(seconds=n),
}
_EDGE_VALUES: Final[Mapping[str, Sequence[Any]]] = {
    "bool": (True, False),
    "int8": (-128, 127),
    "int16": (-32768, 32767),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (2**53 + 1, -(2**63), 2**63 - 1),
    "float64": (0.1, -1.5e300, 5e-324),
    "string": ("", "quote \" ' \\ tab \t", "four bytes 😀 é", "line\nbreak"),
    "binary": (b"", bytes(range(256))),
    "date": (date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31)),
    "timestamp": (datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2038, 1, 19, 3, 14, 8)),  # noqa: DTZ001 - a timestamp without a zone
    "instant": (datetime(1970, 1, 2, tzinfo=UTC), datetime(2037, 12, 31, 23, 59, 59, 1, UTC)),
}


def decode_rows(data: bytes, schema: bytes, encoding: int) -> list[Row]:
    """Return the rows of a batch.

    Raises:
        RuleBrokenError: they cannot be read with their schema.
    """
    try:
        if encoding == pb.ENCODING_JSON_LINES:
            lines = data.decode("utf-8").split("\n")  # a text may contain other line ends
            return [json.loads(line, parse_float=float) for line in lines if line]
        if data and pa.ipc.read_message(data).type == "schema":
            raise RuleBrokenError(
                "the data of a batch begins with a schema, as a whole Arrow stream does: send the "
                "record batch message alone"
            )
        with pa.ipc.open_stream(pa.py_buffer(schema + data)) as reader:
            table = reader.read_all()
            table.validate(full=True)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise RuleBrokenError(f"rows cannot be read with their schema: {error}") from None
    return [to_json_value(row) for row in table.to_pylist()]


def encode_rows(rows: Sequence[Row], schema: pa.Schema, encoding: int) -> bytes:
    """Return the data of a batch."""
    if encoding == pb.ENCODING_JSON_LINES:
        return "".join(json.dumps(to_json_value(row)) + "\n" for row in rows).encode()
    batch = pa.RecordBatch.from_pylist(list(rows), schema=schema)
    return bytes(batch.serialize())


def to_json_value(value: Any) -> Any:
    """Return a value in the form of JSON lines on the wire."""
    match value:
        case dict():
            return {key: to_json_value(one) for key, one in value.items()}
        case list() | tuple():
            return [to_json_value(one) for one in value]
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return format(value, "f")
        case datetime():
            return _instant(value)
        case date() | time():
            return value.isoformat()
        case timedelta() | float() if not _is_finite(value):
            return str(value)
    return value


def canonical_text(row: Row, omitted: Iterable[str] = ()) -> str:
    """Return the text of a row that is compared; `omitted` are columns to leave out."""
    kept = {key: value for key, value in row.items() if key not in set(omitted)}
    return json.dumps(kept, sort_keys=True, ensure_ascii=False)


def parse_json_lines(text: str, fraction: Callable[[str], Any] = float) -> list[Row]:
    """Return rows of JSON lines, as authors and their commands write them.

    `fraction` converts numbers with a fraction: `Decimal` keeps every digit.
    """
    return [json.loads(line, parse_float=fraction) for line in text.split("\n") if line.strip()]


def equal_values(written: Any, visible: Any) -> bool:
    """Return whether a visible JSON value equals a written value, in any spelling of its type."""
    try:
        match written:
            case dict():
                return all(equal_values(one, visible.get(key)) for key, one in written.items())
            case Decimal():
                return not isinstance(visible, float) and Decimal(str(visible)) == written
            case datetime():
                return _moment(str(visible)) == _moment(written.isoformat())
            case float():
                return str(float(visible)) == str(written)
    except (ValueError, ArithmeticError, TypeError, AttributeError):
        return False
    return bool(to_json_value(written) == visible) and isinstance(written, bool) == isinstance(
        visible, bool
    )


def describe_difference(expected: Sequence[str], found: Sequence[str]) -> str:
    """Return in one line how two lists of rows differ; empty when equal."""
    if list(expected) == list(found):
        return ""
    missing = [row for row in expected if row not in set(found)]
    extra = [row for row in found if row not in set(expected)]
    repeated = len(found) - len(set(found)) - (len(expected) - len(set(expected)))
    parts = [f"{len(expected)} rows expected, {len(found)} found"]
    if missing:
        parts.append(f"{len(missing)} missing, the first is {missing[0][:160]}")
    if extra:
        parts.append(f"{len(extra)} unexpected, the first is {extra[0][:160]}")
    if repeated > 0:
        parts.append(f"{repeated} repeated")
    if not missing and not extra and not repeated:
        parts.append("in another order")
    return "; ".join(parts)


def _is_finite(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _instant(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat()
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


class RowGenerator:
    """Rows for a sink, all different: generated from the types of the declared columns, or read
    from the author's file.
    """

    def __init__(self, declaration: ConnectorDeclaration, folder: Path) -> None:
        self._declaration = declaration
        self._kinds = declaration.columns
        self.schema = pa.schema([(name, _type(kind)) for name, kind in self._kinds.items()])
        self.keys = declaration.keys or tuple(self._kinds)[:1]
        self._from_file = self._read(folder / declaration.input) if declaration.input else None

    @property
    def is_generated(self) -> bool:
        """Whether the rows are generated, so that others can be."""
        return self._from_file is None

    def rows(self, first: int, count: int) -> list[Row]:
        """Return `count` rows from number `first`."""
        if self._from_file is not None:
            if first + count > len(self._from_file):
                raise ConfigError(
                    "conformance.too_few_rows",
                    f"`input` has {len(self._from_file)} rows, {first + count} are needed",
                    fix="Write more rows into the file.",
                )
            return self._from_file[first : first + count]
        return [
            {name: _generate(kind, number) for name, kind in self._kinds.items()}
            for number in range(first, first + count)
        ]

    def edge_rows(self) -> list[Row]:
        """Return rows with edge values of every type, and nulls except in keys."""
        count = max(len(_edge_values(kind)) for kind in self._kinds.values()) + 1
        return [
            {name: self._edge_value(name, kind, number) for name, kind in self._kinds.items()}
            for number in range(count)
        ]

    def _edge_value(self, name: str, kind: str, number: int) -> Any:
        if name in self.keys:
            return _generate(kind, number)
        values = _edge_values(kind)
        return values[number] if number < len(values) else None

    def _read(self, file: Path) -> list[Row]:
        rows = parse_json_lines(file.read_text(encoding="utf-8"))
        return [
            {name: _typed(kind, row.get(name)) for name, kind in self._kinds.items()}
            for row in rows
        ]


def _type(kind: str) -> pa.DataType:
    if found := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(found[1]), int(found[2]))
    if kind not in _TYPES:
        raise ConfigError(
            "conformance.bad_declaration",
            f"`columns` has the unknown type {kind!r}",
            config_path="connector.columns",
            fix=f"Use one of {', '.join(_TYPES)}, decimal(p,s).",
        )
    return _TYPES[kind]


def _generate(kind: str, number: int) -> Any:
    if found := _DECIMAL.fullmatch(kind):
        return Decimal(number).scaleb(-int(found[2]))
    return _GENERATORS[kind](number)


def _edge_values(kind: str) -> Sequence[Any]:
    if found := _DECIMAL.fullmatch(kind):
        precision, scale = int(found[1]), int(found[2])
        largest = Decimal((0, (9,) * precision, -scale))
        return (largest, Decimal((1, (9,) * precision, -scale)), Decimal((0, (1,), -scale)))
    return _EDGE_VALUES[kind]


def _typed(kind: str, value: Any) -> Any:
    if value is not None and _DECIMAL.fullmatch(kind):
        return Decimal(value)
    return value
