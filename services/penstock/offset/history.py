"""A partition's offset with those it had before, as one value. Pure.

Every commit of a partition adds a version; at most `MOST_VERSIONS` are kept. The newest and the
first always are. Of those between, the one goes that is missed least: whose neighbours lie closest
together, measured by how long ago that was. So versions are the further apart the older they are,
and a partition can be rewound to any time of its life: to the newest version that is not later.

The newest version stands first, so that a commit puts its own before the bytes that are there,
and a reader of offsets reads no further.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

MOST_VERSIONS: Final = 16
"""Versions of one partition. With 16, times that lie 10 s to a month back are met within a factor
of about three. A million partitions of 60 bytes so take a gigabyte at most."""

MOST_HISTORY: Final = 4 << 10
"""Bytes of all versions together, above which only the newest and the first are sure to stay."""

_MARK: Final = 1
"""First byte of a value. Before there was history, a value began with its epoch in 8 bytes, so
with 0."""

_START: Final = struct.Struct(">BB")
_VERSION: Final = struct.Struct(">QQi")
_OLD: Final = struct.Struct(">Q")
_GONE: Final = -1


@dataclass(frozen=True, slots=True)
class Version:
    """An offset, from `time` (milliseconds since the epoch) on. `body` None: there was none."""

    epoch: int
    time: int
    body: bytes | None


def newest(value: bytes) -> Version:
    """Return the version that counts."""
    if value[0] != _MARK:
        return Version(_OLD.unpack_from(value)[0], 0, value[_OLD.size :])
    return _read(value, _START.size)[0]


def epoch_of(value: bytes) -> int:
    """Return the epoch that wrote the newest version."""
    epoch: int = _OLD.unpack_from(value, _START.size if value[0] == _MARK else 0)[0]
    return epoch


def versions(value: bytes) -> list[Version]:
    """Return all versions, newest first."""
    if value[0] != _MARK:
        return [newest(value)]
    found, at = [], _START.size
    for _ in range(value[1]):
        version, at = _read(value, at)
        found.append(version)
    return found


def pushed(value: bytes | None, version: Version) -> bytes:
    """Return a value with one version more. A clock that went back is taken to stand still."""
    if value is None:
        return _START.pack(_MARK, 1) + _write(version)
    if value[0] != _MARK:
        value = _value([newest(value)])
    last: int = _VERSION.unpack_from(value, _START.size)[1]
    if version.time < last:
        version = Version(version.epoch, last, version.body)
    head = _write(version)
    if value[1] < MOST_VERSIONS and len(value) + len(head) <= MOST_HISTORY:
        return _START.pack(_MARK, value[1] + 1) + head + value[_START.size :]
    return _value(thinned([version, *versions(value)]))


def thinned(kept: list[Version]) -> list[Version]:
    """Return versions, newest first, that are within the bounds."""
    kept = list(kept)
    size = sum(_size(version) for version in kept)
    while len(kept) > 2 and (len(kept) > MOST_VERSIONS or size > MOST_HISTORY):
        now = kept[0].time
        missed = min(
            range(1, len(kept) - 1),
            key=lambda i: (kept[i - 1].time - kept[i + 1].time) / (now - kept[i + 1].time + 1),
        )
        size -= _size(kept.pop(missed))
    return kept


def as_of(value: bytes, time: int) -> Version | None:
    """Return the newest version that is known and not later than a time; None before the first."""
    return next((version for version in versions(value) if version.time <= time), None)


def _value(kept: list[Version]) -> bytes:
    return _START.pack(_MARK, len(kept)) + b"".join(map(_write, kept))


def _write(version: Version) -> bytes:
    if version.body is None:
        return _VERSION.pack(version.epoch, version.time, _GONE)
    return _VERSION.pack(version.epoch, version.time, len(version.body)) + version.body


def _read(value: bytes, at: int) -> tuple[Version, int]:
    epoch, time, size = _VERSION.unpack_from(value, at)
    at += _VERSION.size
    if size == _GONE:
        return Version(epoch, time, None), at
    return Version(epoch, time, value[at : at + size]), at + size


def _size(version: Version) -> int:
    return _VERSION.size + len(version.body or b"")
