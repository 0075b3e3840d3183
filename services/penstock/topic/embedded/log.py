"""What a topic's Delta log says, read on incrementally: O(new versions), not O(files).

A commit of the log is `_delta_log/<20 digits>.json`, one action a line (the Delta protocol). When a
version was cleaned up before it was read, the table is listed as a whole, through deltalake.
"""

from __future__ import annotations

import json
from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable, Schema

PARTITION: Final = "__partition"
BASE: Final = "__base"
INDEX: Final = "__index"
EPOCH_SUFFIX: Final = "#epoch"


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
class TopicLog:
    """The state of a topic at a version; `refresh` reads on."""

    root: Path
    version: int = -1
    files: dict[int, list[TopicFile]] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)
    schema: pa.Schema | None = None
    partitions: int = 1

    def refresh(self) -> bool:
        """Read what was committed since; True when there was something."""
        before = self.version
        while (actions := self._commit(self.version + 1)) is not None:
            for action in actions:
                self._apply(action)
            self.version += 1
        if self.version < 0 or self._was_cleaned():
            self._list_all()
        return self.version != before

    def next_offset(self, partition: int) -> int:
        """Return the offset of the next row of a partition."""
        files = self.files.get(partition)
        return files[-1].end if files else self.transactions.get(_head_key(partition), 0)

    def low_offset(self, partition: int) -> int:
        """Return the offset of the first row that is still there."""
        files = self.files.get(partition)
        return files[0].base if files else self.next_offset(partition)

    def _path(self, version: int) -> Path:
        return self.root / "_delta_log" / f"{version:020d}.json"

    def _commit(self, version: int) -> list[dict[str, Any]] | None:
        try:
            text = self._path(version).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        return [json.loads(line) for line in text.splitlines() if line]

    def _was_cleaned(self) -> bool:
        """Tell whether versions after ours exist although the next one does not."""
        pointer = self.root / "_delta_log" / "_last_checkpoint"
        try:
            newest = int(json.loads(pointer.read_text(encoding="utf-8"))["version"])
        except (FileNotFoundError, ValueError, KeyError):
            return False
        return newest > self.version

    def _list_all(self) -> None:
        if not DeltaTable.is_deltatable(str(self.root)):
            return
        table = DeltaTable(str(self.root))
        self.files.clear()
        for file in pa.table(table.get_add_actions(flatten=True)).to_pylist():
            found = TopicFile(
                int(file[f"partition.{BASE}"]),
                int(file["num_records"]),
                file["path"],
                int(file["size_bytes"]),
            )
            insort(self.files.setdefault(int(file[f"partition.{PARTITION}"]), []), found)
        self._take_schema(pa.schema(table.schema()), table.metadata().description)
        self.version = table.version()

    def _apply(self, action: dict[str, Any]) -> None:
        match next(iter(action)):
            case "add":
                self._added(action["add"])
            case "remove":
                self._removed(action["remove"]["path"])
            case "metaData":
                meta = action["metaData"]
                schema = pa.schema(Schema.from_json(meta["schemaString"]))
                self._take_schema(schema, meta.get("description"))
            case "txn":
                self.transactions[action["txn"]["appId"]] = action["txn"]["version"]

    def _added(self, add: dict[str, Any]) -> None:
        values = add["partitionValues"]
        rows = json.loads(add["stats"])["numRecords"]
        found = TopicFile(
            int(values[BASE]), rows, add["path"], add["size"], add["modificationTime"]
        )
        insort(self.files.setdefault(int(values[PARTITION]), []), found)

    def _removed(self, path: str) -> None:
        for files in self.files.values():
            files[:] = [file for file in files if file.path != path]

    def _take_schema(self, schema: pa.Schema, description: str | None) -> None:
        self.schema = schema
        if description:
            self.partitions = int(json.loads(description)["partitions"])

    def of_partition(self, partition: int, offset: int) -> Iterator[TopicFile]:
        """Yield the files of a partition that have rows at or after an offset, in order."""
        for file in self.files.get(partition, ()):
            if file.end > offset:
                yield file


def _head_key(partition: int) -> str:
    """Return the transaction id under which a partition's next offset is kept when its files are
    gone.
    """
    return f"penstock#head#{partition}"
