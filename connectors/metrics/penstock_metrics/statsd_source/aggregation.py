"""What the metrics of a flush interval came to. Pure.

Blocks are folded as columns, by a number for each series. Timers keep their values until the flush,
within a bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock_metrics.rows import to_rows
from penstock_metrics.statsd_source.parsing import Lines, labels_of_tags

TYPES: Final = {
    "c": "counter", "g": "gauge", "ms": "timer", "h": "histogram", "d": "distribution", "s": "set",
}  # fmt: skip
_TIMED: Final = frozenset({"ms", "h", "d"})
_KEPT_VALUES: Final = 1 << 20
"""Values of timers that an interval keeps for quantiles; of more, counts and sums are still right,
and quantiles are those of the first (invariant 12)."""

_KEPT_MEMBERS: Final = 1 << 20

Series = tuple[str, str, str]
"""Name, type and tags."""


class Aggregation:
    """Folds metrics until `flush`.

    Attributes:
        dropped: Metrics of series that were too many, and members of sets, so far.
    """

    def __init__(
        self,
        quantiles: Mapping[str, float],
        fixed: Mapping[str, str],
        max_series: int,
        *,
        prometheus_names: bool,
    ) -> None:
        self._quantiles, self._fixed, self._max = quantiles, fixed, max_series
        self._names = prometheus_names
        self._gauges: dict[Series, float] = {}  # a change of one counts from its last value
        self.dropped = 0
        self._begin()

    def fold(self, lines: Lines) -> None:
        """Add metrics."""
        codes, distinct = _series_of(lines.table)
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(distinct) + 1))
        for code, series in enumerate(distinct):
            rows = order[bounds[code] : bounds[code + 1]]
            known = series in self._sums or series in self._sets or series in self._changed
            if not known and self._count >= self._max:
                self.dropped += len(rows)
                continue
            self._count += not known
            self._fold(series, rows, lines)

    def flush(self, at_ms: int) -> pa.RecordBatch:
        """Return the rows of the interval, and begin another one."""
        out: list[tuple[str, str, str, str, float]] = []  # name, type, tags, quantile, value
        for (name, kind, tags), sums in self._sums.items():
            count, total, least, most = sums
            if kind == "c":
                out.append((name, "counter", tags, "", total))
                continue
            word = TYPES[kind]
            out += [
                (f"{name}_count", word, tags, "", count), (f"{name}_sum", word, tags, "", total),
                (f"{name}_min", word, tags, "", least), (f"{name}_max", word, tags, "", most),
            ]  # fmt: skip
            kept = self._values.get((name, kind, tags))
            if kept and self._quantiles:
                found = np.quantile(np.concatenate(kept), list(self._quantiles.values()))
                out += [
                    (name, word, tags, text, float(value))
                    for text, value in zip(self._quantiles, found, strict=True)
                ]
        out += [(n, "gauge", tags, "", self._gauges[n, k, tags]) for n, k, tags in self._changed]
        out += [(n, "set", tags, "", float(len(m))) for (n, _, tags), m in self._sets.items()]
        self._begin()
        places: dict[tuple[str, str], int] = {}
        codes = [
            places.setdefault((tags, quantile), len(places)) for _, _, tags, quantile, _ in out
        ]
        labels = [
            labels_of_tags(tags, self._fixed, prometheus_names=self._names)
            | ({"quantile": quantile} if quantile else {})
            for tags, quantile in places
        ]
        return to_rows(
            pa.array([one[0] for one in out], pa.string()),
            labels or [{}],
            np.array(codes, np.int64),
            np.array([one[4] for one in out], np.float64),
            np.full(len(out), at_ms, np.int64),
            pa.array([one[1] for one in out], pa.string()),
        )

    def _begin(self) -> None:
        self._sums: dict[Series, tuple[float, float, float, float]] = {}
        self._values: dict[Series, list[npt.NDArray[np.float64]]] = {}
        self._sets: dict[Series, set[str]] = {}
        self._changed: dict[Series, None] = {}
        self._count = self._kept = self._members = 0

    def _fold(self, series: Series, rows: npt.NDArray[np.int64], lines: Lines) -> None:
        kind = series[1]
        numbers = lines.numbers[rows]
        if kind == "s":
            members = lines.table["value"].take(pa.array(rows)).to_pylist()
            held = self._sets.setdefault(series, set())
            before = len(held)
            for member in members:
                if self._members + len(held) - before >= _KEPT_MEMBERS and member not in held:
                    self.dropped += 1
                else:
                    held.add(member)
            self._members += len(held) - before
        elif kind == "g":
            texts = lines.table["value"].take(pa.array(rows)).to_pylist()
            value = self._gauges.get(series, 0.0)
            for text, number in zip(texts, numbers.tolist(), strict=True):
                value = value + number if text[0] in "+-" else number
            if series not in self._gauges and len(self._gauges) >= self._max:
                self._gauges.pop(next(iter(self._gauges)))
            self._gauges[series] = value
            self._changed[series] = None
        else:
            weights = 1 / lines.rates[rows]
            count, total, least, most = self._sums.get(series, (0.0, 0.0, np.inf, -np.inf))
            self._sums[series] = (
                count + float(weights.sum()), total + float((numbers * weights).sum()),
                min(least, float(numbers.min())), max(most, float(numbers.max())),
            )  # fmt: skip
            room = _KEPT_VALUES - self._kept
            if kind in _TIMED and room > 0:
                self._values.setdefault(series, []).append(numbers[:room])
                self._kept += min(room, len(numbers))


def raw_rows(
    lines: Lines, fixed: Mapping[str, str], at_ms: int, *, prometheus_names: bool
) -> pa.RecordBatch:
    """Return metrics as rows, one each; counters stand for all that were sampled."""
    encoded = lines.table["tags"].combine_chunks().dictionary_encode()
    labels = [
        labels_of_tags(tags, fixed, prometheus_names=prometheus_names)
        for tags in encoded.dictionary.to_pylist()
    ]
    counts = np.asarray(pc.equal(lines.table["type"], "c"), bool)
    kinds = lines.table["type"].combine_chunks().dictionary_encode()
    types = pa.array([TYPES[kind] for kind in kinds.dictionary.to_pylist()], pa.string())
    return to_rows(
        lines.table["name"].combine_chunks(),
        labels or [{}],
        np.asarray(encoded.indices, np.int64),
        np.where(counts, lines.numbers / lines.rates, lines.numbers),
        np.where(lines.times > 0, lines.times * 1000, at_ms),
        types.take(kinds.indices),
    )


def _series_of(table: pa.Table) -> tuple[npt.NDArray[np.int64], list[Series]]:
    joined = pc.binary_join_element_wise(table["name"], table["type"], table["tags"], "\0")
    encoded = joined.combine_chunks().dictionary_encode()
    texts = (text.split("\0") for text in encoded.dictionary.to_pylist())
    return np.asarray(encoded.indices, np.int64), [(n, kind, tags) for n, kind, tags in texts]
