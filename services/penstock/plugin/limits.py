"""Limits of plugins: deadlines of their calls, limits of their streams, options of their start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from google.protobuf.duration_pb2 import Duration

from penstock.api.connector.v1 import types_pb2


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds that each stage of a plugin may take (invariant 8: every wait has a deadline).

    The error of a stage that took longer names the stage.
    """

    handshake_s: float = 60.0
    """Start of the process to its handshake line. A single Python plugin takes 0.2 s, but a node
    that restarts starts all of its plugins at once, beside a JVM."""
    health_s: float = 5.0
    """Handshake to a serving health service."""
    describe_s: float = 5.0
    """Describe works offline, so it has no reason to be slow."""
    validate_s: float = 10.0
    """ValidateConfig: a user waits for it."""
    plan_s: float = 30.0
    """Plan may list files or shards of a remote system."""
    alter_offsets_s: float = 10.0
    """AlterOffsets: a user waits for it."""
    apply_s: float = 120.0
    """Apply may create tables and slots."""
    signal_s: float = 30.0
    """Signal: a user waits for it, and a source opens a session to write a row."""
    check_s: float = 60.0
    """All steps of CheckConnection together."""
    list_datasets_s: float = 60.0
    """ListDatasets: a user waits for it, and a source looks up the columns of each dataset."""
    parse_rows_s: float = 60.0
    """ParseRows: a user waits for it, and a source may open the file or table of each row."""
    open_s: float = 30.0
    """ReadOpen or WriteOpen to its answer. A sink may fence and recover a transaction in it."""
    send_s: float = 10.0
    """A frame on a control stream. Frames are small: one that cannot be sent means that the plugin
    no longer reads."""
    schema_s: float = 60.0
    """Schema to SchemaApplied: may alter tables."""
    prepare_s: float = 120.0
    """Prepare to Prepared: the sink makes rows durable. A shorter deadline fails slow disks, a
    longer one hides a hang."""
    commit_s: float = 120.0
    """Commit to TxnCommitted."""
    slow_s: float = 10.0
    """A sink that has not answered after this time is logged, with the stage and its deadline."""
    end_s: float = 2.0
    """Time that a plugin gets to end beyond the grace that it was given."""


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """Where plugins are started, and under which limits."""

    runtime_dir: Path
    deadlines: Deadlines = field(default_factory=Deadlines)
    telemetry: Mapping[str, str] | None = None
    max_memory_bytes: int = 0
    """Memory that a plugin process and its descendants may keep; 0: unlimited."""


GRPC_DEFAULT_BYTES: Final = 4 << 20
"""Largest message that a gRPC server takes by default."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Limits of one control stream and of the batches of its task."""

    credit_bytes: int = 64 << 20
    """Bytes that a source may hold ready. A larger credit hides a slow sink for longer and costs
    memory in the plugin; with a smaller one Spark waits for the source between two
    micro-batches."""
    max_message_bytes: int = GRPC_DEFAULT_BYTES
    """Largest gRPC message with rows."""
    target_batch_bytes: int = 4 << 20
    """Wanted size of a batch."""
    max_batch_rows: int = 131_072
    """Largest number of rows in a batch."""

    def to_proto(self) -> types_pb2.Limits:
        """Return the message."""
        return types_pb2.Limits(
            max_message_bytes=self.max_message_bytes,
            target_batch_bytes=self.target_batch_bytes,
            max_batch_rows=self.max_batch_rows,
        )


def duration(seconds: float) -> Duration:
    """Return the protobuf duration of so many seconds."""
    message = Duration()
    message.FromTimedelta(timedelta(seconds=seconds))
    return message
