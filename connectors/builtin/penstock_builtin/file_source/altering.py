"""Offsets of files that a person sets: what nothing could go on from is refused. Reads no file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from penstock_builtin.places.s3_keys import is_object
from penstock_connector import ConfigError, Partition


def with_own_names(partitions: Sequence[Partition]) -> list[Partition]:
    """Return partitions of files under their own keys. Kafka Connect's FileStreamSource names a
    file `filename`, as its configuration does.

    Raises:
        ConfigError: `file.bad_offset`: a file is named twice.
    """
    found: dict[str, Partition] = {}
    for partition in map(_with_own_name, partitions):
        if partition.id in found:
            raise _bad(f"{dict(partition.key)} is named twice", "Set the offset of a file once.")
        found[partition.id] = partition
    return list(found.values())


def _with_own_name(partition: Partition) -> Partition:
    name = partition.key.get("filename")
    if partition.key.keys() != {"filename"} or not isinstance(name, str) or not name:
        return partition
    # a relative name is taken as one of the configuration is
    path = name if is_object(name) else os.path.abspath(name)  # noqa: PTH100 - plain text, as there
    return replace(partition, key={"file": path})


def check_offset(partition: Partition, unit: str) -> None:
    """Refuse an offset that is none of a file; taking one away is always right.

    Args:
        partition: With the wanted offset.
        unit: The field that says how far a file was read: `position` (bytes) or `row`.

    Raises:
        ConfigError: `file.bad_offset`.
    """
    if partition.offset is None:
        return
    if partition.key.keys() != {"file"} or not isinstance(partition.key["file"], str):
        raise _bad(f"{dict(partition.key)} is no file", 'A file is {"file": "<path or URL>"}.')
    path, offset = partition.key["file"], partition.offset
    counts = {name: offset[name] for name in ("position", "row") if name in offset}
    for name, count in counts.items():
        if not _is_count(count):
            raise _bad(f"`{name}` of {path} is {count!r}", "It is a whole number from 0 on.")
    if unit not in counts and (not counts or any(counts.values())):
        raise _bad(f"the offset of {path} has no `{unit}`", f'It is {{"{unit}": 0}}, for instance.')


def inside_line(path: str, position: int) -> ConfigError:
    """Return the error of a position that would give a part of a line as a row."""
    return _bad(
        f"byte {position} of {path} is inside a line",
        "Set the first byte of a line; Kafka Connect counts characters, not bytes.",
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _bad(what: str, fix: str) -> ConfigError:
    return ConfigError(
        "file.bad_offset",
        f"{what[:500]}: a file cannot be gone on from there",
        fix=f"{fix} Those that are stored have the right form.",
    )
