"""Reports some rows of a slot as text, and counts the others: for inspect and preview.

The report passes through the driver, so it is bounded here.
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
from penstock.model.inspection import truncate_text
from penstock.spark.slot_reports import WriteResult

MAX_REPORT_BYTES: Final = 1 << 20
"""Bytes of JSON in one report (invariant 12), whatever the request wants."""


def sample_rows(spec: Mapping[str, Any], batches: Iterable[pa.RecordBatch]) -> WriteResult:
    """Return `spec["rows"]` rows of at most `spec["row_bytes"]` bytes each as the detail: JSON,
    whether it was cut, offset and time.
    """
    sample: list[list[Any]] = []
    count, left_bytes = 0, MAX_REPORT_BYTES
    for batch in batches:
        # all batches are read: the source reader counts rows, and Spark keeps its Python worker
        wanted = spec["rows"] - len(sample)
        for number, row in enumerate(batch.slice(0, wanted).to_pylist(), count):
            if left_bytes > 0:
                sample.append(_sampled(row, number, min(spec["row_bytes"], left_bytes)))
                left_bytes -= len(sample[-1][0].encode())
        count += batch.num_rows
    return WriteResult(count, detail={"rows": sample})


def _sampled(row: dict[str, Any], number: int, max_bytes: int) -> list[Any]:
    offset, ts_us = row.pop(OFFSET, None), row.pop(TS_US, None)
    text, cut = truncate_text(json.dumps(to_json_value(row), ensure_ascii=False), max_bytes)
    return [text, cut, str(number) if offset is None else format_offset(offset), ts_us]


def to_json_value(value: Any) -> Any:
    """Return a value of a row as JSON can have it: times as ISO 8601, decimals as text, bytes as
    base64, infinite and undefined numbers as text.
    """
    match value:
        case Mapping():
            return {str(key): to_json_value(item) for key, item in value.items()}
        case list() | tuple():
            return [to_json_value(item) for item in value]
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
    return _to_text(value)


def _to_text(value: Any) -> str:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case date() | time():  # a datetime is a date
            return value.isoformat()
    return str(value)


def format_offset(offset: Any) -> str:
    """Return the offset that a source gave a row as text; bytes that are not UTF-8 as base64."""
    if not isinstance(offset, bytes):
        return str(offset)
    try:
        return offset.decode()
    except UnicodeDecodeError:
        return base64.b64encode(offset).decode()
