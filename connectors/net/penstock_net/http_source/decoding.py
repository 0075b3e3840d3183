"""An answer as rows: JSON, JSON lines, CSV. Pure."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from penstock_connector import DataError
from penstock_net.http_source.converting import MESSAGE, message_row
from penstock_net.http_source.pointer import MISSING, Pointer
from penstock_net.web.client import Answer
from penstock_net.web.failing import truncated

BadRow = tuple[bytes, DataError]
_LINES: Final = ("jsonl", "ndjson", "json-lines", "json-seq", "jsonlines")


@dataclass(slots=True)
class Decoded:
    """What an answer holds: its document where it is JSON, its rows, and what could not be read."""

    rows: list[dict[str, Any]]
    document: Any = None
    bad: list[BadRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Decoder:
    """How answers are read.

    Attributes:
        format: Their format, or `auto`.
        rows: Where the rows are in a JSON document.
        delimiter: Between the columns of CSV.
        tolerant: Broken lines are set apart; else they are an error.
        messages: Rows are messages, which a converter reads (`converting`).
        exact: Fractions stay decimal: a column wants them so.
    """

    format: str
    rows: Pointer
    delimiter: str = ","
    tolerant: bool = False
    messages: bool = False
    exact: bool = False

    def decode(self, answer: Answer, where: str) -> Decoded:
        """Return the rows of an answer.

        Raises:
            DataError: `http.not_json`, `http.not_csv`, `http.no_rows`.
            RetriableError: `http.truncated`: what ends with the connection and cannot be read.
        """
        if not answer.body.strip():
            return Decoded([])
        try:
            match self._format_of(answer):
                case "body":
                    return Decoded([{MESSAGE: answer.body}])
                case "jsonl" if self.messages:
                    return Decoded(_messages(answer.body))
                case "jsonl":
                    return self._lines(answer.body, where)
                case "csv":
                    return Decoded(self._csv(answer.body, where))
            document = self._json(answer.body, where)
            return Decoded(self._objects(document, where), document)
        except DataError as error:
            if not answer.ended_by_length and error.code != "http.no_rows":
                raise truncated(where) from error
            raise

    def _format_of(self, answer: Answer) -> str:
        if self.format != "auto":
            return self.format
        kind = answer.header("Content-Type").partition(";")[0].strip().lower()
        if any(name in kind for name in _LINES):
            return "jsonl"
        return "csv" if kind.endswith("/csv") else "json"

    def _json(self, data: bytes, where: str) -> Any:
        try:
            return json.loads(
                data,
                parse_float=Decimal if self.exact else None,
                parse_constant=_no_number,
            )
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise DataError(
                "http.not_json",
                f"{where}: the answer is not JSON: {error}",
                fix="Check the address, and `format`.",
            ) from None

    def _objects(self, document: Any, where: str) -> list[dict[str, Any]]:
        found = self.rows.of(document)
        if found is MISSING:
            names = ", ".join(map(str, document)) if isinstance(document, dict) else "no fields"
            raise DataError(
                "http.no_rows",
                f"{where}: there is nothing at {self.rows.text!r}; the answer has {names[:200]}",
                fix="Correct `rows.pointer`.",
            )
        if found is None:
            return []
        make = message_row if self.messages else _row
        return [make(item) for item in (found if isinstance(found, list) else [found])]

    def _lines(self, data: bytes, where: str) -> Decoded:
        decoded = Decoded([])
        for number, line in enumerate(data.splitlines(), start=1):
            text = line.strip().removeprefix(b"\x1e")
            if not text:
                continue
            try:
                decoded.rows += self._objects(self._json(text, f"{where}, line {number}"), where)
            except DataError as error:
                if not self.tolerant:
                    raise
                decoded.bad.append((line, error))
        return decoded

    def _csv(self, data: bytes, where: str) -> list[dict[str, Any]]:
        from pyarrow import csv  # noqa: PLC0415 - 20 ms that only CSV needs

        try:
            table = csv.read_csv(
                io.BytesIO(data),
                read_options=csv.ReadOptions(use_threads=False, block_size=len(data) + 1),
                parse_options=csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            )
        except pa.ArrowInvalid as error:
            raise DataError(
                "http.not_csv",
                f"{where}: the answer is not CSV: {str(error).splitlines()[0]}",
                fix="Check the address, `format` and `csv.delimiter`.",
            ) from None
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows


def _messages(data: bytes) -> list[dict[str, Any]]:
    lines = (line.strip().removeprefix(b"\x1e") for line in data.splitlines())
    return [{MESSAGE: line} for line in lines if line]


def _row(item: Any) -> dict[str, Any]:
    """Return an item as a row; what is no object becomes the column `value`."""
    return item if isinstance(item, dict) else {"value": item}


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")
