"""A topic's log on disk: `_delta_log/<20 digits>.json`, one action a line, and its checkpoints.

Read on version by version: O(new versions), not O(files). Written by putting a version that is not
there: two writers can never both have it, on any file system that has hard links, and without a
lock that a stopped process would hold.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.model.errors import InternalError
from penstock.topic.embedded.state import Action
from penstock.topic_files.disk import sync_folder

TEMPORARY: Final = ".penstock-"
"""Start of the names of versions that are being written."""

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_VERSION = re.compile(r"(\d{20})\.json")
_CHECKPOINT_KINDS = ("protocol", "metaData", "txn", "remove", "add")


def log_of(root: Path) -> Path:
    """Return the folder of a table's log."""
    return root / "_delta_log"


def version_path(root: Path, version: int) -> Path:
    """Return the file of a version."""
    return log_of(root) / f"{version:020d}.json"


@dataclass(frozen=True, slots=True)
class News:
    """What was read: versions in order. `anew`: the first is a whole table, not what changed."""

    anew: bool
    versions: list[tuple[int, list[Action]]]


def read_on(root: Path, version: int) -> News:
    """Read what came after a version (-1: everything).

    Raises:
        InternalError: `topic.log_damaged`.
    """
    if version >= 0:
        news = list(_versions(root, version + 1))
        # cleaning removes the oldest first: while ours is there, no later one can be missing
        if news or version_path(root, version).exists():
            return News(anew=False, versions=news)
    start = newest_checkpoint(root)
    if start is None:
        return News(anew=True, versions=list(_versions(root, 0)))
    if start == version:
        return News(anew=False, versions=[])
    whole = (start, list(read_checkpoint(root, start)))
    return News(anew=True, versions=[whole, *_versions(root, start + 1)])


def put_version(root: Path, version: int, actions: Iterable[Action]) -> bool:
    """Write a version unless it is there; durable when this returns True. False: another writer was
    faster.
    """
    target = version_path(root, version)
    if target.exists():
        return False
    temporary = log_of(root) / f"{TEMPORARY}{uuid.uuid4().hex}.tmp"
    text = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
    try:
        with temporary.open("xb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        # a reader sees all of a version or nothing of it: the name comes last
        os.link(temporary, target)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(log_of(root))
    return True


def newest_checkpoint(root: Path) -> int | None:
    """Return the version of the newest checkpoint; None when there is none."""
    try:
        pointer = json.loads((log_of(root) / "_last_checkpoint").read_bytes())
        return int(pointer["version"])
    except (OSError, ValueError, KeyError, TypeError):
        found = [int(match[1]) for match in _matching(root, _CHECKPOINT)]
        return max(found, default=None)


def read_checkpoint(root: Path, version: int) -> Iterator[Action]:
    """Yield all actions that make a version.

    Raises:
        InternalError: `topic.log_damaged`.
    """
    for part in checkpoint_files(root, version):
        try:
            rows = pq.read_table(part, columns=_columns(part))
        except pa.ArrowException as error:
            raise _damaged(part, error) from error
        for kind in rows.column_names:
            for content in rows.column(kind).drop_null().to_pylist():
                yield {kind: _without_pairs(content)}


def checkpoint_files(root: Path, version: int | None = None) -> list[Path]:
    """Return the files of a checkpoint, the newest by default."""
    wanted = newest_checkpoint(root) if version is None else version
    names = sorted(m.string for m in _matching(root, _CHECKPOINT) if int(m[1]) == wanted)
    return [log_of(root) / name for name in names]


def versions_before(root: Path, version: int) -> list[Path]:
    """Return the log's files of versions before one, oldest first."""
    found = []
    for pattern in (_VERSION, _CHECKPOINT):
        found += [m.string for m in _matching(root, pattern) if int(m[1]) < version]
    return [log_of(root) / name for name in sorted(found)]


def _versions(root: Path, first: int) -> Iterator[tuple[int, list[Action]]]:
    version = first
    while (actions := _read_version(version_path(root, version))) is not None:
        yield version, actions
        version += 1


def _read_version(path: Path) -> list[Action] | None:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        return [json.loads(line) for line in text.splitlines() if line]
    except ValueError as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> InternalError:
    return InternalError(
        "topic.log_damaged",
        f"{path} is not a part of a Delta log: {error}",
        fix="Look at it with another Delta tool; a disk or a person changed it.",
    )


def _matching(root: Path, pattern: re.Pattern[str]) -> list[re.Match[str]]:
    names: list[str] = []
    with suppress(FileNotFoundError):
        names = os.listdir(log_of(root))  # noqa: PTH208 - paths of 10,000 names would be made
    return [match for name in names if (match := pattern.fullmatch(name))]


def _columns(part: Path) -> list[str]:
    has = set(pq.read_schema(part).names)
    return [kind for kind in _CHECKPOINT_KINDS if kind in has]


def _without_pairs(content: Mapping[str, Any]) -> Action:
    """Return a row of a checkpoint as JSON has it: Arrow gives maps as lists of pairs."""
    whole = dict(content)
    for name in ("partitionValues", "configuration"):
        if isinstance(whole.get(name), list):
            whole[name] = dict(whole[name])
    format_ = whole.get("format")
    if isinstance(format_, dict):
        whole["format"] = {**format_, "options": dict(format_.get("options") or {})}
    return whole
