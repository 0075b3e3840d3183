"""The state of a topic's table at a version. Pure: made by applying the actions of its log in
order.

An action is one line of a commit in the Delta protocol: `add`, `remove`, `metaData`, `protocol`,
`txn`, and others that do not concern rows.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, TypeAlias

import pyarrow as pa
from deltalake import Schema

from penstock.model.arrow_schema import copy_semantic_type
from penstock.model.errors import ConfigError
from penstock.model.topic import Retention
from penstock.topic_files.layout import BASE, PARTITION, POSITION_COLUMNS, path_from_log


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """What a topic was created with: partitions, key columns of the rows, and a retention of its
    own (None: that of the node).
    """

    partitions: int = 1
    key_columns: tuple[str, ...] = ()
    retention: Retention | None = field(default=None)

    def to_text(self) -> str:
        """Return the spec as the description of the table."""
        fields: dict[str, Any] = {"partitions": self.partitions, "key_columns": self.key_columns}
        if self.retention is not None:
            fields["retention_seconds"] = self.retention.seconds
            fields["retention_bytes"] = self.retention.bytes
        return json.dumps(fields)

    @staticmethod
    def from_text(text: str | None) -> TopicSpec:
        """Return the spec in a description; the default when a user has changed it to other
        text.
        """
        try:
            fields = json.loads(text or "{}")
            partitions = int(fields.get("partitions", 1))
            keys = tuple(map(str, fields.get("key_columns", ())))
            limits = [float(fields.get(f"retention_{what}", 0)) for what in ("seconds", "bytes")]
        except (ValueError, TypeError, AttributeError, OverflowError):
            return TopicSpec()
        own = Retention(limits[0], int(limits[1])) if "retention_seconds" in fields else None
        return TopicSpec(max(1, partitions), keys, own)


Action: TypeAlias = dict[str, Any]

SUPPORTED_FEATURES: Final = frozenset({"appendOnly", "invariants", "timestampNtz"})
"""Table features with which commits are correct and readers see every row."""

_base_of = attrgetter("base")


@dataclass(frozen=True, slots=True, order=True)
class TopicFile:
    """A committed file: offsets `base` to `base + rows - 1` of its partition."""

    base: int
    rows: int
    path: str
    bytes: int = 0
    modified_ms: int = 0

    @property
    def end(self) -> int:
        """Offset after the last row."""
        return self.base + self.rows


@dataclass(slots=True)
class TopicState:
    """A topic at a version; -1: it does not exist. Not thread-safe: its `TopicTable` guards it."""

    version: int = -1
    files: dict[int, list[TopicFile]] = field(default_factory=dict)
    """Files by partition, in order of their offsets."""
    tombstones: dict[str, int] = field(default_factory=dict)
    """Removed files, and when they were removed (milliseconds). Their content may still be read for
    a while."""
    transactions: dict[str, int] = field(default_factory=dict)
    spec: TopicSpec = field(default_factory=TopicSpec)
    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))
    """Columns of the rows, without those of their position."""
    metadata: dict[str, Any] = field(default_factory=dict)
    protocol: dict[str, Any] = field(default_factory=dict)
    _positions: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Partition and base of each file, by path."""

    def apply(self, version: int, actions: Iterable[Action]) -> None:
        """Become the next version; or any version, by all its actions at once (a checkpoint)."""
        by_kind: dict[str, list[Any]] = {}
        for action in actions:
            for kind, content in action.items():
                by_kind.setdefault(kind, []).append(content)
        for content in by_kind.get("protocol", ()):
            self.protocol = content
        for content in by_kind.get("metaData", ()):
            self._apply_metadata(content)
        for content in by_kind.get("txn", ()):
            self.transactions[content["appId"]] = content["version"]
        # removes first: a compaction adds a file with the base of one that it removes
        for content in by_kind.get("remove", ()):
            self._apply_remove(content)
        for content in by_kind.get("add", ()):
            self._apply_add(content)
        self.version = version

    def next_offset(self, partition: int) -> int:
        """Return the offset of the next row of a partition."""
        files = self.files.get(partition)
        return files[-1].end if files else self.transactions.get(next_offset_key(partition), 0)

    def first_offset(self, partition: int) -> int:
        """Return the offset of the first row that still exists."""
        files = self.files.get(partition)
        return files[0].base if files else self.next_offset(partition)

    def offset_at(self, partition: int, at_ms: int) -> int:
        """Return the offset from which on all rows are that were committed at a time or later: the
        beginning of a file, so some may be older. The next one where there are none.
        """
        files = self.files.get(partition, [])
        found = (file.base for file in files if file.modified_ms >= at_ms)
        return next(found, self.next_offset(partition))

    def files_from(self, partition: int, offset: int, max_files: int) -> Sequence[TopicFile]:
        """Return the first files of a partition with rows at or after an offset."""
        files = self.files.get(partition, [])
        first = max(0, bisect_right(files, offset, key=_base_of) - 1)
        if first < len(files) and files[first].end <= offset:
            first += 1
        return files[first : first + max_files]

    def has_file(self, path: str) -> bool:
        """Return whether a file is part of this version."""
        return path in self._positions

    def has_files(self, partition: int, files: Sequence[TopicFile]) -> bool:
        """Return whether all these files are still part of a partition."""
        return all(self._positions.get(file.path) == (partition, file.base) for file in files)

    def unsupported_features(self) -> list[str]:
        """Return the features of the table that are not supported here."""
        required = [*(self.protocol.get("readerFeatures") or ())]
        required += self.protocol.get("writerFeatures") or ()
        return sorted(set(required) - SUPPORTED_FEATURES)

    def _apply_add(self, add: Action) -> None:
        path = path_from_log(add["path"])
        values = add.get("partitionValues") or {}
        try:
            rows = int(json.loads(add["stats"])["numRecords"])
            partition, base = int(values[PARTITION]), int(values[BASE])
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                "topic.foreign_rows",
                f"file {path} was added without offsets: another tool wrote to the topic",
                fix="Restore the table to the version before it; write to topics only through "
                "Penstock.",
            ) from error
        if path.startswith(("/", "file:")) or ".." in path.split("/"):
            raise ConfigError(
                "topic.foreign_path",
                f"file {path} is outside of its topic",
                fix="Restore the table to the version before it; write to topics only through "
                "Penstock.",
            )
        file = TopicFile(base, rows, path, int(add["size"]), int(add["modificationTime"]))
        if path in self._positions:
            self._drop_file(path)
        insort(self.files.setdefault(partition, []), file)
        self._positions[path] = (partition, base)
        self.tombstones.pop(path, None)

    def _apply_remove(self, remove: Action) -> None:
        path = path_from_log(remove["path"])
        self.tombstones[path] = int(remove.get("deletionTimestamp") or 0)
        if path in self._positions:
            self._drop_file(path)

    def _drop_file(self, path: str) -> None:
        partition, base = self._positions.pop(path)
        files = self.files[partition]
        index = bisect_left(files, base, key=_base_of)
        while files[index].path != path:
            index += 1
        del files[index]

    def _apply_metadata(self, metadata: Action) -> None:
        self.metadata = metadata
        self.spec = TopicSpec.from_text(metadata.get("description"))
        schema = pa.schema(Schema.from_json(metadata["schemaString"]))
        self.columns = pa.schema(
            [to_arrow_field(f) for f in schema if f.name not in POSITION_COLUMNS]
        )


def next_offset_key(partition: int) -> str:
    """Return the application whose transaction keeps a partition's next offset when the partition
    has no file left.
    """
    return f"penstock#head#{partition}"


def to_arrow_field(column: pa.Field) -> pa.Field:
    """Return a column of a Delta schema in the types of Arrow files, also the names of items."""
    return copy_semantic_type(pa.field(column.name, _to_arrow_type(column.type)), column)


def _to_arrow_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_list(type_):
        return pa.list_(_to_arrow_type(type_.value_type))
    if pa.types.is_map(type_):
        return pa.map_(_to_arrow_type(type_.key_type), _to_arrow_type(type_.item_type))
    if pa.types.is_struct(type_):
        return pa.struct([to_arrow_field(type_.field(i)) for i in range(type_.num_fields)])
    return type_
