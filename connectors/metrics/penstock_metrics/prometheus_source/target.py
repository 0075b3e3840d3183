"""One scrape of a target: a request, and its answer as rows."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import BadRow, DataError
from penstock_metrics.exposition import ExpositionParser, Parsed
from penstock_metrics.prometheus_source.config import PrometheusSourceConfig
from penstock_metrics.rows import to_rows, types_of
from penstock_metrics.scrape import Target, labels_with
from penstock_metrics.web import Answer, WebClient, instance_of, status_error

_OPENMETRICS: Final = "application/openmetrics-text"
_PLAIN: Final = frozenset({"", "text/plain"})
_ACCEPT: Final = {"Accept": f"{_OPENMETRICS};version=1.0.0,text/plain;version=0.0.4;q=0.5"}


class PrometheusTarget(Target):
    """Scrapes one target."""

    def __init__(self, url: str, config: PrometheusSourceConfig) -> None:
        super().__init__(url, {**config.fixed_labels(), "instance": instance_of(url)})
        self._config = config
        self._client = WebClient(url, config, config.response_max_bytes, "targets")
        self._parser = ExpositionParser()

    def read(self, at_ms: int) -> tuple[pa.RecordBatch, list[BadRow]]:
        """Ask it once."""
        found, lines = self._asked()
        bad = [_bad_row(lines[line].as_py(), why) for line, why in found.bad]
        return self._rows(found, at_ms), bad

    def require_samples(self) -> None:
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
            [labels_with(self.own, one, honor=self._config.honor_labels) for one in found.labels],
            found.codes,
            found.values,
            np.where(found.timed, times, at_ms),
            types_of(found.names, found.type_of),
        )


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
