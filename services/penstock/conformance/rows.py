"""Rows as the kit compares them: one JSON value for each value of every type, nothing lost.

It reads and writes both encodings by itself, apart from the SDKs and from the host, so that a
mistake of theirs is no mistake of the kit's. The form is that of JSON lines on the wire: decimals,
dates and times are text, bytes are base64.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.api.record.v1 import record_pb2 as pb
from penstock.conformance.verdict import RuleBrokenError

Row = Mapping[str, Any]


def decode(data: bytes, schema: bytes, encoding: int) -> list[Row]:
    """Return the rows of a batch.

    Raises:
        RuleBrokenError: they cannot be read with their schema.
    """
    try:
        if encoding == pb.ENCODING_JSON_LINES:
            lines = data.decode("utf-8").split("\n")  # a text may have other ends of lines in it
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
    return [plain(row) for row in table.to_pylist()]


def encode(rows: Sequence[Row], schema: pa.Schema, encoding: int) -> bytes:
    """Return the data of a batch."""
    if encoding == pb.ENCODING_JSON_LINES:
        return "".join(json.dumps(plain(row)) + "\n" for row in rows).encode()
    batch = pa.RecordBatch.from_pylist(list(rows), schema=schema)
    return bytes(batch.serialize())


def plain(value: Any) -> Any:
    """Return a value in the form of JSON lines."""
    match value:
        case dict():
            return {key: plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
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


def text_of(row: Row, left_out: Iterable[str] = ()) -> str:
    """Return the one text of a row, by which rows are compared."""
    kept = {key: value for key, value in row.items() if key not in set(left_out)}
    return json.dumps(kept, sort_keys=True, ensure_ascii=False)


def read_lines(text: str, fraction: Callable[[str], Any] = float) -> list[Row]:
    """Return rows of JSON lines, as authors write them and as outputs print them.

    A number with a fraction becomes what `fraction` makes of it: of a decimal nothing may be lost.
    """
    return [json.loads(line, parse_float=fraction) for line in text.split("\n") if line.strip()]


def same(wanted: Any, found: Any) -> bool:
    """Tell whether a typed value that was written is the value that is seen, however spelled."""
    try:
        match wanted:
            case dict():
                return all(same(one, found.get(key)) for key, one in wanted.items())
            case Decimal():
                return not isinstance(found, float) and Decimal(str(found)) == wanted
            case datetime():
                return _moment(str(found)) == _moment(wanted.isoformat())
            case float():
                return str(float(found)) == str(wanted)
    except (ValueError, ArithmeticError, TypeError, AttributeError):
        return False
    return bool(plain(wanted) == found) and isinstance(wanted, bool) == isinstance(found, bool)


def difference(wanted: Sequence[str], found: Sequence[str]) -> str:
    """Say in one line how two lists of rows differ; an empty text when they do not."""
    if list(wanted) == list(found):
        return ""
    missing = [row for row in wanted if row not in set(found)]
    more = [row for row in found if row not in set(wanted)]
    again = len(found) - len(set(found)) - (len(wanted) - len(set(wanted)))
    parts = [f"{len(wanted)} rows wanted, {len(found)} found"]
    if missing:
        parts.append(f"{len(missing)} missing, the first is {missing[0][:160]}")
    if more:
        parts.append(f"{len(more)} that nobody wanted, the first is {more[0][:160]}")
    if again > 0:
        parts.append(f"{again} that came again")
    if not missing and not more and not again:
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
