"""The write end before the place of dead letters: of the rows that are read once more it keeps
those that failed, and makes letters of them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, TypeAlias

import pyarrow as pa

from penstock.model.columns import HEADERS
from penstock.model.letter import KAFKA_STAGE, LETTER, Failed, Stage, keyed
from penstock.model.ticket import SlotTicket, Ticket
from penstock.spark.ends import Written
from penstock.spark.ends.linewriting import written
from penstock.spark.report import read_diagnostic, write_diagnostic

Write: TypeAlias = Callable[[Ticket, SlotTicket, int, Iterable[pa.RecordBatch]], Written]

MOST_TEXT: Final = 1_000
"""Characters of a row in a log line."""

_KAFKA: Final = "__connect.errors."


def place(
    failed: Sequence[tuple[int, Failed, int]],
    raw: Sequence[tuple[bytes, Failed, int]],
    origin: Mapping[str, Any],
    to: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the ticket of this end.

    Args:
        failed: Rows by their number in the slot (-1: not known), in order, why, and which of the
            origin's `partitions` they are of.
        raw: Rows that could not be read: their bytes, why, and which partition.
        origin: `connector`, `task`, `dataset`, its `key_columns`, `partitions`, `failed_at`
            (microseconds), `headers` (whether letters get Kafka Connect's), and `shown`: how many
            are wanted as text.
        to: The ticket of the end that takes the letters.
    """
    reasons: dict[Failed, int] = {}

    def numbered(why: Failed) -> int:
        return reasons.setdefault(why, len(reasons))

    rows = [[row, numbered(why), partition] for row, why, partition in failed]
    unread = [
        [base64.b64encode(data).decode(), numbered(why), partition] for data, why, partition in raw
    ]
    told = [[why.stage.value, write_diagnostic(why.reason)] for why in reasons]
    return {"kind": "letters", "rows": rows, "raw": unread, "reasons": told, **origin, "to": to}


def send(
    ticket: Ticket,
    slot: SlotTicket,
    attempt: int,
    batches: Iterable[pa.RecordBatch],
    write: Write,
) -> Written:
    """Write the letters of a slot; the detail has the texts of the first, if wanted, beside what
    the end that took them says.
    """
    letters = _Letters(ticket, slot.write)
    onward = replace(slot, write=slot.write["to"])
    done = write(ticket, onward, attempt, letters.of(batches))
    return Written(done.rows, done.rejected, {"to": done.detail, "texts": letters.texts})


class _Letters:
    """Makes the letters of one slot."""

    def __init__(self, ticket: Ticket, place: Mapping[str, Any]) -> None:
        self._ticket, self._place = ticket, place
        self._reasons = [
            Failed(Stage(stage), read_diagnostic(text)) for stage, text in place["reasons"]
        ]
        self.texts: list[str] = []

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the letters of the rows that failed. All batches are read to their end: the read
        end counts them.
        """
        place = self._place
        for data, reason, partition in place["raw"]:
            yield self._letters([[None, reason, partition]], raw=base64.b64decode(data))
        nowhere = [pick for pick in place["rows"] if pick[0] < 0]
        if nowhere:
            yield self._letters(nowhere)
        waiting, first = [pick for pick in place["rows"] if pick[0] >= 0], 0
        for batch in batches:
            after = first + batch.num_rows
            here = [pick for pick in waiting if first <= pick[0] < after]
            if here:
                numbers = pa.array([row - first for row, *_ in here], pa.int64())
                texts = written(batch.take(numbers))
                schema = keyed(batch.schema, place["key_columns"]).serialize().to_pybytes()
                self.texts += [t[:MOST_TEXT] for t in texts[: place["shown"] - len(self.texts)]]
                yield self._letters(here, texts, schema)
            first = after

    def _letters(
        self,
        picks: Sequence[Sequence[Any]],
        texts: Sequence[str] | None = None,
        schema: bytes | None = None,
        raw: bytes | None = None,
    ) -> pa.RecordBatch:
        place, ticket = self._place, self._ticket
        rows = []
        for at, (_, number, partition) in enumerate(picks):
            why = self._reasons[number]
            reason = {k: v for k, v in asdict(why.reason).items() if k in LETTER.names}
            rows.append(
                {
                    **reason,
                    "connector": place["connector"],
                    "task": place["task"],
                    "stage": why.stage.value,
                    "dataset": place["dataset"],
                    "partition": place["partitions"][partition],
                    "epoch": ticket.epoch,
                    "transaction": ticket.txn_id,
                    "failed_at": place["failed_at"],
                    "row": texts[at] if texts is not None else None,
                    "schema": schema,
                    "raw": raw,
                    HEADERS: self._headers(why, partition) if place["headers"] else None,
                }
            )
        return pa.RecordBatch.from_pylist(rows, schema=LETTER)

    def _headers(self, why: Failed, partition: int) -> list[tuple[str, bytes]]:
        """Return what Kafka Connect tells of a bad record (KIP-298)."""
        place = self._place
        fields = {
            "topic": place["dataset"],
            "partition": place["partitions"][partition],
            "connector.name": place["connector"],
            "task.id": place["task"],
            "stage": KAFKA_STAGE[why.stage],
            "class.name": why.reason.config_path or why.stage.value,
            "exception.class.name": why.reason.code,
            "exception.message": why.reason.message,
            "exception.stacktrace": why.reason.detail,
        }
        return [(f"{_KAFKA}{name}", str(value).encode()) for name, value in fields.items()]
