"""Frames of a read stream as events of the model, checked by the rules on the way."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock.api.connector.v1 import types_pb2
from penstock.api.error.v1 import diagnostic_pb2
from penstock.api.record.v1 import record_pb2
from penstock.model.stream import (
    BadRow,
    BatchReady,
    Checkpoint,
    Drained,
    PartitionDone,
    Progress,
    ReadEvent,
    SchemaSeen,
    Warned,
)
from penstock.plugin import schemas
from penstock.plugin.failures import clean, violation
from penstock.plugin.numbers import PluginNumbers
from penstock.plugin.read_rules import ReadRules, check_partition
from penstock.wire import error as error_wire
from penstock.wire import record as record_wire

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Reader:
    """Turns frames into events. `draining` tells that the host asked for the end."""

    rules: ReadRules
    redact: Callable[[str], str]
    who: str
    numbers: PluginNumbers
    draining: bool = False

    def event(self, frame: pb.ReadResponse) -> ReadEvent | None:
        """Return the event of a frame; None for one that the host has no use for (R16).

        Raises:
            InternalError: `plugin.protocol.*`, for the rule that the frame breaks.
        """
        kind = frame.WhichOneof("kind")
        if kind is None:
            return None
        event: ReadEvent | None = getattr(self, f"_{kind}")(getattr(frame, kind))
        return event

    def _opened(self, _: pb.ReadOpened) -> None:
        raise violation("second_opened", "ReadOpened came twice")

    def _schema(self, message: record_pb2.Schema) -> SchemaSeen:
        schema = schemas.from_proto(message)
        self.rules.schema(schema)
        return SchemaSeen(schema)

    def _ready(self, message: pb.BatchReady) -> BatchReady:
        ready = BatchReady(
            message.seq, message.schema_id, message.partition_id, message.rows, message.bytes
        )
        self.rules.batch(ready)
        return ready

    def _checkpoint(self, message: pb.Checkpoint) -> Checkpoint:
        if message.abort:
            # Rows that must not be written: to ignore it would be wrong, and no feature allows it.
            raise violation(
                "feature_not_agreed", "Checkpoint.abort needs a feature that this host has not"
            )
        checkpoint = Checkpoint(
            checkpoint_id=message.checkpoint_id,
            offsets={
                id_: record_wire.offset_from_proto(offset)
                for id_, offset in message.offsets.items()
            },
            rows=message.rows,
            last_seq=message.last_seq,
            await_commit=message.await_commit,
        )
        self.rules.checkpoint(checkpoint)
        return checkpoint

    def _partition_done(self, message: pb.PartitionDone) -> PartitionDone:
        self.rules.other("PartitionDone")
        check_partition(message.partition_id)
        return PartitionDone(message.partition_id, message.finished)

    def _partition_change(self, message: connector_pb.PartitionChange) -> None:
        added, removed = len(message.added), len(message.removed)
        _log.info("plugin %s: %d partitions found, %d gone", self.who, added, removed)

    def _progress(self, message: types_pb2.Progress) -> Progress | None:
        if self.rules.drained:
            return None  # a heartbeat that was under way
        self.numbers.take(message)
        self.rules.confirm(message.committed_checkpoint_id)
        return Progress(
            bytes_left=max(-1, message.lag_bytes),
            rows_left=max(-1, message.lag_records),
            committed=message.committed_checkpoint_id,
        )

    def _diagnostic(self, message: diagnostic_pb2.Diagnostic) -> Warned | None:
        if self.rules.drained:
            return None
        return Warned(clean(error_wire.from_proto(message), self.redact))

    def _config_update(self, _: connector_pb.ConfigUpdate) -> None:
        raise violation("feature_not_agreed", "ConfigUpdate needs a feature that this host has not")

    def _bad_row(self, message: pb.BadRow) -> BadRow:
        self.rules.other("BadRow")
        return BadRow(
            partition_id=message.partition_id,
            raw=message.raw,
            reason=clean(error_wire.from_proto(message.reason), self.redact),
            dataset=message.dataset,
            offset=(
                record_wire.offset_from_proto(message.offset)
                if message.HasField("offset")
                else None
            ),
        )

    def _drained(self, message: pb.Drained) -> Drained:
        self.rules.drain(message.checkpoint_id, asked=self.draining)
        return Drained(message.checkpoint_id)
