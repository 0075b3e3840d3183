"""Writes dead letters of the rejected rows of a slot.

The batches of the slot are read once more. The rows that failed become dead letters, which go to
the sink of the dead-letter queue.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, TypeAlias, TypeVar

import pyarrow as pa

from penstock.model.columns import HEADERS, OFFSET
from penstock.model.dead_letter import (
    DEAD_LETTER_SCHEMA,
    RowFailure,
    RowOrigin,
    Stage,
    kafka_stage,
    with_key_columns,
)
from penstock.model.ticket import SlotTicket, Ticket
from penstock.spark.connector_io.json_lines import format_rows
from penstock.spark.connector_io.live_rows import format_offset
from penstock.spark.slot_reports import WriteResult, read_diagnostic, write_diagnostic

WriteRows: TypeAlias = Callable[[Ticket, SlotTicket, int, Iterable[pa.RecordBatch]], WriteResult]

MAX_LOG_CHARS: Final = 1_000
"""Characters of a row in a log line."""

_KAFKA_PREFIX: Final = "__connect.errors."

_Item = TypeVar("_Item", bound=Hashable)


def dead_letter_spec(
    failed: Sequence[tuple[int, RowFailure, RowOrigin]],
    raw: Sequence[tuple[bytes, RowFailure, RowOrigin]],
    origin: Mapping[str, Any],
    to: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the write spec of a slot of dead letters.

    Args:
        failed: Rows by their number in the slot (-1: not known), in order, why they failed, and
            where they come from.
        raw: Rows that could not be read: their bytes, why, and where they come from.
        origin: `connector`, `task`, `dataset`, its `key_columns`, `attempt`, `failed_at`
            (microseconds), `headers` (whether dead letters get those of Kafka Connect), and
            `shown`: how many rows are wanted as text.
        to: The write spec of the sink that takes the dead letters.
    """
    reasons: dict[RowFailure, int] = {}
    spots: dict[RowOrigin, int] = {}
    rows = [[row, _index_of(reasons, why), _index_of(spots, spot)] for row, why, spot in failed]
    unread = [
        [base64.b64encode(data).decode(), _index_of(reasons, why), _index_of(spots, spot)]
        for data, why, spot in raw
    ]
    encoded = [[why.stage.value, write_diagnostic(why.reason)] for why in reasons]
    failures = {"rows": rows, "raw": unread, "reasons": encoded, "spots": list(spots)}
    return {"kind": "dead_letters", **failures, **origin, "to": to}


def _index_of(known: dict[_Item, int], item: _Item) -> int:
    return known.setdefault(item, len(known))


def write_dead_letters(
    ticket: Ticket,
    slot: SlotTicket,
    attempt: int,
    batches: Iterable[pa.RecordBatch],
    write_rows: WriteRows,
) -> WriteResult:
    """Write the dead letters of a slot by `write_rows`.

    The detail has that of `write_rows` as `to`, and as `texts` the first rows, if wanted.
    """
    builder = _Builder(ticket, slot.write)
    sink_slot = replace(slot, write=slot.write["to"])
    result = write_rows(ticket, sink_slot, attempt, builder.build_from(batches))
    detail = {"to": result.detail, "texts": builder.texts}
    return WriteResult(result.rows, result.rejected, detail)


class _Builder:
    """Builds the dead letters of one slot."""

    def __init__(self, ticket: Ticket, spec: Mapping[str, Any]) -> None:
        self._ticket, self._spec = ticket, spec
        self._reasons = [
            RowFailure(Stage(stage), read_diagnostic(text)) for stage, text in spec["reasons"]
        ]
        self.texts: list[str] = []

    def build_from(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the dead letters of the rows that failed. Reads all batches: the source reader
        counts their rows.
        """
        spec = self._spec
        for data, reason, spot in spec["raw"]:
            yield self._dead_letters([[-1, reason, spot]], raw=base64.b64decode(data))
        unnumbered = [pick for pick in spec["rows"] if pick[0] < 0]
        if unnumbered:
            yield self._dead_letters(unnumbered)
        numbered, first = [pick for pick in spec["rows"] if pick[0] >= 0], 0
        for batch in batches:
            after = first + batch.num_rows
            picks = [pick for pick in numbered if first <= pick[0] < after]
            if picks:
                rows = batch.take(pa.array([row - first for row, *_ in picks], pa.int64()))
                texts = format_rows(rows)
                wanted = spec["shown"] - len(self.texts)
                self.texts += [text[:MAX_LOG_CHARS] for text in texts[:wanted]]
                schema = (
                    with_key_columns(batch.schema, spec["key_columns"]).serialize().to_pybytes()
                )
                yield self._dead_letters(picks, texts, schema, _source_offsets(rows))
            first = after

    def _dead_letters(
        self,
        picks: Sequence[Sequence[int]],
        texts: Sequence[str] | None = None,
        schema: bytes | None = None,
        offsets: Sequence[str | None] | None = None,
        raw: bytes | None = None,
    ) -> pa.RecordBatch:
        """`offsets` are those that the source gave the rows."""
        rows = [
            {
                **self._fields(row, reason, spot, offsets[at] if offsets is not None else None),
                "row": texts[at] if texts is not None else None,
                "schema": schema,
                "raw": raw,
            }
            for at, (row, reason, spot) in enumerate(picks)
        ]
        return pa.RecordBatch.from_pylist(rows, schema=DEAD_LETTER_SCHEMA)

    def _fields(
        self, row: int, reason: int, spot: int, source_offset: str | None
    ) -> dict[str, Any]:
        """Return all columns of a dead letter but its row."""
        spec, why = self._spec, self._reasons[reason]
        partition, offset = spec["spots"][spot]
        # rows of a topic have the topic's offsets, whatever offsets they brought from their source
        offset = str(offset + row) if isinstance(offset, int) else source_offset or offset
        diagnostic = {k: v for k, v in asdict(why.reason).items() if k in DEAD_LETTER_SCHEMA.names}
        return {
            **diagnostic,
            "connector": spec["connector"],
            "task": spec["task"],
            "stage": why.stage.value,
            "dataset": spec["dataset"],
            "partition": partition,
            "offset": offset,
            "epoch": self._ticket.epoch,
            "transaction": self._ticket.txn_id,
            "attempt": spec["attempt"],
            "failed_at": spec["failed_at"],
            HEADERS: self._kafka_headers(why, partition, offset) if spec["headers"] else None,
        }

    def _kafka_headers(
        self, why: RowFailure, partition: str, offset: str | None
    ) -> list[tuple[str, bytes]]:
        """Return the headers that Kafka Connect gives a failed record (KIP-298)."""
        spec = self._spec
        fields = {
            "topic": spec["dataset"],
            "partition": partition,
            "offset": offset,
            "connector.name": spec["connector"],
            "task.id": spec["task"].rpartition("-")[2],
            "stage": kafka_stage(why),
            "class.name": why.reason.config_path or why.stage.value,
            "exception.class.name": why.reason.code,
            "exception.message": why.reason.message,
            "exception.stacktrace": why.reason.detail,
        }
        known = ((name, value) for name, value in fields.items() if value is not None)
        return [(f"{_KAFKA_PREFIX}{name}", value.encode()) for name, value in known]


def _source_offsets(rows: pa.RecordBatch) -> list[str | None] | None:
    if OFFSET not in rows.schema.names:
        return None
    offsets = rows.column(OFFSET).to_pylist()
    return [None if offset is None else format_offset(offset) for offset in offsets]
