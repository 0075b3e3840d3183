"""What a source said → frames of the Read stream. Numbers and credit are the pump's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa

from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock.api.connector.v1 import types_pb2 as types_pb
from penstock.api.record.v1 import record_pb2 as record_pb
from penstock_connector import _frames
from penstock_connector._checkpoints import Offsets
from penstock_connector._credit import Held
from penstock_connector._errors import ConnectorError
from penstock_connector._rows import CUT_MOST, CUT_TARGET, Cut, Schemas, to_arrow
from penstock_connector._source import BadRow, Batch, Source
from penstock_connector._values import Partition
from penstock_values.identity import partition_id
from penstock_values.memory_files import MemoryFile
from penstock_values.messages import offset_to_proto

HEARTBEAT: Final = 30.0
"""Seconds without a progress frame after which the host may call a task stuck. Frames go out at a
third of it. Shorter makes idle tasks cost; longer leaves a hanging source unnoticed."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an author's batch that is one batch on the wire."""

    rows: pa.RecordBatch
    schema_id: int
    partition_id: str
    schema_frames: list[pb.ReadResponse] = field(default_factory=list)


class Encoder:
    """Knows the stream's schemas, the host's limits and the task's partitions."""

    def __init__(
        self,
        partitions: Sequence[Partition],
        limits: types_pb.Limits,
        *,
        memory_files: bool = False,
    ) -> None:
        self._memory_files = memory_files
        self._only = partitions[0].id if len(partitions) == 1 else ""
        self._schemas = Schemas()
        self._done: set[str] = set()
        self._message_most = min(limits.max_message_bytes or 1 << 62, _frames.MESSAGE_MOST)
        self._cut = Cut(
            target_bytes=limits.target_batch_bytes or CUT_TARGET,
            most_rows=limits.max_batch_rows or 1 << 20,
            most_bytes=min(CUT_MOST, self._message_most * 3 // 4),
        )

    def opened(
        self, kind: type[Source[Any]], *, ends_when_caught_up: bool = False
    ) -> pb.ReadResponse:
        """Return the first frame."""
        opened = pb.ReadOpened(
            encoding=record_pb.ENCODING_ARROW_IPC,
            needs_commit=kind.needs_commit or kind.ack is not Source.ack,
            confirms_commits=True,
            ends_when_caught_up=ends_when_caught_up,
        )
        opened.heartbeat_every.FromTimedelta(timedelta(seconds=HEARTBEAT))
        return pb.ReadResponse(opened=opened)

    def partition_id(self, batch: Batch) -> str:
        """Return the id of a batch's partition."""
        match batch.partition:
            case Partition() as partition:
                return partition.id
            case Mapping() as key:
                return partition_id(key)
        if not self._only:
            raise ConnectorError(
                "source.batch.no_partition",
                "a batch names no partition, and the task has not exactly one",
                fix="Set Batch.partition.",
            )
        return self._only

    def pieces(self, batch: Batch) -> Iterator[Piece]:
        """Return a batch's rows in sizes for the wire, with the frames of new schemas."""
        if not _has_rows(batch.rows):
            return
        current = self._schemas.current(batch.dataset)
        rows = to_arrow(batch.rows, batch.schema, current)
        schema_id, new = self._schemas.id_of(batch.dataset, rows.schema, batch.key_columns)
        frames = [pb.ReadResponse(schema=new)] if new else []
        id_ = self.partition_id(batch)
        for part in self._cut.apply(rows):
            yield Piece(part, schema_id, id_, frames)
            frames = []

    def ready(self, piece: Piece, seq: int) -> tuple[Held, pb.BatchReady]:
        """Return what answers Fetch, and what announces it."""
        head = record_pb.Batch(
            seq=seq,
            schema_id=piece.schema_id,
            rows=piece.rows.num_rows,
            encoding=record_pb.ENCODING_ARROW_IPC,
        )
        held = self._held(head, _frames.encode_rows(piece.rows))
        ready = pb.BatchReady(
            seq=seq,
            schema_id=piece.schema_id,
            partition_id=piece.partition_id,
            rows=piece.rows.num_rows,
            bytes=held.size,
        )
        return held, ready

    def _held(self, head: record_pb.Batch, data: pa.Buffer) -> Held:
        """Return a batch that can be fetched: its rows in a memory file, or in frames."""
        most = self._message_most
        file = MemoryFile.of_batch(data) if self._memory_files else None
        if file is not None:
            frame = _frames.memory_frame(head, file.message)
            return Held(
                data.size, lambda: _frames.fetch_frames(head, file.read(), most), file, frame
            )
        frames = _frames.fetch_frames(head, data, most)
        return Held(sum(map(len, frames)), lambda: frames)

    def offsets(self, batch: Batch) -> Offsets:
        """Return the offsets after the rows of a batch by partition id; none: no checkpoint."""
        offsets = dict(batch.offsets)
        if batch.offset is not None:
            offsets[self.partition_id(batch)] = batch.offset
        return offsets

    def bad_rows(self, batch: Batch) -> list[pb.ReadResponse]:
        """Return the frames of rows that could not be read: they go to the dead letters."""
        return [
            pb.ReadResponse(
                bad_row=pb.BadRow(
                    partition_id=self.partition_id(batch),
                    raw=one.raw,
                    reason=one.error.diagnostic(),
                    dataset=batch.dataset,
                    offset=None if one.offset is None else offset_to_proto(one.offset),
                )
            )
            for one in itertools.starmap(BadRow, batch.bad_rows)
        ]

    def partition_done(self, batch: Batch) -> pb.ReadResponse:
        """Return the frame that ends a batch's partition."""
        id_ = self.partition_id(batch)
        self._done.add(id_)
        return pb.ReadResponse(partition_done=pb.PartitionDone(partition_id=id_))

    def finished(self, partitions: Sequence[Partition]) -> list[pb.ReadResponse]:
        """Return the frames that end the partitions that did not end yet."""
        return [
            pb.ReadResponse(partition_done=pb.PartitionDone(partition_id=id_))
            for id_ in dict.fromkeys(partition.id for partition in partitions)
            if id_ not in self._done
        ]


def _has_rows(rows: Any) -> bool:
    return bool(rows.num_rows if isinstance(rows, pa.RecordBatch | pa.Table) else len(rows))
