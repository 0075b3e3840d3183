"""What runs in the executors: the read end and the write end of a slot, chosen by the ticket's
`kind`.

- `plugin`    Fetch from a source, Put into a sink, over gRPC: `fetching`, `putting`; `jsonlines`
  reads rows of plugins without Arrow, `answers` counts what a sink owes, `channels` are kept
  for the life of a Python worker
- `transforming`, `converting`  a transform or a converter of a plugin, called for every batch;
  `answered`: what it answers, checked
- `embedded`  Parquet files of an embedded topic
- `looking`   some rows as text, for a person who looks
- `lettering`  of rows that are read once more, dead letters of those that failed; `linewriting`
- `replaying`  rows of dead letters, as the source gave them
- `stall`     a call that makes no progress is cancelled, naming its stage
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.model.errors import Diagnostic, InternalError
from penstock.model.ticket import SlotTicket, Ticket


@dataclass(slots=True)
class Written:
    """What a write end did with the rows of a slot."""

    rows: int = 0
    rejected: list[tuple[int, Diagnostic]] = field(default_factory=list)
    detail: dict[str, Any] = field(default_factory=dict)


def read(ticket: Ticket, slot: SlotTicket) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a slot, in order.

    Raises:
        InternalError: `engine.row_count`: the end has other rows than were announced (invariant 5).
    """
    rows = 0
    for batch in _reader(ticket, slot):
        rows += batch.num_rows
        yield batch
    if rows != slot.rows:
        raise InternalError(
            "engine.row_count", f"slot {slot.slot} fetched {rows} rows, {slot.rows} were announced"
        )


def write(
    ticket: Ticket, slot: SlotTicket, attempt: int, batches: Iterable[pa.RecordBatch]
) -> Written:
    """Put the rows of a slot under an attempt."""
    match slot.write["kind"]:
        case "plugin":
            from penstock.spark.ends import plugin  # noqa: PLC0415 - an executor loads what it uses

            return plugin.put(ticket, slot, attempt, batches)
        case "embedded":
            from penstock.spark.ends import embedded  # noqa: PLC0415 - as above

            return embedded.write(slot, attempt, batches)
        case "look":
            from penstock.spark.ends import looking  # noqa: PLC0415 - as above

            return looking.look(slot.write, batches)
        case "letters":
            from penstock.spark.ends import lettering  # noqa: PLC0415 - as above

            return lettering.send(ticket, slot, attempt, batches, write)
        case "nowhere":
            return Written(sum(batch.num_rows for batch in batches))
    raise InternalError("engine.unknown_end", f"no write end is named {slot.write['kind']!r}")


def _reader(ticket: Ticket, slot: SlotTicket) -> Iterator[pa.RecordBatch]:
    match slot.read["kind"]:
        case "plugin":
            from penstock.spark.ends import plugin  # noqa: PLC0415 - as above

            return plugin.fetch(ticket, slot)
        case "embedded":
            from penstock.spark.ends import embedded  # noqa: PLC0415 - as above

            return embedded.read(slot)
        case "given":
            from penstock.spark.ends import given  # noqa: PLC0415 - as above

            return given.read(slot.read)
        case "replay":
            from penstock.spark.ends import replaying  # noqa: PLC0415 - as above

            return replaying.read(slot)
        case "nothing":
            return iter(())
    raise InternalError("engine.unknown_end", f"no read end is named {slot.read['kind']!r}")
