"""What a topic's table is at a version: pure, made by applying the actions of its log in order.

An action is one line of a commit, as the Delta protocol has it: `add`, `remove`, `metaData`,
`protocol`, `txn`, and others that say nothing about rows.
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

from penstock.model.column_meaning import with_meaning
from penstock.model.errors import ConfigError
from penstock.topic_files import BASE, HIDDEN, PARTITION
from penstock.topic_files.layout import path_from_log


@dataclass(frozen=True, slots=True)
class Retention:
    """How long rows are kept. 0 means for ever. `seconds` since they were committed; `bytes` of a
    topic's partition.
    """

    seconds: float = 0.0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """Partitions, key columns of the rows, and a retention of its own (None: that of all)."""

    partitions: int = 1
    key_columns: tuple[str, ...] = ()
    retention: Retention | None = field(default=None)

    def to_text(self) -> str:
        """Return the description of the table."""
        fields: dict[str, Any] = {"partitions": self.partitions, "key_columns": self.key_columns}
        if self.retention is not None:
            fields["retention_seconds"] = self.retention.seconds
            fields["retention_bytes"] = self.retention.bytes
        return json.dumps(fields)

    @staticmethod
    def from_text(text: str | None) -> TopicSpec:
        """Return what a description says; the default for one that a person wrote over."""
        try:
            fields = json.loads(text or "{}")
            partitions = int(fields.get("partitions", 1))
            keys = tuple(map(str, fields.get("key_columns", ())))
            kept = [float(fields.get(f"retention_{what}", 0)) for what in ("seconds", "bytes")]
        except (ValueError, TypeError, AttributeError):
            return TopicSpec()
        own = Retention(kept[0], int(kept[1])) if "retention_seconds" in fields else None
        return TopicSpec(max(1, partitions), keys, own)


Action: TypeAlias = dict[str, Any]

KNOWN_FEATURES: Final = frozenset({"appendOnly", "invariants", "timestampNtz"})
"""Table features under which our commits are right and our readers see every row."""

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
    """A topic at a version; -1: there is none. Not safe for threads: its table guards it."""

    version: int = -1
    files: dict[int, list[TopicFile]] = field(default_factory=dict)
    tombstones: dict[str, int] = field(default_factory=dict)
    """Files that were removed, and when (milliseconds): their data may still be read for a
    while."""
    transactions: dict[str, int] = field(default_factory=dict)
    spec: TopicSpec = field(default_factory=TopicSpec)
    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))
    """Columns of the rows: without those that are about their place."""
    metadata: dict[str, Any] = field(default_factory=dict)
    protocol: dict[str, Any] = field(default_factory=dict)
    _places: dict[str, tuple[int, int]] = field(default_factory=dict)

    def apply(self, version: int, actions: Iterable[Action]) -> None:
        """Become the next version; or any version, from all its actions at once (a checkpoint)."""
        found: dict[str, list[Any]] = {}
        for action in actions:
            for kind, content in action.items():
                found.setdefault(kind, []).append(content)
        for content in found.get("protocol", ()):
            self.protocol = content
        for content in found.get("metaData", ()):
            self._described(content)
        for content in found.get("txn", ()):
            self.transactions[content["appId"]] = content["version"]
        # a compaction removes files and adds one at the first one's base, in any order of lines
        for content in found.get("remove", ()):
            self._removed(content)
        for content in found.get("add", ()):
            self._added(content)
        self.version = version

    def next_offset(self, partition: int) -> int:
        """Return the offset of the next row of a partition."""
        files = self.files.get(partition)
        return files[-1].end if files else self.transactions.get(head_key(partition), 0)

    def low_offset(self, partition: int) -> int:
        """Return the offset of the first row that is still there."""
        files = self.files.get(partition)
        return files[0].base if files else self.next_offset(partition)

    def from_offset(self, partition: int, offset: int, most: int) -> Sequence[TopicFile]:
        """Return the first files of a partition that have rows at or after an offset."""
        files = self.files.get(partition, [])
        first = max(0, bisect_right(files, offset, key=_base_of) - 1)
        if first < len(files) and files[first].end <= offset:
            first += 1
        return files[first : first + most]

    def has(self, path: str) -> bool:
        """Tell whether a file is part of this version."""
        return path in self._places

    def has_all(self, partition: int, files: Sequence[TopicFile]) -> bool:
        """Tell whether all these files are still part of a partition."""
        return all(self._places.get(file.path) == (partition, file.base) for file in files)

    def unknown_features(self) -> list[str]:
        """Return what the table wants of its users that we do not know."""
        wanted = [*(self.protocol.get("readerFeatures") or ())]
        wanted += self.protocol.get("writerFeatures") or ()
        return sorted(set(wanted) - KNOWN_FEATURES)

    def _added(self, add: Action) -> None:
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
        if path in self._places:
            self._drop(path)
        insort(self.files.setdefault(partition, []), file)
        self._places[path] = (partition, base)
        self.tombstones.pop(path, None)

    def _removed(self, remove: Action) -> None:
        path = path_from_log(remove["path"])
        self.tombstones[path] = int(remove.get("deletionTimestamp") or 0)
        if path in self._places:
            self._drop(path)

    def _drop(self, path: str) -> None:
        partition, base = self._places.pop(path)
        files = self.files[partition]
        place = bisect_left(files, base, key=_base_of)
        while files[place].path != path:
            place += 1
        del files[place]

    def _described(self, metadata: Action) -> None:
        self.metadata = metadata
        self.spec = TopicSpec.from_text(metadata.get("description"))
        schema = pa.schema(Schema.from_json(metadata["schemaString"]))
        self.columns = pa.schema([plain(f) for f in schema if f.name not in HIDDEN])


def head_key(partition: int) -> str:
    """Return the application under which a partition's next offset is kept when none of its files
    is left.
    """
    return f"penstock#head#{partition}"


def plain(column: pa.Field) -> pa.Field:
    """Return a column of a Delta schema as Arrow files have it: names of items, too."""
    return with_meaning(pa.field(column.name, _plain_type(column.type)), column)


def _plain_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_list(type_):
        return pa.list_(_plain_type(type_.value_type))
    if pa.types.is_map(type_):
        return pa.map_(_plain_type(type_.key_type), _plain_type(type_.item_type))
    if pa.types.is_struct(type_):
        return pa.struct([plain(type_.field(i)) for i in range(type_.num_fields)])
    return type_
