"""Frames of a read stream as events of the model, checked by the rules on the way."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock.api.connector.v1 import types_pb2
from penstock.api.error.v1 import diagnostic_pb2
from penstock.api.record.v1 import record_pb2
from penstock.model.metrics import LONGEST_NAME, MOST_OF_PLUGIN, PluginNumber
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
from penstock.plugin.errors import clean, printable, violation
from penstock.plugin.streams import schemas
from penstock.plugin.streams.read_rules import ReadRules, check_partition
from penstock.wire import error as error_wire
from penstock.wire import record as record_wire

log = logging.getLogger(__name__)


_NAME: Final = re.compile(rf"[a-z][a-z0-9_]{{0,{LONGEST_NAME - 1}}}")
_MOST_SHOWN: Final = 5


class PluginNumbers:
    """The numbers of the plugin at one end of a task."""

    def __init__(self, plugin: str = "", end: str = "") -> None:
        """`end` is source or sink."""
        self._plugin, self._end = plugin, end
        self._now: tuple[PluginNumber, ...] = ()
        self._warned = False

    def take(self, progress: types_pb2.Progress) -> None:
        """Take in a frame. One without numbers, or about a single partition, changes nothing."""
        if progress.metrics and not progress.partition_id:
            good = _good(progress.metrics)
            told = sorted(good.items())[:MOST_OF_PLUGIN]
            self._now = tuple(PluginNumber(self._plugin, self._end, *one) for one in told)
            if len(told) < len(progress.metrics):
                self._warn(progress.metrics, dict(told))

    def now(self) -> tuple[PluginNumber, ...]:
        """Return the newest."""
        return self._now

    def _warn(self, metrics: Mapping[str, float], told: Mapping[str, float]) -> None:
        if self._warned:
            return
        self._warned = True
        out = [name for name in sorted(metrics) if _plain(name) not in told][:_MOST_SHOWN]
        log.warning(
            "plugin %s has numbers that are not told (%s): a name is up to %d lower-case letters, "
            "digits, `_` and `.`, a value is finite, and %d are the most",
            self._plugin,
            ", ".join(printable(name, LONGEST_NAME) for name in out) or "names that come twice",
            LONGEST_NAME,
            MOST_OF_PLUGIN,
        )


def _good(metrics: Mapping[str, float]) -> dict[str, float]:
    plain = {_plain(name): value for name, value in metrics.items() if math.isfinite(value)}
    return {name: value for name, value in plain.items() if _NAME.fullmatch(name)}


def _plain(name: str) -> str:
    """Return a name of OpenTelemetry as Prometheus has it."""
    return name.replace(".", "_")


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
