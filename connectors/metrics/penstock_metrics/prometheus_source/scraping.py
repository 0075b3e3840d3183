"""One scrape of a target: a request, and its answer as rows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import BadRow, ConnectorError, DataError
from penstock_metrics.exposition import ExpositionParser, Parsed
from penstock_metrics.prometheus_source.config import PrometheusSourceConfig
from penstock_metrics.rows import SCHEMA, to_rows, types_of
from penstock_metrics.web import Answer, WebClient, status_error

_OPENMETRICS: Final = "application/openmetrics-text"
_PLAIN: Final = frozenset({"", "text/plain"})
_ACCEPT: Final = {"Accept": f"{_OPENMETRICS};version=1.0.0,text/plain;version=0.0.4;q=0.5"}
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Scrape:
    """What came of a scrape.

    Attributes:
        url: The target.
        at_ms: When it began, in milliseconds since 1970.
        rows: Its samples, and those about the scrape.
        bad_rows: Lines that are no samples.
        error: Why there was no answer, or none that can be used.
    """

    url: str
    at_ms: int
    rows: pa.RecordBatch
    bad_rows: list[BadRow]
    error: ConnectorError | None


class Target:
    """Scrapes one target. Used by one thread at a time; `cut` is for others."""

    def __init__(self, url: str, config: PrometheusSourceConfig) -> None:
        self._url, self._config = url, config
        self._client = WebClient(url, config, config.response_max_bytes, "targets")
        self._parser = ExpositionParser()
        parts = urlsplit(url)
        host = parts.netloc if parts.port else f"{parts.netloc}:{_PORTS[parts.scheme]}"
        self._own = {**config.fixed_labels(), "instance": host}

    def scrape(self) -> Scrape:
        """Ask it once; never raises what a target can do wrong."""
        at_ms, began = time.time_ns() // 1_000_000, time.monotonic()
        rows, bad, error = SCHEMA.empty_table(), list[BadRow](), None
        try:
            found, lines = self._asked()
            bad = [_bad_row(lines[line].as_py(), why) for line, why in found.bad]
            rows = pa.Table.from_batches([self._rows(found, at_ms)])
        except ConnectorError as failure:
            error = failure
        report = {
            "up": float(error is None),
            "scrape_duration_seconds": time.monotonic() - began,
            "scrape_samples_scraped": float(rows.num_rows),
        }
        told = pa.concat_tables([rows, self._report(report, at_ms)]).combine_chunks()
        (batch,) = told.to_batches()
        return Scrape(self._url, at_ms, batch, bad, error)

    def require_metrics(self) -> None:
        """Raise unless it answers with metrics."""
        self._asked()

    def cut(self) -> None:
        """End a running scrape now."""
        self._client.cut()

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def _asked(self) -> tuple[Parsed, pa.StringArray]:
        answer = self._client.ask("GET", _ACCEPT)
        if answer.status != 200:
            raise status_error(answer, self._client.shown, "targets")
        lines, openmetrics = _lines(answer, self._client.shown)
        found = self._parser.parse(lines, openmetrics=openmetrics)
        if openmetrics and not found.ended:
            raise DataError(
                "prometheus.truncated",
                f"{self._client.shown}: its answer has no `# EOF` at its end",
                fix="Look at the target: it stopped in the middle.",
            )
        return found, lines

    def _rows(self, found: Parsed, at_ms: int) -> pa.RecordBatch:
        times = found.times
        if not self._config.honor_timestamps:
            times = np.full(len(times), at_ms, np.int64)
        return to_rows(
            found.names,
            [self._labelled(one) for one in found.labels],
            found.codes,
            found.values,
            np.where(found.timed, times, at_ms),
            types_of(found.names, found.type_of),
        )

    def _labelled(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return a target's labels with ours."""
        if self._config.honor_labels:
            return {**self._own, **given}
        return self._own | {
            (f"exported_{name}" if name in self._own else name): text
            for name, text in given.items()
        }

    def _report(self, values: Mapping[str, float], at_ms: int) -> pa.Table:
        count = len(values)
        rows = to_rows(
            pa.array(list(values)),
            [self._own],
            np.zeros(count, np.int64),
            np.array(list(values.values())),
            np.full(count, at_ms, np.int64),
            pa.array(["gauge"] * count),
        )
        return pa.Table.from_batches([rows])


def _lines(answer: Answer, shown: str) -> tuple[pa.StringArray, bool]:
    """Return the lines of an answer, and whether they are OpenMetrics."""
    kind = answer.content_type.partition(";")[0].strip().lower()
    text = ""
    why = "" if kind in _PLAIN or kind == _OPENMETRICS else f"it is {kind[:60]!r}"
    if not why:
        try:
            text = answer.body.decode()
        except UnicodeDecodeError:
            why = "it is no UTF-8"
    if why:
        raise DataError(
            "prometheus.not_metrics",
            f"{shown}: its answer is no text format of metrics: {why}",
            fix="Correct the path in `targets`, or `metrics.path`.",
        )
    return pc.split_pattern(pa.array([text]), "\n").flatten(), kind == _OPENMETRICS


def _bad_row(line: str, why: str) -> BadRow:
    error = DataError(
        "prometheus.bad_line", f"{line[:100]!r}: {why}", fix="Correct what the target writes."
    )
    return BadRow(line.encode(), error)
