"""The request of Prometheus' remote write 1.0. Pure.

A sample is 18 bytes for all times between 1971 and 2109, so the samples of a block are one array
of bytes, and what is made one by one are series, not samples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock_connector import ConfigError

METRIC_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

FIRST_MS: Final = 1 << 35
"""First time, in milliseconds since 1970, whose variable-length number has six bytes: 1971."""

LAST_MS: Final = (1 << 42) - 1
"""Last such time: 2109."""

HEADERS: Final = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}

_SAMPLE_BYTES: Final = 18
_SNAPPY: Final = pa.Codec("snappy")
"""Arrow's codec writes the raw format of a block, without frames, as remote write wants it."""

Times = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Block:
    """Samples in the order of their series, and of time within each.

    Attributes:
        series: The label pairs of each series, encoded (`encode_labels`).
        bounds: Where the samples of each begin; one more than there are series.
        samples: The samples, encoded: 18 bytes each.
        rows: The row that each sample is from.
    """

    series: Sequence[bytes]
    bounds: npt.NDArray[np.int64]
    samples: bytes
    rows: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def request(self, begin: int, end: int) -> bytes:
        """Return the body of the request with the samples `begin` to `end`, packed."""
        first = int(np.searchsorted(self.bounds, begin, side="right")) - 1
        parts: list[bytes] = []
        while begin < end:
            until = min(int(self.bounds[first + 1]), end)
            labels = self.series[first]
            samples = self.samples[begin * _SAMPLE_BYTES : until * _SAMPLE_BYTES]
            parts += (b"\n", _varint(len(labels) + len(samples)), labels, samples)
            begin, first = until, first + 1
        packed: bytes = _SNAPPY.compress(b"".join(parts), asbytes=True)
        return packed

    def lanes(self, count: int) -> Iterator[tuple[int, int]]:
        """Return at most `count` ranges of samples; no series is in two of them."""
        begin = 0
        for lane in range(1, count + 1):
            at = int(np.searchsorted(self.bounds, lane * len(self) // count))
            end = int(self.bounds[min(at, len(self.bounds) - 1)])
            if end > begin:
                yield begin, end
                begin = end


def to_block(
    series: Sequence[bytes],
    codes: npt.NDArray[np.int64],
    times: Times,
    values: Values,
    rows: npt.NDArray[np.int64],
) -> tuple[Block, npt.NDArray[np.int64]]:
    """Return samples as a block, and the rows of those that were left out because another one has
    the same series and time, and another value. The same sample again is left out without a word.

    Args:
        series: Encoded labels of each series.
        codes: The series of each sample.
        times: Milliseconds since 1970, between `FIRST_MS` and `LAST_MS`.
        values: The values.
        rows: The row that each sample is from.
    """
    order = np.lexsort((times, codes))
    again = np.zeros(len(order), bool)
    sorted_codes, sorted_times, bits = codes[order], times[order], values[order].view(np.int64)
    again[1:] = (sorted_codes[1:] == sorted_codes[:-1]) & (sorted_times[1:] == sorted_times[:-1])
    other = np.zeros(len(order), bool)
    other[1:] = again[1:] & (bits[1:] != bits[:-1])
    doubled = rows[order[other]]
    order = order[~again]
    sorted_codes = codes[order]
    counts = np.bincount(sorted_codes, minlength=len(series)) if len(codes) else np.zeros(0, int)
    present = np.nonzero(counts)[0]
    bounds = np.concatenate([[0], np.cumsum(counts[present])]).astype(np.int64)
    kept = [series[at] for at in present.tolist()]
    return Block(kept, bounds, _samples(times[order], values[order]), rows[order]), doubled


def empty_request() -> bytes:
    """Return the body of a request without samples."""
    packed: bytes = _SNAPPY.compress(b"", asbytes=True)
    return packed


def encode_labels(labels: Mapping[str, str]) -> bytes:
    """Return label pairs as the fields of a series, sorted by name; empty values are no labels."""
    parts: list[bytes] = []
    for name in sorted(labels):
        if labels[name]:
            pair = b"\n" + _text(name) + b"\x12" + _text(labels[name])
            parts += (b"\n", _varint(len(pair)), pair)
    return b"".join(parts)


def labels_of(texts: Sequence[str]) -> dict[str, str]:
    """Return the labels of the key `labels`.

    Raises:
        ConfigError: `config.invalid_value`.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not LABEL_NAME.fullmatch(name) or name.startswith("__"):
            raise ConfigError(
                "config.invalid_value",
                f"`labels` has {text[:60]!r}, which is no label",
                fix="Write `name=value`, with commas between.",
                config_path="labels",
            )
        found[name] = value
    return found


def _samples(times: Times, values: Values) -> bytes:
    """Return samples as repeated fields: 0x12, length, 0x09 and the value, 0x10 and the time."""
    out = np.empty((len(times), _SAMPLE_BYTES), np.uint8)
    out[:, 0], out[:, 1], out[:, 2], out[:, 11] = 0x12, _SAMPLE_BYTES - 2, 0x09, 0x10
    out[:, 3:11] = values.astype("<f8").view(np.uint8).reshape(-1, 8)
    for at in range(6):
        seven = (times >> (7 * at)) & 0x7F
        out[:, 12 + at] = seven | (0x80 if at < 5 else 0)
    return out.tobytes()


def _text(text: str) -> bytes:
    data = text.encode()
    return _varint(len(data)) + data


def _varint(number: int) -> bytes:
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
