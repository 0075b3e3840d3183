"""Lines of StatsD, with the tags of DogStatsD, as columns. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock_connector import BadRow, DataError

_LINE: Final = (
    r"^(?P<name>[^:|@#\x00-\x20][^:|]*):(?P<value>[^|]+)\|(?P<type>ms|[cghds])"
    r"(?:\|@(?P<rate>0?\.\d+|1(?:\.0*)?|0\.\d+e-\d+))?(?:\|#(?P<tags>[^|]*))?"
    r"(?:\|c:[^|]*)?(?:\|T(?P<time>\d{1,11}))?[ \t\r]*$"
)
_NUMBER: Final = r"^[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)$"
_UNFIT: Final = r"[^a-zA-Z0-9_:]"
_UNFIT_LABEL: Final = re.compile(r"[^a-zA-Z0-9_]")
_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Lines:
    """Metrics of lines, in their order: `name`, `value` (a text), `type`, `tags` (a text) as
    columns of `table`; the rates; the numbers, 0 for members of sets; the times, in seconds since
    1970 and 0 for none; and the lines that are none.
    """

    table: pa.Table
    rates: npt.NDArray[np.float64]
    numbers: npt.NDArray[np.float64]
    times: npt.NDArray[np.int64]
    bad: list[BadRow]


def parse_lines(
    block: bytes, max_line_bytes: int, *, prometheus_names: bool, raw: bool = False
) -> Lines:
    """Return the metrics of a block of lines. `raw`: members of sets and changes of gauges mean
    nothing by themselves, and are bad rows.
    """
    came = pc.split_pattern(pa.array([block], pa.binary()), b"\n").flatten()
    came = came.filter(pc.greater(pc.binary_length(came), 0))
    short = pc.less_equal(pc.binary_length(came), max_line_bytes)
    bad = [_bad(line, f"it has {len(line)} bytes; {max_line_bytes} are the most")
           for line in came.filter(pc.invert(short)).to_pylist()]  # fmt: skip
    came = came.filter(short)
    try:
        lines = came.cast(pa.string())
    except pa.ArrowInvalid:  # look for those that are no UTF-8
        good = pa.array([_is_text(line) for line in came.to_pylist()])
        bad += [_bad(line, "it is no UTF-8") for line in came.filter(pc.invert(good)).to_pylist()]
        lines = came.filter(good).cast(pa.string())
    found = pc.extract_regex(lines, _LINE)
    matched = pc.is_valid(found)
    bad += [_bad(line.encode(), "it is no `name:value|type|@rate|#tag:value`")
            for line in lines.filter(pc.invert(matched)).to_pylist()]  # fmt: skip
    lines, found = lines.filter(matched), found.filter(matched)
    names, values, types, rates, tags, times = found.flatten()
    sets = pc.equal(types, "s")
    numeric = pc.or_(sets, pc.match_substring_regex(values, _NUMBER))
    bad += [_bad(line.encode(), "its value is no number")
            for line in lines.filter(pc.invert(numeric)).to_pylist()]  # fmt: skip
    if raw:
        change = pc.and_(pc.equal(types, "g"), pc.match_substring_regex(values, r"^[+-]"))
        lost = pc.and_(numeric, pc.or_(sets, change))
        bad += [_bad(line.encode(), "it means nothing by itself (mode=raw)")
                for line in lines.filter(lost).to_pylist()]  # fmt: skip
        numeric = pc.and_not(numeric, lost)
    if prometheus_names:
        names = pc.replace_substring_regex(names, _UNFIT, "_")
        names = pc.replace_substring_regex(names, r"^(\d)", r"_\1")
    table = pa.table({"name": names, "value": values, "type": types, "tags": tags})
    numbers = pc.if_else(sets, "0", pc.utf8_ltrim(values, "+")).filter(numeric)
    return Lines(
        table.filter(numeric),
        _floats(rates.filter(numeric), "1"),
        _floats(numbers, "0"),
        _floats(times.filter(numeric), "0").astype(np.int64),
        bad,
    )


class LineBlocks:
    """Takes a connection apart into blocks of whole lines."""

    def __init__(self, max_line_bytes: int) -> None:
        self._max, self._rest = max_line_bytes, b""
        self.is_broken = False

    def feed(self, block: bytes) -> Sequence[tuple[bytes, str]]:
        """Return the lines that are whole now."""
        lines, _, self._rest = (self._rest + block).rpartition(b"\n")
        found = [(lines, "")]
        if len(self._rest) > self._max:  # it becomes a bad row, and its end is not known
            found.append((self._rest, ""))
            self.is_broken = True
        return found

    def end(self) -> Sequence[tuple[bytes, str]]:
        """Return the last line, which may have no newline."""
        return [(self._rest, "")]


def labels_of_tags(
    tags: str, fixed: Mapping[str, str], *, prometheus_names: bool
) -> dict[str, str]:
    """Return the labels of `name:value,…`; a tag without a value has `true`, and of one that is
    there twice the last counts.
    """
    found = dict(fixed)
    for tag in filter(None, tags.split(",")):
        name, colon, value = tag.partition(":")
        if prometheus_names:
            name = _UNFIT_LABEL.sub("_", name)
            name = f"_{name}" if name[:1].isdigit() else name
        found[name] = value if colon else "true"
    return found


def _floats(texts: pa.StringArray, empty: str) -> npt.NDArray[np.float64]:
    filled = pc.if_else(pc.equal(texts, ""), empty, texts)
    return np.asarray(filled.cast(pa.float64()), np.float64)


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _bad(line: bytes, why: str) -> BadRow:
    shown = line[:_SHOWN].decode("utf-8", "replace")
    error = DataError("statsd.bad_line", f"{shown!r}: {why}", fix="Correct what sends it.")
    return BadRow(line, error)
