"""The write end of a person who looks: a few rows as text, and the rest only counted.

What it reports passes the driver, so it is bounded here.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping
from datetime import date, time
from typing import Any, Final

import pyarrow as pa

from penstock.model.columns import OFFSET, TS_US
from penstock.model.live_rows import fitted
from penstock.spark.ends import Written

MOST_BYTES: Final = 1 << 20
"""Bytes of JSON in one report (invariant 12), whatever was asked for."""


def look(place: Mapping[str, Any], batches: Iterable[pa.RecordBatch]) -> Written:
    """Return `rows` rows of at most `row_bytes` bytes each as the detail: JSON, whether it was cut,
    offset and time.
    """
    found: list[list[Any]] = []
    seen, room = 0, MOST_BYTES
    for batch in batches:
        # all are read to the end: the read end counts them, and Spark keeps its Python worker
        wanted = place["rows"] - len(found)
        for number, row in enumerate(batch.slice(0, wanted).to_pylist(), seen):
            if room > 0:
                found.append(_shown(row, number, min(place["row_bytes"], room)))
                room -= len(found[-1][0].encode())
        seen += batch.num_rows
    return Written(seen, detail={"rows": found})


def _shown(row: dict[str, Any], number: int, most: int) -> list[Any]:
    offset, ts_us = row.pop(OFFSET, None), row.pop(TS_US, None)
    text, cut = fitted(json.dumps(plain(row), ensure_ascii=False), most)
    return [text, cut, str(number) if offset is None else offset_text(offset), ts_us]


def plain(value: Any) -> Any:
    """Return a value of a row as JSON can have it: times as ISO 8601, decimals as text, bytes as
    base64, numbers that are none as text.
    """
    match value:
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
    return _as_text(value)


def _as_text(value: Any) -> str:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case date() | time():  # a datetime is a date
            return value.isoformat()
    return str(value)


def offset_text(offset: Any) -> str:
    """Return the offset that a source gave a row as text."""
    if not isinstance(offset, bytes):
        return str(offset)
    try:
        return offset.decode()
    except UnicodeDecodeError:
        return base64.b64encode(offset).decode()
