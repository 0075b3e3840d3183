"""The text formats of metrics: Prometheus' 0.0.4 and OpenMetrics 1.0. Pure.

Lines are taken apart as columns. Label texts repeat from scrape to scrape, so each is parsed once
and kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_SAMPLE: Final = (
    r"^[ \t]*(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    r'(?:[ \t]*\{(?P<labels>(?:[^"{}]|"(?:[^"\\]|\\.)*")*)\}[ \t]*|[ \t]+)'
    r"(?P<value>[^ \t\r#{}]+)(?:[ \t]+(?P<time>[^ \t\r#{}]+))?(?P<exemplar>[ \t]+#.*)?[ \t\r]*$"
)
_NUMBER: Final = r"^(?i:[+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|inf(?:inity)?)|nan)$"
_MILLISECONDS: Final = r"^-?\d{1,18}$"
_SECONDS: Final = r"^-?\d{1,12}(?:\.\d+)?$"
_LABEL: Final = re.compile(
    r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)'
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_KEPT: Final = 100_000
"""Label texts that are kept parsed; more are forgotten at once (invariant 12)."""

_SUFFIXES: Final = ("_total", "_sum", "_count", "_bucket", "_created", "_info", "_gsum", "_gcount")


@dataclass(frozen=True, slots=True)
class Parsed:
    """Samples of lines.

    Attributes:
        names: Name of each.
        codes: Its labels: a place in `labels`.
        labels: The distinct label pairs.
        values: Its value.
        times: Milliseconds since 1970.
        timed: Whether it has a time of its own.
        lines: The number of its line, from 0.
        bad: Lines that are no samples: number and why.
        types: What `# TYPE` says of a family.
        ended: There was a `# EOF`.
    """

    names: pa.StringArray
    codes: npt.NDArray[np.int64]
    labels: Sequence[dict[str, str]]
    values: npt.NDArray[np.float64]
    times: npt.NDArray[np.int64]
    timed: npt.NDArray[np.bool_]
    lines: npt.NDArray[np.int64]
    bad: Sequence[tuple[int, str]]
    types: dict[str, str] = field(default_factory=dict)
    ended: bool = False

    def type_of(self, name: str) -> str:
        """Return the type of a metric, by its own name or that of its family."""
        if name in self.types:
            return self.types[name]
        for suffix in _SUFFIXES:
            if name.endswith(suffix) and name.removesuffix(suffix) in self.types:
                return self.types[name.removesuffix(suffix)]
        return "unknown"


class ExpositionParser:
    """Parses lines, and keeps label texts that come again."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, str] | str] = {}

    def parse(self, lines: pa.StringArray, *, openmetrics: bool = False) -> Parsed:
        """Return the samples of lines; those without one, and comments, are left out.

        Args:
            lines: The lines; null for none.
            openmetrics: Times are seconds, and samples may have exemplars.
        """
        blank = pc.match_substring_regex(lines, r"^\s*(?:#.*)?$")
        comments = lines.filter(pc.match_substring_regex(lines, r"^\s*# *(?:TYPE|EOF)"))
        types, ended = _comments(comments.to_pylist())
        numbers = np.nonzero(~_flags(blank, empty=True))[0]
        found = pc.extract_regex(lines.take(pa.array(numbers)), _SAMPLE)
        matched = _flags(pc.is_valid(found), empty=False)
        bad = [(int(at), 'it is no sample: `name{label="value"} value time`'[:120])
               for at in numbers[~matched]]  # fmt: skip
        found, numbers = found.filter(pa.array(matched)), numbers[matched]
        names, labels, values, times, exemplars = found.flatten()
        good, why = _good(values, times, exemplars, openmetrics=openmetrics)
        bad += [(int(numbers[at]), why[at]) for at in np.nonzero(~good)[0].tolist()]
        encoded = labels.dictionary_encode()
        texts = [text or "" for text in encoded.dictionary.to_pylist()]
        parsed = [self._labels(text) for text in texts]
        codes = np.asarray(encoded.indices.fill_null(0), np.int64)
        wrong = np.array([isinstance(one, str) for one in parsed] or [False], bool)
        if wrong.any():
            bad += [(int(numbers[at]), str(parsed[codes[at]]))
                    for at in np.nonzero(wrong[codes] & good)[0]]  # fmt: skip
            good &= ~wrong[codes]
        keep = pa.array(good)
        values, times = values.filter(keep), times.filter(keep)
        timed = np.asarray(pc.not_equal(times, ""), bool)
        return Parsed(
            names.filter(keep),
            codes[good],
            [one if isinstance(one, dict) else {} for one in parsed] or [{}],
            _numbers(values),
            _milliseconds(times, openmetrics=openmetrics),
            timed,
            numbers[good],
            sorted(bad),
            types,
            ended,
        )

    def _labels(self, text: str) -> dict[str, str] | str:
        """Return the pairs of a label text, or why there are none."""
        found = self._kept.get(text)
        if found is None:
            found = parse_labels(text)
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[text] = found
        return found


def parse_labels(text: str) -> dict[str, str] | str:
    """Return the pairs of `name="value",…`, or why there are none."""
    pairs: dict[str, str] = {}
    at = 0
    while text[at:].strip():
        match = _LABEL.match(text, at)
        if match is None:
            return f'its labels are not `name="value"` from character {at + 1} on'
        if match[1] in pairs:
            return f"its label {match[1]!r} is there twice"
        pairs[match[1]] = _ESCAPE.sub(_plain, match[2])
        at = match.end()
    return pairs


def parse_numbers(texts: pa.StringArray) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return numbers as Prometheus writes them, and which texts are none."""
    good = _flags(pc.match_substring_regex(texts, _NUMBER), empty=False)
    return _numbers(pc.if_else(pa.array(good), texts, pa.scalar("0"))), ~good


def _plain(match: re.Match[str]) -> str:
    return {"n": "\n", "\\": "\\", '"': '"'}.get(match[1], match[0])


def _good(
    values: pa.StringArray, times: pa.StringArray, exemplars: pa.StringArray, *, openmetrics: bool
) -> tuple[npt.NDArray[np.bool_], dict[int, str]]:
    """Return which samples are good, and why others are not."""
    numeric = _flags(pc.match_substring_regex(values, _NUMBER), empty=False)
    time = _SECONDS if openmetrics else _MILLISECONDS
    timely = _flags(pc.or_(pc.equal(times, ""), pc.match_substring_regex(times, time)), empty=False)
    plain = _flags(pc.equal(exemplars, ""), empty=True) | openmetrics
    good = numeric & timely & plain
    why = {}
    for at in map(int, np.nonzero(~good)[0]):
        if not numeric[at]:
            why[at] = f"its value {values[at].as_py()[:40]!r} is no number"
        elif not timely[at]:
            unit = "seconds" if openmetrics else "milliseconds"
            why[at] = f"its time {times[at].as_py()[:40]!r} is no number of {unit}"
        else:
            why[at] = "it has an exemplar, which only OpenMetrics has"
    return good, why


def _numbers(texts: pa.StringArray) -> npt.NDArray[np.float64]:
    plain = pc.utf8_lower(pc.utf8_ltrim(texts, "+"))
    plain = pc.replace_substring(plain, "infinity", "inf")
    return np.asarray(plain.cast(pa.float64()), np.float64)


def _milliseconds(texts: pa.StringArray, *, openmetrics: bool) -> npt.NDArray[np.int64]:
    texts = pc.if_else(pc.equal(texts, ""), "0", texts)
    if not openmetrics:
        return np.asarray(texts.cast(pa.int64()), np.int64)
    seconds = np.asarray(texts.cast(pa.float64()), np.float64)
    return np.rint(seconds * 1000).astype(np.int64)


def _comments(lines: Sequence[str]) -> tuple[dict[str, str], bool]:
    types, ended = {}, False
    for line in lines:
        words = line.replace("#", " ", 1).split()
        if words[0] == "TYPE" and len(words) >= 3:
            types[words[1]] = words[2]
        ended = ended or words == ["EOF"]
    return types, ended


def _flags(array: pa.BooleanArray, *, empty: bool) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.fill_null(array, empty), bool)
