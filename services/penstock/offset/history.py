"""The offset of a partition with its earlier versions, as one value. Pure.

Every commit of a partition adds a version; at most `MAX_VERSIONS` are kept. The newest and the
oldest always stay. Of those between, the version is removed that is missed least: its neighbours
lie closest together, relative to their age. So old versions lie further apart than new ones, and a
partition can be rewound to any time since its first commit: to the newest version that is not
later.

The newest version stands first. So a commit puts its own version before the existing bytes, and a
reader of the current offset reads no further.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

MAX_VERSIONS: Final = 16
"""Versions of one partition. With 16, times from 10 s to a month back are met within a factor of
about three. A million partitions with offsets of 60 bytes take a gigabyte at most."""

MAX_HISTORY_BYTES: Final = 4 << 10
"""Bytes of all versions together. Above it, only the newest and the oldest version always stay."""

_MARK: Final = 1
"""First byte of a value with a history. A value of the earlier form begins with its epoch in 8
bytes, so with 0."""

_HEADER: Final = struct.Struct(">BB")
_VERSION: Final = struct.Struct(">QQi")
_OLD_HEADER: Final = struct.Struct(">Q")
_REMOVED: Final = -1


@dataclass(frozen=True, slots=True)
class OffsetVersion:
    """An offset that was written by `epoch` at `time_ms` (milliseconds since the Unix epoch).

    `body` None: the offset was removed.
    """

    epoch: int
    time_ms: int
    body: bytes | None


def newest_version(value: bytes) -> OffsetVersion:
    """Return the current version of a value."""
    if value[0] != _MARK:
        return OffsetVersion(_OLD_HEADER.unpack_from(value)[0], 0, value[_OLD_HEADER.size :])
    return _decode_version(value, _HEADER.size)[0]


def newest_epoch(value: bytes) -> int:
    """Return the epoch that wrote the current version."""
    start = _HEADER.size if value[0] == _MARK else 0
    epoch: int = _OLD_HEADER.unpack_from(value, start)[0]
    return epoch


def decode_versions(value: bytes) -> list[OffsetVersion]:
    """Return all versions of a value, newest first."""
    if value[0] != _MARK:
        return [newest_version(value)]
    versions, position = [], _HEADER.size
    for _ in range(value[1]):
        version, position = _decode_version(value, position)
        versions.append(version)
    return versions


def add_version(value: bytes | None, version: OffsetVersion) -> bytes:
    """Return a value with one more version. If the clock went back, the time of the version before
    is used.
    """
    if value is None:
        return _HEADER.pack(_MARK, 1) + _encode_version(version)
    if value[0] != _MARK:
        value = _HEADER.pack(_MARK, 1) + _encode_version(newest_version(value))
    last_ms: int = _VERSION.unpack_from(value, _HEADER.size)[1]
    if version.time_ms < last_ms:
        version = OffsetVersion(version.epoch, last_ms, version.body)
    added = _encode_version(version)
    if value[1] < MAX_VERSIONS and len(value) + len(added) <= MAX_HISTORY_BYTES:
        return _HEADER.pack(_MARK, value[1] + 1) + added + value[_HEADER.size :]
    return _thin_out(added + value[_HEADER.size :], value[1] + 1)


def version_at(value: bytes, time_ms: int) -> OffsetVersion | None:
    """Return the newest kept version that is not later than a time; None before the oldest."""
    versions = decode_versions(value)
    return next((version for version in versions if version.time_ms <= time_ms), None)


def _thin_out(encoded: bytes, count: int) -> bytes:
    """Return the value of the versions to keep, within the bounds. `encoded` has `count` versions,
    newest first, which are not decoded: this is a part of each commit.
    """
    times, pieces, position = list[int](), list[bytes](), 0
    for _ in range(count):
        _, time_ms, size = _VERSION.unpack_from(encoded, position)
        end = position + _VERSION.size + max(size, 0)
        times.append(time_ms)
        pieces.append(encoded[position:end])
        position = end
    now_ms, total = times[0], len(encoded)
    while len(times) > 2 and (len(times) > MAX_VERSIONS or total > MAX_HISTORY_BYTES):
        missed = [
            (newer - older) / (now_ms - older + 1)
            for newer, older in zip(times, times[2:], strict=False)
        ]
        least = missed.index(min(missed)) + 1
        total -= len(pieces.pop(least))
        times.pop(least)
    return _HEADER.pack(_MARK, len(times)) + b"".join(pieces)


def _encode_version(version: OffsetVersion) -> bytes:
    if version.body is None:
        return _VERSION.pack(version.epoch, version.time_ms, _REMOVED)
    return _VERSION.pack(version.epoch, version.time_ms, len(version.body)) + version.body


def _decode_version(value: bytes, position: int) -> tuple[OffsetVersion, int]:
    epoch, time_ms, size = _VERSION.unpack_from(value, position)
    position += _VERSION.size
    if size == _REMOVED:
        return OffsetVersion(epoch, time_ms, None), position
    return OffsetVersion(epoch, time_ms, value[position : position + size]), position + size
