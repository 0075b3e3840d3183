"""What a slot reports: the result of its sink writer, and the one row that its job returns for it.

A job returns one row a slot, and never any data.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pyarrow as pa

from penstock.model.errors import Diagnostic, ErrorClass, PenstockError, Severity
from penstock.model.step import RejectedRow
from penstock.model.ticket import SlotReport

DDL: Final = (
    "slot int, attempt bigint, rows_in bigint, rows_out bigint, rejected string, detail string, "
    "error string, seconds double, rejected_by_chain string"
)

MARKER: Final = "penstock-diagnostic:"
"""Precedes the JSON of a diagnostic in the text of an exception. The driver finds it there after
Spark has wrapped an error that a source reader raised."""

_SCHEMA: Final = pa.schema(
    [
        ("slot", pa.int32()),
        ("attempt", pa.int64()),
        ("rows_in", pa.int64()),
        ("rows_out", pa.int64()),
        ("rejected", pa.string()),
        ("detail", pa.string()),
        ("error", pa.string()),
        ("seconds", pa.float64()),
        ("rejected_by_chain", pa.string()),
    ]
)


@dataclass(slots=True)
class WriteResult:
    """What a sink writer did with the rows of a slot: how many it wrote, which it rejected (by
    their number among the rows that it got), and what the driver needs for the commit.
    """

    rows: int = 0
    rejected: list[tuple[int, Diagnostic]] = field(default_factory=list)
    detail: dict[str, Any] = field(default_factory=dict)


def encode_report(report: SlotReport) -> pa.RecordBatch:
    """Return a report as a batch of one row."""
    return pa.RecordBatch.from_pylist([report_row(report)], schema=_SCHEMA)


def report_row(report: SlotReport) -> dict[str, Any]:
    """Return a report as the values of that row, which fit into JSON."""
    return {
        "slot": report.slot,
        "attempt": report.attempt,
        "rows_in": report.rows_in,
        "rows_out": report.rows_out,
        "rejected": _encode_rows(report.rejected),
        "detail": json.dumps(dict(report.detail)),
        "error": json.dumps(asdict(report.error)) if report.error else None,
        "seconds": report.seconds,
        "rejected_by_chain": _encode_rows(report.rejected_by_chain),
    }


def decode_report(row: Mapping[str, Any]) -> SlotReport:
    """Return the report of `report_row`."""
    return SlotReport(
        slot=row["slot"],
        attempt=row["attempt"],
        rows_in=row["rows_in"],
        rows_out=row["rows_out"],
        rejected=_decode_rows(row["rejected"]),
        detail=json.loads(row["detail"]),
        error=_diagnostic(json.loads(row["error"])) if row["error"] else None,
        seconds=row["seconds"],
        rejected_by_chain=_decode_rows(row["rejected_by_chain"]),
    )


def wrap_error(error: PenstockError) -> RuntimeError:
    """Return an exception whose text carries the diagnostic through Spark to the driver."""
    return RuntimeError(f"{MARKER}{json.dumps(asdict(error.diagnostic))}")


def find_diagnostic(text: str) -> Diagnostic | None:
    """Return the diagnostic in the text of an exception from Spark; None when there is none, or
    when Spark cut it.
    """
    start = text.find(MARKER)
    if start < 0:
        return None
    try:
        raw, _ = json.JSONDecoder().raw_decode(text[start + len(MARKER) :])
        return _diagnostic(raw)
    except (ValueError, TypeError, KeyError):
        return None


def _encode_rows(rows: Iterable[RejectedRow]) -> str:
    return json.dumps([[row, asdict(reason)] for row, reason in rows])


def _decode_rows(text: str) -> tuple[RejectedRow, ...]:
    return tuple((row, _diagnostic(reason)) for row, reason in json.loads(text))


def read_diagnostic(text: str) -> Diagnostic:
    """Return the diagnostic in a text of `write_diagnostic`."""
    return _diagnostic(json.loads(text))


def write_diagnostic(diagnostic: Diagnostic) -> str:
    """Return a diagnostic as JSON."""
    return json.dumps(asdict(diagnostic))


def _diagnostic(raw: dict[str, Any]) -> Diagnostic:
    return Diagnostic(
        **{
            **raw,
            "error_class": ErrorClass(raw["error_class"]),
            "severity": Severity(raw["severity"]),
        }
    )
