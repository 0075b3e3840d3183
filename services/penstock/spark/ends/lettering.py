"""The write end before the place of dead letters: of the rows that are read once more it keeps
those that failed, and makes letters of them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, TypeAlias, TypeVar

import pyarrow as pa

from penstock.model.columns import HEADERS, OFFSET
from penstock.model.dead_letter import KAFKA_STAGE, LETTER, Failed, Spot, Stage, keyed
from penstock.model.ticket import SlotTicket, Ticket
from penstock.spark.ends import Written
from penstock.spark.ends.json_lines import written
from penstock.spark.ends.looking import offset_text
from penstock.spark.report import read_diagnostic, write_diagnostic

Write: TypeAlias = Callable[[Ticket, SlotTicket, int, Iterable[pa.RecordBatch]], Written]

MOST_TEXT: Final = 1_000
"""Characters of a row in a log line."""

_KAFKA: Final = "__connect.errors."

_Known = TypeVar("_Known", bound=Hashable)


def place(
    failed: Sequence[tuple[int, Failed, Spot]],
    raw: Sequence[tuple[bytes, Failed, Spot]],
    origin: Mapping[str, Any],
    to: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the ticket of this end.

    Args:
        failed: Rows by their number in the slot (-1: not known), in order, why, and where from.
        raw: Rows that could not be read: their bytes, why, and where from.
        origin: `connector`, `task`, `dataset`, its `key_columns`, `attempt`, `failed_at`
            (microseconds), `headers` (whether letters get Kafka Connect's), and `shown`: how many
            are wanted as text.
        to: The ticket of the end that takes the letters.
    """
    reasons: dict[Failed, int] = {}
    spots: dict[Spot, int] = {}
    rows = [[row, _numbered(reasons, why), _numbered(spots, spot)] for row, why, spot in failed]
    unread = [
        [base64.b64encode(data).decode(), _numbered(reasons, why), _numbered(spots, spot)]
        for data, why, spot in raw
    ]
    told = [[why.stage.value, write_diagnostic(why.reason)] for why in reasons]
    failures = {"rows": rows, "raw": unread, "reasons": told, "spots": list(spots)}
    return {"kind": "letters", **failures, **origin, "to": to}


def _numbered(known: dict[_Known, int], one: _Known) -> int:
    return known.setdefault(one, len(known))


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
        for data, reason, spot in place["raw"]:
            yield self._letters([[-1, reason, spot]], raw=base64.b64decode(data))
        nowhere = [pick for pick in place["rows"] if pick[0] < 0]
        if nowhere:
            yield self._letters(nowhere)
        waiting, first = [pick for pick in place["rows"] if pick[0] >= 0], 0
        for batch in batches:
            after = first + batch.num_rows
            here = [pick for pick in waiting if first <= pick[0] < after]
            if here:
                rows = batch.take(pa.array([row - first for row, *_ in here], pa.int64()))
                texts = written(rows)
                self.texts += [t[:MOST_TEXT] for t in texts[: place["shown"] - len(self.texts)]]
                schema = keyed(batch.schema, place["key_columns"]).serialize().to_pybytes()
                yield self._letters(here, texts, schema, _own_offsets(rows))
            first = after

    def _letters(
        self,
        picks: Sequence[Sequence[int]],
        texts: Sequence[str] | None = None,
        schema: bytes | None = None,
        offsets: Sequence[str | None] | None = None,
        raw: bytes | None = None,
    ) -> pa.RecordBatch:
        """`offsets`: those that rows have of themselves."""
        letters = [
            {
                **self._letter(row, reason, spot, offsets[at] if offsets is not None else None),
                "row": texts[at] if texts is not None else None,
                "schema": schema,
                "raw": raw,
            }
            for at, (row, reason, spot) in enumerate(picks)
        ]
        return pa.RecordBatch.from_pylist(letters, schema=LETTER)

    def _letter(self, row: int, reason: int, spot: int, own: str | None) -> dict[str, Any]:
        """Return all of a letter but its row."""
        place, why = self._place, self._reasons[reason]
        partition, offset = place["spots"][spot]
        # where rows are of a topic, its numbers count, whatever they brought from their source
        offset = str(offset + row) if isinstance(offset, int) else own or offset
        told = {k: v for k, v in asdict(why.reason).items() if k in LETTER.names}
        return {
            **told,
            "connector": place["connector"],
            "task": place["task"],
            "stage": why.stage.value,
            "dataset": place["dataset"],
            "partition": partition,
            "offset": offset,
            "epoch": self._ticket.epoch,
            "transaction": self._ticket.txn_id,
            "attempt": place["attempt"],
            "failed_at": place["failed_at"],
            HEADERS: self._headers(why, partition, offset) if place["headers"] else None,
        }

    def _headers(self, why: Failed, partition: str, offset: str | None) -> list[tuple[str, bytes]]:
        """Return what Kafka Connect tells of a bad record (KIP-298)."""
        place = self._place
        fields = {
            "topic": place["dataset"],
            "partition": partition,
            "offset": offset,
            "connector.name": place["connector"],
            "task.id": place["task"],
            "stage": KAFKA_STAGE[why.stage],
            "class.name": why.reason.config_path or why.stage.value,
            "exception.class.name": why.reason.code,
            "exception.message": why.reason.message,
            "exception.stacktrace": why.reason.detail,
        }
        known = ((name, value) for name, value in fields.items() if value is not None)
        return [(f"{_KAFKA}{name}", value.encode()) for name, value in known]


def _own_offsets(rows: pa.RecordBatch) -> list[str | None] | None:
    if OFFSET not in rows.schema.names:
        return None
    found = rows.column(OFFSET).to_pylist()
    return [None if one is None else offset_text(one) for one in found]
