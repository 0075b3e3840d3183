"""The rows that a job returns: one per slot, never any of the data."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa

from penstock.model.errors import Diagnostic, ErrorClass, PenstockError, Severity
from penstock.model.step import SetApart
from penstock.model.ticket import SlotReport

DDL: Final = (
    "slot int, attempt bigint, rows_in bigint, rows_out bigint, rejected string, detail string, "
    "error string, seconds double, set_apart string"
)

MARK: Final = "penstock-diagnostic:"
"""Stands before the JSON of a diagnostic in an exception's text, so that the driver finds it in
what Spark makes of an error that a read end raised."""

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
        ("set_apart", pa.string()),
    ]
)


def encode(report: SlotReport) -> pa.RecordBatch:
    """Return a report as the one row of a batch."""
    row = {
        "slot": report.slot,
        "attempt": report.attempt,
        "rows_in": report.rows_in,
        "rows_out": report.rows_out,
        "rejected": _listed(report.rejected),
        "detail": json.dumps(dict(report.detail)),
        "error": json.dumps(asdict(report.error)) if report.error else None,
        "seconds": report.seconds,
        "set_apart": _listed(report.set_apart),
    }
    return pa.RecordBatch.from_pylist([row], schema=_SCHEMA)


def decode(rows: Iterable[Any]) -> list[SlotReport]:
    """Return the reports in collected rows."""
    return [
        SlotReport(
            slot=row.slot,
            attempt=row.attempt,
            rows_in=row.rows_in,
            rows_out=row.rows_out,
            rejected=_unlisted(row.rejected),
            detail=json.loads(row.detail),
            error=_diagnostic(json.loads(row.error)) if row.error else None,
            seconds=row.seconds,
            set_apart=_unlisted(row.set_apart),
        )
        for row in rows
    ]


def marked(error: PenstockError) -> RuntimeError:
    """Return an exception that carries a diagnostic through Spark to the driver."""
    return RuntimeError(f"{MARK}{json.dumps(asdict(error.diagnostic))}")


def find_marked(text: str) -> Diagnostic | None:
    """Return the diagnostic in the text of an exception that came back from Spark.

    None when there is none, or when it was cut on its way.
    """
    start = text.find(MARK)
    if start < 0:
        return None
    try:
        raw, _ = json.JSONDecoder().raw_decode(text[start + len(MARK) :])
        return _diagnostic(raw)
    except (ValueError, TypeError, KeyError):
        return None


def _listed(rows: Iterable[SetApart]) -> str:
    return json.dumps([[row, asdict(reason)] for row, reason in rows])


def _unlisted(text: str) -> tuple[SetApart, ...]:
    return tuple((row, _diagnostic(reason)) for row, reason in json.loads(text))


def read_diagnostic(text: str) -> Diagnostic:
    """Return the diagnostic in a text that `write_diagnostic` made."""
    return _diagnostic(json.loads(text))


def write_diagnostic(diagnostic: Diagnostic) -> str:
    """Return a diagnostic as a text that a column can have."""
    return json.dumps(asdict(diagnostic))


def _diagnostic(raw: dict[str, Any]) -> Diagnostic:
    return Diagnostic(
        **{
            **raw,
            "error_class": ErrorClass(raw["error_class"]),
            "severity": Severity(raw["severity"]),
        }
    )
