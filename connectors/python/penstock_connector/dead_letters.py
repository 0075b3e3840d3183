"""Dead letters as the messages that they were, for sinks of brokers. Pure but for what reads
messages again.

A dead letter of a message names its partition and offset. The message at that place is sent as it
was: key, value, time and headers; after them the headers of Kafka Connect that say why (KIP-298),
where the connector asks for them. What is not there any more is what its source kept of it
(`raw_messages`). What never was a message has the bytes that could not be read as its value, or the
row as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

from penstock_connector._config import key
from penstock_connector._errors import SchemaError
from penstock_connector.converter_keys import ConverterKeys
from penstock_connector.messages import HEADERS, MESSAGE_SCHEMA, BadMessage
from penstock_connector.raw_messages import Headers, RawMessage

_PIECE_ROWS: Final = 100
"""Dead letters that are encoded at once: each message may be as large as one can be."""

_COLUMNS: Final = ("partition", "offset", "row", "raw")
_REASON: Final = "__connect.errors."


@dataclass(frozen=True, slots=True, order=True)
class MessagePosition:
    """The place of a message: topic, partition or queue, and offset. `broker` is that of the queue,
    where queues are numbered by broker.
    """

    topic: str
    broker: str
    partition: int
    offset: int


ReadOriginals: TypeAlias = Callable[
    [Sequence[MessagePosition]], Mapping[MessagePosition, RawMessage]
]
"""Reads messages again; those that are gone are left out."""


@dataclass(frozen=True)
class DeadLetterKeys(ConverterKeys):
    """The keys of a sink of messages that takes dead letters, too."""

    dead_letters: str = key(
        "",
        doc="What rows are that are dead letters: `messages` of these brokers, which are sent as "
        "they were, or other `rows`, which are sent as JSON. For "
        "`errors.deadletterqueue.sink.dead.letters`.",
        choices=("", "messages", "rows"),
        group="Writing",
    )

    def unused_converters(self) -> dict[str, str]:
        """Return the keys of converters that do nothing, and why."""
        names = self.named_converters() if self.dead_letters else ()
        return dict.fromkeys(names, "with `dead.letters`, messages have the bytes that they had")


def put_in_pieces(
    rows: pa.RecordBatch, put: Callable[[pa.RecordBatch], Sequence[tuple[int, Any]]]
) -> list[tuple[int, Any]]:
    """Put dead letters, some at a time. Returns what `put` refuses, by index in `rows`."""
    rejected: list[tuple[int, Any]] = []
    for start in range(0, rows.num_rows, _PIECE_ROWS):
        of_piece = put(rows.slice(start, _PIECE_ROWS))
        rejected += [(start + index, error) for index, error in of_piece]
    return rejected


class DeadLetterEncoder:
    """Makes messages of dead letters."""

    def __init__(
        self, system: str, dataset: str, schema: pa.Schema, read: ReadOriginals | None
    ) -> None:
        """`system` begins the codes of errors. `read` None: the rows were never messages of these
        brokers.

        Raises:
            SchemaError: `<system>.not_dead_letters`: the rows are something else.
        """
        missing = [name for name in _COLUMNS if name not in schema.names]
        if missing:
            raise SchemaError(
                f"{system}.not_dead_letters",
                f"rows of {dataset!r} have no column `{missing[0]}`, and `dead.letters` is set",
                fix="Set `dead.letters` only in `errors.deadletterqueue.sink.dead.letters`.",
                dataset=dataset,
            )
        self._read = read

    def encode(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[BadMessage]]:
        """Return a message of each dead letter, in order. None is refused."""
        columns = [rows.column(name).to_pylist() for name in _COLUMNS]
        reasons = (
            rows.column(HEADERS).to_pylist()
            if HEADERS in rows.schema.names
            else [None] * rows.num_rows
        )
        places = zip(columns[0], columns[1], columns[3], strict=True)
        kept = [_parse_position(*one) for one in places]
        positions: list[MessagePosition | None] = [None] * rows.num_rows
        found: Mapping[MessagePosition, RawMessage] = {}
        if self._read is not None:
            positions = kept
            found = self._read(sorted({one for one in positions if one is not None}))
        messages = [
            _to_message(
                position,
                (found.get(position) if position else None) or (_kept(raw) if place else None),
                row,
                raw,
                why,
            )
            for place, position, row, raw, why in zip(
                kept, positions, *columns[2:], reasons, strict=True
            )
        ]
        return pa.RecordBatch.from_pylist(messages, MESSAGE_SCHEMA), []


def _kept(raw: bytes | None) -> RawMessage | None:
    """Return the message that its source kept where it could not read it."""
    try:
        return None if raw is None else RawMessage.from_bytes(raw)
    except ValueError:
        return None


def _to_message(
    position: MessagePosition | None,
    original: RawMessage | None,
    row: str | None,
    raw: bytes | None,
    reasons: Headers | None,
) -> dict[str, Any]:
    why = [_with_position(name, value, position) for name, value in reasons or ()]
    if original is None:
        value = raw if raw is not None else row.encode() if row is not None else None
        return {"value": value, "headers": why or None}
    return {
        "key": original.key,
        "value": original.value,
        "timestamp_ms": original.timestamp_ms,
        "headers": [*original.headers, *why] or None,
    }


def _with_position(
    name: str, value: bytes | None, position: MessagePosition | None
) -> tuple[str, bytes | None]:
    """Return a header; partition and offset are the numbers that Kafka Connect writes."""
    if position is not None and name == f"{_REASON}partition":
        return name, str(position.partition).encode()
    if position is not None and name == f"{_REASON}offset":
        return name, str(position.offset).encode()
    return name, value


_PARTITIONS: Final = ({"topic", "partition"}, {"topic", "broker", "queue"})
"""Keys of partitions of the two kinds of brokers."""


def _parse_position(
    partition: str | None, offset: str | None, raw: bytes | None
) -> MessagePosition | None:
    """Return the place in `partition`, the id of a partition of a topic, and `offset`: the number
    of a row, or `{"offset": n}` of a message that could not be read, which has its bytes in `raw`.
    None: it is not known.
    """
    key, place = _parse(partition), _parse(offset)
    if isinstance(place, Mapping):  # of other rows, it is where reading goes on behind them
        place = place.get("offset") if raw is not None else None
    if not isinstance(key, Mapping) or set(key) not in _PARTITIONS or type(place) is not int:
        return None
    topic, number = key["topic"], key.get("partition", key.get("queue"))
    if not isinstance(topic, str) or type(number) is not int:
        return None
    return MessagePosition(topic, str(key.get("broker", "")), number, place)


def _parse(text: str | None) -> Any:
    try:
        return json.loads(text or "")
    except (ValueError, RecursionError):
        return None
