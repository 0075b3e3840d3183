"""`file-sink`: the task that writes files, exactly once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from penstock_builtin.file_sink.config import FileSinkConfig
from penstock_builtin.file_sink.hadoop import HdfsTarget, check_cluster
from penstock_builtin.file_sink.local import LocalTarget, check_folder
from penstock_builtin.file_sink.objects import ObjectTarget, check_bucket
from penstock_builtin.file_sink.staging import FileStaging, Layout
from penstock_connector import Staging, TransactionalSink

log = logging.getLogger(__name__)


class Target(Protocol):
    """The port of places: where staged files become visible."""

    def look(self, dataset: str, layout: Layout) -> None:
        """Refuse rows that cannot go there, while nothing has been written yet."""

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, layout: Layout
    ) -> FileStaging:
        """Return a place for an attempt at a slot that no reader sees."""

    def prepare(self, txn_id: int, staged: Sequence[FileStaging]) -> bytes:
        """Decide which staged file goes where, durably."""

    def commit(self, txn_id: int, state: bytes) -> None:
        """Make a transaction visible, if it is not yet."""

    def sweep(self) -> None:
        """Remove what earlier lives of the task staged and never prepared."""

    def close(self) -> None:
        """Let go of it."""


class FileSink(TransactionalSink[FileSinkConfig]):
    """Files of rows: text, JSON lines, CSV, Parquet or Avro.

    Appends to one file, or fills a folder, one of HDFS or a prefix of an object store with files.
    Rows become visible a transaction at a time, exactly once.
    """

    name = "file-sink"
    aliases = (
        "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "FileStreamSink",
        "org.apache.rocketmq.connect.file.FileSinkConnector",
        "io.confluent.connect.s3.S3SinkConnector",
        "S3SinkConnector",
        "io.confluent.connect.hdfs.HdfsSinkConnector",
        "HdfsSinkConnector",
        "io.confluent.connect.hdfs3.Hdfs3SinkConnector",
        "Hdfs3SinkConnector",
    )
    title = "Files of rows"

    @classmethod
    def check(cls, config: FileSinkConfig) -> None:
        """Try whether the place can be written to."""
        if config.is_object:
            check_bucket(config)
        elif config.is_hdfs:
            check_cluster(config)
        else:
            check_folder(config)

    def init(self, config: FileSinkConfig) -> None:
        """Take the configuration."""
        super().init(config)
        if config.is_whole or config.is_remote:
            # A file for each transaction: fewer, larger ones are what readers want.
            self.commit_every = 1.0  # type: ignore[misc] # a default of the class, by format here
        if config.commit_seconds:
            self.commit_every = config.commit_seconds  # type: ignore[misc] # as above
        self._target: Target | None = None

    def connect(self, task_id: str, epoch: int) -> None:
        """Take note of whose rows these are, and fence older epochs."""
        config = self.config
        made: Any = LocalTarget
        if config.is_remote:
            made = ObjectTarget if config.is_object else HdfsTarget
        self._target = made(config, task_id, epoch)

    @property
    def target(self) -> Target:
        """Where the connected task writes."""
        assert self._target is not None  # noqa: S101 - connect comes first
        return self._target

    def apply_schema(
        self, dataset: str, schema: pa.Schema, key_columns: Sequence[str]
    ) -> Sequence[str] | None:
        """Refuse rows that the format cannot hold, while nothing has been written yet."""
        layout = Layout.of(self.config, schema)
        self.target.look(dataset, layout)
        if left_out := layout.left_out:
            log.warning(
                "of %s, only the column `line` is written, and not %s: set `format=jsonl` to have "
                "all columns, or `text.column=line` to have it so",
                dataset,
                ", ".join(left_out),
            )
        return None

    def stage(
        self, txn_id: int, slot: int, attempt: int, dataset: str, schema: pa.Schema
    ) -> Staging:
        """Return a place for an attempt at a slot, out of sight."""
        layout = Layout.of(self.config, schema)
        return self.target.stage(txn_id, slot, attempt, dataset, layout)

    def prepare(self, txn_id: int, epoch: int, staged: Sequence[Staging], token: bytes) -> bytes:
        """Decide which staged file goes where."""
        files = [staging for staging in staged if isinstance(staging, FileStaging)]
        return self.target.prepare(txn_id, files)

    def commit(self, txn_id: int, epoch: int, state: bytes) -> None:
        """Make a transaction visible, if it is not yet."""
        self.target.commit(txn_id, state)

    def sweep(self, txn_id_done: int) -> None:
        """Remove what earlier lives of the task staged and never prepared."""
        self.target.sweep()

    def close(self) -> None:
        """Let go of the place."""
        if self._target is not None:
            self._target.close()
