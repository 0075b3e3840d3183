"""Reads and writes a topic's log: `_delta_log/<20 digits>.json`, one action a line, and
checkpoints.

Reading goes on from version to version, so it costs the new versions, not all files. A version is
written by putting a name that does not exist (`penstock.topic_files.folder`). So two writers can
never both write it, and there is no lock that a stopped process could hold.
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
from penstock.topic_files.folder import FileInfo, Folder
from penstock.topic_files.layout import BASE, INDEX, PARTITION, path_in_log

LOG_FOLDER: Final = "_delta_log"

_LOCAL_TIME_FEATURE: Final = "timestampNtz"
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_VERSION = re.compile(r"(\d{20})\.json")
_CHECKPOINT_KINDS = ("protocol", "metaData", "txn", "remove", "add")


def commit_info(now_ms: int, operation: str, parameters: Mapping[str, Any]) -> Action:
    """Return the action that describes a commit for users and lineage. Readers of rows ignore
    it.
    """
    fields = {"timestamp": now_ms, "operation": operation, "engineInfo": "penstock"}
    return {"commitInfo": {**fields, "operationParameters": dict(parameters)}}


def add_file(partition: int, file: TopicFile, *, new_rows: bool) -> Action:
    """Return the action that adds a file. `new_rows` is False when its rows come from other
    files.
    """
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


def remove_file(partition: int, file: TopicFile, now_ms: int, *, drops_rows: bool) -> Action:
    """Return the action that removes a file. `drops_rows` is False when another file has its
    rows.
    """
    return {
        "remove": {
            "path": path_in_log(file.path),
            "deletionTimestamp": now_ms,
            "dataChange": drops_rows,
            "extendedFileMetadata": True,
            "partitionValues": {PARTITION: str(partition), BASE: str(file.base)},
            "size": file.bytes,
        }
    }


def set_transaction(application: str, version: int, now_ms: int) -> Action:
    """Return the action that stores how far an application is."""
    return {"txn": {"appId": application, "version": version, "lastUpdated": now_ms}}


def create_table(topic: str, columns: pa.Schema, spec: TopicSpec, now_ms: int) -> Sequence[Action]:
    """Return the actions of a table's first version."""
    basic_protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    metadata = {
        "id": str(uuid.uuid4()),
        "name": topic,
        "format": {"provider": "parquet", "options": {}},
        "partitionColumns": [PARTITION, BASE],
        "createdTime": now_ms,
        # without it every checkpoint would list the removed files of a week
        "configuration": {"delta.deletedFileRetentionDuration": "interval 1 hours"},
    }
    return [
        commit_info(now_ms, "CREATE TABLE", {}),
        *(upgrade_protocol(columns, {}) or [basic_protocol]),
        set_metadata(metadata, columns, spec),
    ]


def set_metadata(metadata: Mapping[str, Any], columns: pa.Schema, spec: TopicSpec) -> Action:
    """Return the action that sets a table's columns and description."""
    schema = Schema.from_arrow(table_schema(columns)).to_json()
    return {"metaData": {**metadata, "schemaString": schema, "description": spec.to_text()}}


def upgrade_protocol(columns: pa.Schema, protocol: Mapping[str, Any]) -> Sequence[Action]:
    """Return the action that lets a table have these columns; none when it already can.

    Times without a zone were added to Delta later, as a table feature.
    """
    features = protocol.get("writerFeatures") or ()
    if _LOCAL_TIME_FEATURE in features or not any(_has_local_time(f.type) for f in columns):
        return []
    writer_features = sorted({*features, "appendOnly", "invariants", _LOCAL_TIME_FEATURE})
    reader_features = sorted({*(protocol.get("readerFeatures") or ()), _LOCAL_TIME_FEATURE})
    return [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": reader_features,
                "writerFeatures": writer_features,
            }
        }
    ]


def table_schema(columns: pa.Schema) -> pa.Schema:
    """Return all columns of the table for the columns of its rows."""
    positions = [(INDEX, pa.int64()), (PARTITION, pa.int32()), (BASE, pa.int64())]
    return pa.schema([*columns, *(pa.field(name, type_) for name, type_ in positions)])


def _has_local_time(type_: pa.DataType) -> bool:
    if pa.types.is_timestamp(type_):
        return type_.tz is None
    if pa.types.is_map(type_):
        return _has_local_time(type_.key_type) or _has_local_time(type_.item_type)
    return any(_has_local_time(type_.field(i).type) for i in range(type_.num_fields))


def version_name(version: int) -> str:
    """Return the name of a version's file."""
    return f"{version:020d}.json"


@dataclass(frozen=True, slots=True)
class NewVersions:
    """Versions that were read, in order. `from_checkpoint`: the first is a whole table, not only
    what changed.
    """

    from_checkpoint: bool
    versions: list[tuple[int, list[Action]]]


def read_new_versions(log: Folder, version: int) -> NewVersions:
    """Read the versions after one (-1: all).

    Raises:
        InternalError: `topic.log_damaged`.
    """
    if version >= 0:
        new = list(_read_versions(log, version + 1))
        # no later version can be missing while this one exists: a table forgets a state that it has
        # not refreshed for long (`MAX_STATE_AGE_S`), before old versions can have been deleted
        if new or log.get_sizes([version_name(version)]) != [None]:
            return NewVersions(from_checkpoint=False, versions=new)
    start = find_newest_checkpoint(log)
    if start is None:
        return NewVersions(from_checkpoint=True, versions=list(_read_versions(log, 0)))
    if start == version:
        return NewVersions(from_checkpoint=False, versions=[])
    whole = (start, list(read_checkpoint(log, start)))
    return NewVersions(from_checkpoint=True, versions=[whole, *_read_versions(log, start + 1)])


def put_version(log: Folder, version: int, actions: Iterable[Action]) -> bool:
    """Write a version unless it exists; durable when this returns True. False: it exists, written
    by another process or by this one.
    """
    text = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
    return log.put_new(version_name(version), text.encode())


def find_newest_checkpoint(log: Folder) -> int | None:
    """Return the version of the newest checkpoint; None when there is none."""
    try:
        return int(json.loads(log.read("_last_checkpoint"))["version"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        matches = (_CHECKPOINT.fullmatch(file.name) for file in log.list_files())
        return max((int(match[1]) for match in matches if match), default=None)


def read_checkpoint(log: Folder, version: int) -> Iterator[Action]:
    """Yield all actions of a checkpoint.

    Raises:
        InternalError: `topic.log_damaged`.
    """
    parts = list_checkpoint_files(log, version)
    opened = log.open_files((part.name, part.bytes) for part in parts)
    for part in parts:
        try:
            with next(opened) as source, pq.ParquetFile(source) as file:
                has = set(file.schema_arrow.names)
                rows = file.read(columns=[kind for kind in _CHECKPOINT_KINDS if kind in has])
        except pa.ArrowException as error:
            raise _log_damaged(log, part.name, error) from error
        for kind in rows.column_names:
            for content in rows.column(kind).drop_null().to_pylist():
                yield {kind: _to_json_form(content)}


def list_checkpoint_files(log: Folder, version: int | None = None) -> list[FileInfo]:
    """Return the files of a checkpoint, by default of the newest one."""
    wanted = find_newest_checkpoint(log) if version is None else version
    if wanted is None:
        return []
    found = log.list_files(f"{wanted:020d}.checkpoint")
    return sorted((f for f in found if _CHECKPOINT.fullmatch(f.name)), key=lambda f: f.name)


def list_files_before(log: Folder, version: int) -> list[FileInfo]:
    """Return the log's files of earlier versions, oldest first."""
    return sorted(
        (file for file in log.list_files() if _version_of(file.name) < version),
        key=lambda f: f.name,
    )


def _version_of(name: str) -> float:
    """Return the version of a file; infinity when it has none."""
    match = _VERSION.fullmatch(name) or _CHECKPOINT.fullmatch(name)
    return int(match[1]) if match else float("inf")


def _read_versions(log: Folder, first: int) -> Iterator[tuple[int, list[Action]]]:
    for version, content in enumerate(log.read_sequence(map(version_name, count(first))), first):
        try:
            actions = [json.loads(line) for line in content.decode().splitlines() if line]
        except ValueError as error:
            raise _log_damaged(log, version_name(version), error) from error
        if not actions:  # no writer commits nothing: the disk lost the content, and so its rows
            raise _log_damaged(log, version_name(version), "it is empty")
        yield version, actions


def _log_damaged(log: Folder, name: str, error: Exception | str) -> InternalError:
    return InternalError(
        "topic.log_damaged",
        f"{log.url}/{name} is not a valid file of a Delta log: {error}",
        fix="Check it with another Delta tool: a disk fault or a user changed it. Restore it "
        "from a backup.",
    )


def _to_json_form(content: Mapping[str, Any]) -> Action:
    """Return a row of a checkpoint in the form of a JSON action: Arrow has maps as lists of
    pairs.
    """
    action = dict(content)
    for name in ("partitionValues", "configuration"):
        if isinstance(action.get(name), list):
            action[name] = dict(action[name])
    format_ = action.get("format")
    if isinstance(format_, dict):
        action["format"] = {**format_, "options": dict(format_.get("options") or {})}
    return action
