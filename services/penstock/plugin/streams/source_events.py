"""Frames of a read stream as events of the model, and the metrics that plugins report.

`ReadRules` checks each frame before it becomes an event. The conversion is written by hand: a
source sends a frame for each batch, and the rules name the frame that breaks them.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock.api.connector.v1 import types_pb2
from penstock.api.record.v1 import record_pb2
from penstock.model.metrics import MAX_METRIC_NAME_LENGTH, MAX_PLUGIN_METRICS, PluginMetric
from penstock.model.stream import (
    BadRow,
    BatchReady,
    Checkpoint,
    EndOfStream,
    PartitionDone,
    Progress,
    ReadEvent,
    SchemaVersion,
)
from penstock.plugin import protocol_rules
from penstock.plugin.errors import clean_diagnostic, escape_text, protocol_violation
from penstock.plugin.protocol_rules import ReadRules, check_partition_id
from penstock.wire.error import DIAGNOSTIC
from penstock_values.messages import offset_from_proto

_log = logging.getLogger(__name__)

_NAME: Final = re.compile(rf"[a-z][a-z0-9_]{{0,{MAX_METRIC_NAME_LENGTH - 1}}}")
_MAX_SHOWN: Final = 5


@dataclass(slots=True)
class SourceFrameReader:
    """Checks the frames of one read stream and converts them into events."""

    rules: ReadRules
    redact: Callable[[str], str]
    metrics: PluginMetrics

    def to_event(self, frame: pb.ReadResponse) -> ReadEvent | None:
        """Return the event of a frame; None for a frame of a newer protocol version (R16).

        Raises:
            InternalError: `plugin.protocol.*`, for the rule that the frame breaks.
        """
        match frame.WhichOneof("kind"):
            case "opened":
                raise protocol_violation("second_opened", "ReadOpened came twice")
            case "schema":
                return self._schema(frame.schema)
            case "ready":
                return self._batch_ready(frame.ready)
            case "checkpoint":
                return self._checkpoint(frame.checkpoint)
            case "partition_done":
                return self._partition_done(frame.partition_done)
            case "progress":
                return self._progress(frame.progress)
            case "bad_row":
                return self._bad_row(frame.bad_row)
            case "drained":
                self.rules.check_drained(frame.drained.checkpoint_id)
                return EndOfStream(frame.drained.checkpoint_id)
            case _:
                return None

    def _schema(self, message: record_pb2.Schema) -> SchemaVersion:
        schema = protocol_rules.schema_from_proto(message)
        self.rules.check_schema(schema)
        return SchemaVersion(schema)

    def _batch_ready(self, message: pb.BatchReady) -> BatchReady:
        ready = BatchReady(
            message.seq, message.schema_id, message.partition_id, message.rows, message.bytes
        )
        self.rules.check_batch(ready)
        return ready

    def _checkpoint(self, message: pb.Checkpoint) -> Checkpoint:
        checkpoint = Checkpoint(
            checkpoint_id=message.checkpoint_id,
            offsets={id_: offset_from_proto(offset) for id_, offset in message.offsets.items()},
            rows=message.rows,
            last_seq=message.last_seq,
            await_commit=message.await_commit,
        )
        self.rules.check_checkpoint(checkpoint)
        return checkpoint

    def _partition_done(self, message: pb.PartitionDone) -> PartitionDone:
        self.rules.check_not_drained("PartitionDone")
        check_partition_id(message.partition_id)
        return PartitionDone(message.partition_id)

    def _progress(self, message: types_pb2.Progress) -> Progress | None:
        if self.rules.drained:
            return None  # a heartbeat that was sent before the end
        self.metrics.update(message)
        self.rules.check_confirmed(message.committed_checkpoint_id)
        return Progress(
            bytes_left=max(-1, message.lag_bytes),
            rows_left=max(-1, message.lag_records),
            committed=message.committed_checkpoint_id,
        )

    def _bad_row(self, message: pb.BadRow) -> BadRow:
        self.rules.check_not_drained("BadRow")
        return BadRow(
            partition_id=message.partition_id,
            raw=message.raw,
            reason=clean_diagnostic(DIAGNOSTIC.from_proto(message.reason), self.redact),
            dataset=message.dataset,
            offset=(offset_from_proto(message.offset) if message.HasField("offset") else None),
        )


class PluginMetrics:
    """The newest metrics that the source or sink plugin of a task reported."""

    def __init__(self, plugin: str = "", end: str = "") -> None:
        """`end` is source or sink."""
        self._plugin, self._end = plugin, end
        self._current: tuple[PluginMetric, ...] = ()
        self._warned = False

    def update(self, progress: types_pb2.Progress) -> None:
        """Replace the metrics by those of a frame; a frame without metrics changes nothing."""
        if progress.metrics:
            valid = _valid_metrics(progress.metrics)
            kept = sorted(valid.items())[:MAX_PLUGIN_METRICS]
            self._current = tuple(PluginMetric(self._plugin, self._end, *one) for one in kept)
            if len(kept) < len(progress.metrics):
                self._warn_once(progress.metrics, dict(kept))

    def current(self) -> tuple[PluginMetric, ...]:
        """Return the newest metrics."""
        return self._current

    def _warn_once(self, metrics: Mapping[str, float], kept: Mapping[str, float]) -> None:
        if self._warned:
            return
        self._warned = True
        dropped = [n for n in sorted(metrics) if _prometheus_name(n) not in kept][:_MAX_SHOWN]
        _log.warning(
            "plugin %s reports metrics that are dropped (%s): names may have up to %d lower-case "
            "letters, digits, `_` and `.`, values must be finite, and at most %d metrics are kept",
            self._plugin,
            ", ".join(escape_text(name, MAX_METRIC_NAME_LENGTH) for name in dropped)
            or "duplicate names",
            MAX_METRIC_NAME_LENGTH,
            MAX_PLUGIN_METRICS,
        )


def _valid_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    finite = {_prometheus_name(n): value for n, value in metrics.items() if math.isfinite(value)}
    return {name: value for name, value in finite.items() if _NAME.fullmatch(name)}


def _prometheus_name(name: str) -> str:
    """Return an OpenTelemetry metric name in the form of Prometheus."""
    return name.replace(".", "_")
