"""Lines of a commit, as the Delta protocol has them. Pure."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import Schema

from penstock.topic.embedded.spec import TopicSpec
from penstock.topic.embedded.state import Action, TopicFile
from penstock.topic_files import BASE, INDEX, PARTITION
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
