"""Rows as samples: their names, labels, values and times. Pure but for the clock.

Columns are compared as columns; what is made of a row one by one is a series that was not met
before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import DataError, Op
from penstock_metrics.exposition import ExpositionParser
from penstock_metrics.remote_write import (
    FIRST_MS,
    LABEL_NAME,
    LAST_MS,
    METRIC_NAME,
    Block,
    encode_labels,
    to_block,
)
from penstock_metrics.sample_columns import (
    bad_row,
    joined_pairs,
    pairs_of,
    texts_of,
    values_of,
    wrong_type,
)

OP: Final = "__op"
TS_US: Final = "__ts_us"
_NAME: Final = "__name__"
_KEPT: Final = 200_000
"""Series that are kept encoded; more are forgotten at once (invariant 12)."""

_MS_OF: Final[Mapping[str, Callable[[Any], Any]]] = {
    "s": lambda n: pc.multiply(n, 1000),
    "ms": lambda n: n,
    "us": lambda n: pc.divide(n, 1000),
    "ns": lambda n: pc.divide(n, 1_000_000),
}

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SampleRules:
    """Which columns make a sample, as the keys of the sink say.

    Attributes:
        text: Column of lines in a text format; empty: the other columns count.
        name: Column of the name, or empty.
        constant: The name of all, where no column has it; the value columns' names follow it.
        value: Column of the value: a number, a text, or a struct of numbers.
        labels: Column of label pairs: a map, a struct or a JSON object.
        label_columns: Columns that are labels.
        fixed: Labels of all samples.
        time: Column of the time.
        unit: Unit of a time that is a number.
        untimed_is_now: A sample without a time is of now; else it is refused.
        future_ms: Most milliseconds that a time may be ahead of the clock.
    """

    text: str
    name: str
    constant: str
    value: str
    labels: str
    label_columns: Sequence[str]
    fixed: Mapping[str, str]
    time: str
    unit: str
    untimed_is_now: bool
    future_ms: int

    def missing(self, schema: pa.Schema) -> list[str]:
        """Return the columns that rows must have and do not."""
        needed = [self.text] if self.text else [self.value, *self.label_columns]
        if not self.text and not self.constant:
            needed.append(self.name)
        return [name for name in needed if name not in schema.names]


class Samples:
    """Makes samples of rows, and keeps the series that come again."""

    def __init__(self, rules: SampleRules, now_ms: Callable[[], int]) -> None:
        self._rules, self._now_ms = rules, now_ms
        self._parser = ExpositionParser()
        self._kept: dict[tuple[str, str], bytes | DataError] = {}

    def of(self, rows: pa.RecordBatch) -> tuple[Block, dict[int, DataError]]:
        """Return the samples of rows, and the rows of which there are none.

        Raises:
            SchemaError: `prometheus.column_type`.
        """
        bad: dict[int, DataError] = {}
        if OP in rows.schema.names:
            gone = pc.fill_null(pc.equal(rows[OP].cast(pa.int64()), int(Op.DELETE)), False)
            for row in np.nonzero(np.asarray(gone))[0]:
                bad[int(row)] = bad_row(
                    "prometheus.delete",
                    "samples cannot be deleted by remote write",
                    "Filter rows that delete.",
                )
        parts = self._of_lines(rows, bad) if self._rules.text else self._of_columns(rows, bad)
        places: dict[bytes, int] = {}  # labels in another order are the same series
        codes, times, values, numbers = [_NO_INTS], [_NO_INTS], [np.zeros(0)], [_NO_INTS]
        for encoded, at, part_times, part_values, part_rows in parts:
            good = self._checked(encoded, at, part_times, part_rows, bad)
            place = [
                places.setdefault(one, len(places)) if isinstance(one, bytes) else 0
                for one in encoded
            ]
            codes.append(np.array(place or [0], np.int64)[at[good]])
            times.append(part_times[good])
            values.append(part_values[good])
            numbers.append(part_rows[good])
        joined = np.concatenate(numbers)
        keep = ~np.isin(joined, np.fromiter(bad, np.int64, len(bad)))  # a row counts whole
        block, doubled = to_block(
            list(places),
            np.concatenate(codes)[keep],
            np.concatenate(times)[keep],
            np.concatenate(values)[keep],
            joined[keep],
        )
        for row in doubled:
            bad[int(row)] = bad_row(
                "prometheus.duplicate",
                "another row has the same series and time, and another value",
                "Add the column that tells them apart to `label.columns`.",
            )
        return block, bad

    def _checked(
        self,
        encoded: Sequence[bytes | DataError],
        codes: Ints,
        times: Ints,
        rows: Ints,
        bad: dict[int, DataError],
    ) -> npt.NDArray[np.bool_]:
        """Return which samples are good; notes the others."""
        wrong = np.array([isinstance(one, DataError) for one in encoded] or [False], bool)[codes]
        for at in np.nonzero(wrong)[0]:
            error = encoded[codes[at]]
            if isinstance(error, DataError):
                bad.setdefault(int(rows[at]), error)
        latest = min(self._now_ms() + self._rules.future_ms, LAST_MS)
        untimely = (times < FIRST_MS) | (times > latest)
        for at in np.nonzero(untimely & ~wrong)[0]:
            row, time = int(rows[at]), int(times[at])
            if time == _UNTIMED:
                bad.setdefault(
                    row,
                    bad_row(
                        "prometheus.no_timestamp",
                        "it has no time, so it would be another sample when it comes again",
                        "Name its column in `timestamp.column`, or set `timestamp.missing=now`.",
                    ),
                )
            elif time > latest:
                bad.setdefault(
                    row,
                    bad_row(
                        "prometheus.future",
                        f"its time, {time} ms since 1970, is ahead of the clock: newer "
                        "samples of the series would be out of order until then",
                        "Correct the clock, `timestamp.unit` or `timestamp.future.max`.",
                    ),
                )
            else:
                bad.setdefault(
                    row,
                    bad_row(
                        "prometheus.past",
                        f"its time, {time} ms since 1970, is before 1971",
                        "Correct the clock or `timestamp.unit`.",
                    ),
                )
        return ~(wrong | untimely)

    def _of_lines(self, rows: pa.RecordBatch, bad: dict[int, DataError]) -> Iterator[_Part]:
        lines = texts_of(rows, self._rules.text)
        found = self._parser.parse(lines)
        for row, why in found.bad:
            text = lines[row].as_py() or ""
            bad.setdefault(
                row,
                bad_row(
                    "prometheus.bad_line",
                    f"{text[:100]!r}: {why}",
                    "Correct the line, or the format of its file.",
                ),
            )
        names = found.names.dictionary_encode()
        words = names.dictionary.to_pylist()
        pairs = np.asarray(names.indices, np.int64) * len(found.labels) + found.codes
        unique, codes = np.unique(pairs, return_inverse=True)
        encoded = [
            self._series(words[pair // len(found.labels)], found.labels[pair % len(found.labels)])
            for pair in unique.tolist()
        ]
        untimed = self._untimed(rows)[found.lines]
        times = np.where(found.timed, found.times, untimed)
        yield encoded, codes.astype(np.int64), times, found.values, found.lines

    def _of_columns(self, rows: pa.RecordBatch, bad: dict[int, DataError]) -> Iterator[_Part]:
        rules = self._rules
        times = self._times(rows)
        columns = [texts_of(rows, name) for name in rules.label_columns]
        named = [] if rules.constant else [texts_of(rows, rules.name)]
        pairs = rows[rules.labels] if rules.labels in rows.schema.names else None
        keys = [
            *named,
            *columns,
            *([joined_pairs(pairs, rules.labels)] if pairs is not None else []),
        ]
        if keys:
            joined = pc.binary_join_element_wise(
                *keys, "\0", null_handling="replace", null_replacement=""
            )
            encoded = joined.dictionary_encode()
            codes = np.asarray(encoded.indices, np.int64)
            texts = encoded.dictionary.to_pylist()
        else:
            codes, texts = np.zeros(rows.num_rows, np.int64), [""]
        _, first = np.unique(codes, return_index=True)
        several = list(values_of(rows, rules.value))
        present = np.zeros(rows.num_rows, bool)
        for suffix, values, there, why in several:
            full = f"{rules.constant}_{suffix}" if rules.constant and suffix else rules.constant
            series = [
                self._kept.get((text, suffix))
                or self._keep((text, suffix), self._row_series(rows, int(row), full, suffix, pairs))
                for text, row in zip(texts, first, strict=False)
            ]
            for row, word in why.items():
                bad.setdefault(row, word)
            present |= there
            at = np.nonzero(there)[0]
            yield series, codes[at], times[at], values[at], at
        for row in np.nonzero(~present)[0].tolist():
            bad.setdefault(
                int(row),
                bad_row(
                    "prometheus.no_value", f"`{rules.value}` has no value", "Filter such rows."
                ),
            )

    def _row_series(
        self, rows: pa.RecordBatch, row: int, full: str, suffix: str, pairs: pa.Array | None
    ) -> bytes | DataError:
        """Return the series of a row: its labels, encoded."""
        name = full
        if not name:
            told = rows[self._rules.name][row].as_py()
            if told is None:
                return bad_row(
                    "prometheus.bad_name", f"`{self._rules.name}` has no value", "Give it a name."
                )
            name = f"{told}_{suffix}" if suffix else str(told)
        labels: dict[str, Any] = {}
        for column in self._rules.label_columns:
            labels[column] = texts_of(rows.slice(row, 1), column)[0].as_py()
        if pairs is not None:
            more = pairs_of(pairs[row])
            if isinstance(more, DataError):
                return more
            both = labels.keys() & more.keys()
            if both:
                return bad_row(
                    "prometheus.bad_label",
                    f"its label {min(both)!r} is there twice",
                    "Take it out of `label.columns`.",
                )
            labels |= more
        return self._encoded(name, labels)

    def _series(self, name: str, labels: Mapping[str, Any]) -> bytes | DataError:
        key = (name, json.dumps(labels))
        return self._kept.get(key) or self._keep(key, self._encoded(name, labels))

    def _keep(self, key: tuple[str, str], made: bytes | DataError) -> bytes | DataError:
        if len(self._kept) >= _KEPT:
            self._kept.clear()
        self._kept[key] = made
        return made

    def _encoded(self, name: str, labels: Mapping[str, Any]) -> bytes | DataError:
        if not METRIC_NAME.fullmatch(name):
            return bad_row(
                "prometheus.bad_name",
                f"{name[:100]!r} is no name of a metric: letters, digits, `_` "
                "and `:`, no digit first",
                "Rename it with a transform.",
            )
        for label in labels:
            if not LABEL_NAME.fullmatch(label) or label.startswith("__"):
                return bad_row(
                    "prometheus.bad_label",
                    f"{label[:100]!r} is no name of a label: letters, digits "
                    "and `_`, no digit and no `__` first",
                    "Rename it with a transform.",
                )
        texts = {label: text for label, text in labels.items() if text is not None}
        return encode_labels({**self._rules.fixed, **texts, _NAME: name})

    def _times(self, rows: pa.RecordBatch) -> Ints:
        """Return milliseconds since 1970 of each row."""
        if self._rules.time not in rows.schema.names:
            return self._untimed(rows)
        column = rows[self._rules.time]
        if pa.types.is_timestamp(column.type):
            numbers, unit = column.cast(pa.int64()), column.type.unit
        elif pa.types.is_integer(column.type):
            numbers, unit = column.cast(pa.int64(), safe=False), self._rules.unit
        else:
            raise wrong_type(self._rules.time, column.type, "a timestamp or a whole number")
        if unit == "s":  # what would not fit is no time either
            numbers = pc.min_element_wise(pc.max_element_wise(numbers, 0), LAST_MS)
        told = _MS_OF[unit](numbers)
        there = np.asarray(pc.is_valid(told), bool)
        given = np.asarray(pc.fill_null(told, 0), np.int64)
        return np.where(there, np.maximum(given, 0), self._untimed(rows))

    def _untimed(self, rows: pa.RecordBatch) -> Ints:
        """Return the times of rows that name none: that of the record, now, or none."""
        other = self._now_ms() if self._rules.untimed_is_now else _UNTIMED
        if TS_US not in rows.schema.names:
            return np.full(rows.num_rows, other, np.int64)
        told = pc.divide(rows[TS_US].cast(pa.int64()), 1000)
        return np.asarray(pc.fill_null(told, other), np.int64)


_Part = tuple[
    Sequence[bytes | DataError],
    Ints,
    Ints,
    npt.NDArray[np.float64],
    Ints,
]
"""Series, and of each sample its series, time, value and row."""

_NO_INTS: Final[Ints] = np.zeros(0, np.int64)
_UNTIMED: Final = -1
