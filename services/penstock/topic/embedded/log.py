"""A topic's log: `_delta_log/<20 digits>.json`, one action a line, and its checkpoints.

Read on version by version: O(new versions), not O(files). Written by putting a version that is not
there: two writers can never both have it (`penstock.topic_files.folder` says why), and without a
lock that a stopped process would hold.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import Schema

from penstock.model.errors import InternalError
from penstock.topic.embedded.table_state import Action, TopicFile, TopicSpec
from penstock.topic_files import BASE, INDEX, PARTITION, FileInfo, Folder
from penstock.topic_files.layout import path_in_log

_NTZ = "timestampNtz"


def info(now_ms: int, operation: str, parameters: Mapping[str, Any]) -> Action:
    """Return the line that says who did what: for people and lineage, not for readers of rows."""
    fields = {"timestamp": now_ms, "operation": operation, "engineInfo": "penstock"}
    return {"commitInfo": {**fields, "operationParameters": dict(parameters)}}


def add(partition: int, file: TopicFile, *, new_rows: bool) -> Action:
    """Return the line that adds a file. `new_rows` False: its rows were there before."""
    return {
        "add": {
            "path": path_in_log(file.path),
            "partitionValues": {PARTITION: str(partition), BASE: str(file.base)},
            "size": file.bytes,
            "modificationTime": file.modified_ms,
            "dataChange": new_rows,
            "stats": json.dumps({"numRecords": file.rows}),
        }
    }


def remove(partition: int, file: TopicFile, now_ms: int, *, rows_go: bool) -> Action:
    """Return the line that removes a file. `rows_go` False: its rows are in another one now."""
    return {
        "remove": {
            "path": path_in_log(file.path),
            "deletionTimestamp": now_ms,
            "dataChange": rows_go,
            "extendedFileMetadata": True,
            "partitionValues": {PARTITION: str(partition), BASE: str(file.base)},
            "size": file.bytes,
        }
    }


def transaction(application: str, version: int, now_ms: int) -> Action:
    """Return the line that says how far an application is."""
    return {"txn": {"appId": application, "version": version, "lastUpdated": now_ms}}


def created(topic: str, columns: pa.Schema, spec: TopicSpec, now_ms: int) -> Sequence[Action]:
    """Return the lines of a table's first version."""
    plain = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    metadata = {
        "id": str(uuid.uuid4()),
        "name": topic,
        "format": {"provider": "parquet", "options": {}},
        "partitionColumns": [PARTITION, BASE],
        "createdTime": now_ms,
        # without it every checkpoint would carry a week of removed files
        "configuration": {"delta.deletedFileRetentionDuration": "interval 1 hours"},
    }
    return [
        info(now_ms, "CREATE TABLE", {}),
        *(protocol_for(columns, {}) or [plain]),
        described(metadata, columns, spec),
    ]


def described(metadata: Mapping[str, Any], columns: pa.Schema, spec: TopicSpec) -> Action:
    """Return the line that changes a table's columns and description."""
    schema = Schema.from_arrow(table_schema(columns)).to_json()
    return {"metaData": {**metadata, "schemaString": schema, "description": spec.to_text()}}


def protocol_for(columns: pa.Schema, now: Mapping[str, Any]) -> Sequence[Action]:
    """Return the line that lets a table have these columns; none when it can already.

    Times without a zone came late to Delta, as a feature of the table.
    """
    features = now.get("writerFeatures") or ()
    if _NTZ in features or not any(_has_local_time(field.type) for field in columns):
        return []
    written = sorted({*features, "appendOnly", "invariants", _NTZ})
    read = sorted({*(now.get("readerFeatures") or ()), _NTZ})
    return [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": read,
                "writerFeatures": written,
            }
        }
    ]


def table_schema(columns: pa.Schema) -> pa.Schema:
    """Return all columns of the table for the columns of its rows."""
    places = [(INDEX, pa.int64()), (PARTITION, pa.int32()), (BASE, pa.int64())]
    return pa.schema([*columns, *(pa.field(name, type_) for name, type_ in places)])


def _has_local_time(type_: pa.DataType) -> bool:
    if pa.types.is_timestamp(type_):
        return type_.tz is None
    if pa.types.is_map(type_):
        return _has_local_time(type_.key_type) or _has_local_time(type_.item_type)
    return any(_has_local_time(type_.field(i).type) for i in range(type_.num_fields))


FOLDER: Final = "_delta_log"

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_VERSION = re.compile(r"(\d{20})\.json")
_CHECKPOINT_KINDS = ("protocol", "metaData", "txn", "remove", "add")


def version_name(version: int) -> str:
    """Return the name of a version's file."""
    return f"{version:020d}.json"


@dataclass(frozen=True, slots=True)
class News:
    """What was read: versions in order. `anew`: the first is a whole table, not what changed."""

    anew: bool
    versions: list[tuple[int, list[Action]]]


def read_on(log: Folder, version: int) -> News:
    """Read what came after a version (-1: everything).

    Raises:
        InternalError: `topic.log_damaged`.
    """
    if version >= 0:
        news = list(_versions(log, version + 1))
        # no later one can be missing while ours is there: a table forgets what it has not looked at
        # for long (`FORGET`), before cleaning can have come so far
        if news or log.sizes([version_name(version)]) != [None]:
            return News(anew=False, versions=news)
    start = newest_checkpoint(log)
    if start is None:
        return News(anew=True, versions=list(_versions(log, 0)))
    if start == version:
        return News(anew=False, versions=[])
    whole = (start, list(read_checkpoint(log, start)))
    return News(anew=True, versions=[whole, *_versions(log, start + 1)])


def put_version(log: Folder, version: int, actions: Iterable[Action]) -> bool:
    """Write a version unless it is there; durable when this returns True. False: it is there,
    another writer's or ours.
    """
    text = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
    return log.put_new(version_name(version), text.encode())


def newest_checkpoint(log: Folder) -> int | None:
    """Return the version of the newest checkpoint; None when there is none."""
    try:
        return int(json.loads(log.read("_last_checkpoint"))["version"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        matches = (_CHECKPOINT.fullmatch(file.name) for file in log.files())
        return max((int(match[1]) for match in matches if match), default=None)


def read_checkpoint(log: Folder, version: int) -> Iterator[Action]:
    """Yield all actions that make a version.

    Raises:
        InternalError: `topic.log_damaged`.
    """
    parts = checkpoint_files(log, version)
    opened = log.opened((part.name, part.bytes) for part in parts)
    for part in parts:
        try:
            with next(opened) as source, pq.ParquetFile(source) as file:
                has = set(file.schema_arrow.names)
                rows = file.read(columns=[kind for kind in _CHECKPOINT_KINDS if kind in has])
        except pa.ArrowException as error:
            raise _damaged(log, part.name, error) from error
        for kind in rows.column_names:
            for content in rows.column(kind).drop_null().to_pylist():
                yield {kind: _without_pairs(content)}


def checkpoint_files(log: Folder, version: int | None = None) -> list[FileInfo]:
    """Return the files of a checkpoint, the newest by default."""
    wanted = newest_checkpoint(log) if version is None else version
    if wanted is None:
        return []
    found = log.files(f"{wanted:020d}.checkpoint")
    return sorted((f for f in found if _CHECKPOINT.fullmatch(f.name)), key=lambda f: f.name)


def versions_before(log: Folder, version: int) -> list[FileInfo]:
    """Return the log's files of versions before one, oldest first."""
    return sorted(
        (file for file in log.files() if _version_of(file.name) < version), key=lambda f: f.name
    )


def _version_of(name: str) -> float:
    """Return the version that a file is of; one after all others when it is of none."""
    match = _VERSION.fullmatch(name) or _CHECKPOINT.fullmatch(name)
    return int(match[1]) if match else float("inf")


def _versions(log: Folder, first: int) -> Iterator[tuple[int, list[Action]]]:
    for version, content in enumerate(log.read_run(map(version_name, count(first))), first):
        try:
            yield version, [json.loads(line) for line in content.decode().splitlines() if line]
        except ValueError as error:
            raise _damaged(log, version_name(version), error) from error


def _damaged(log: Folder, name: str, error: Exception) -> InternalError:
    return InternalError(
        "topic.log_damaged",
        f"{log.url}/{name} is not a part of a Delta log: {error}",
        fix="Look at it with another Delta tool; a disk or a person changed it.",
    )


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
