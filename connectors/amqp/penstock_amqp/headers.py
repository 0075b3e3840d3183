"""Headers of STOMP ↔ keys and headers of rows, and where messages go. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from penstock_amqp.frames import encode_headers
from penstock_connector import DataError

KEY: Final = "correlation-id"
TIMESTAMP: Final = "timestamp"
ID: Final = "penstock_id"
"""The header by which a consumer knows a message that was sent twice."""

OP: Final = "penstock_op"
"""The header of a message that means a deleted row."""

DELETE: Final = "delete"

_OF_BROKERS: Final = frozenset({
    "destination", "destination-type", "message-id", "subscription", "ack", "content-length",
    "receipt", "receipt-id", "transaction", "id", "selector", "heart-beat", "redelivered",
    "expires", "priority", "persistent", "amq-msg-type", "transformation", "login", "passcode",
    KEY, TIMESTAMP, ID, OP, "_AMQ_DUPL_ID", "AMQ_SCHEDULED_DELAY", "AMQ_SCHEDULED_PERIOD",
    "AMQ_SCHEDULED_REPEAT", "AMQ_SCHEDULED_CRON", "_AMQ_SCHED_DELIVERY",
})  # fmt: skip
"""Names that mean something to a broker, or to us: they are no headers of rows."""


def message_headers(headers: Mapping[str, str]) -> list[tuple[str, bytes]] | None:
    """Return the headers of a row; None for no one."""
    if headers.keys() <= _OF_BROKERS:
        return None
    return [(name, text.encode()) for name, text in headers.items() if name not in _OF_BROKERS]


def millis_of(headers: Mapping[str, str]) -> int | None:
    """Return the time of a message in milliseconds since 1970."""
    text = headers.get(TIMESTAMP, "")
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 16 else None


def message_id(headers: Mapping[str, str]) -> str | None:
    """Return the id of a message. Artemis has that of the consumer in front of it."""
    text = headers.get("message-id")
    return text if text is None or text.startswith("ID:") else text.rpartition(",")[2]


class InvalidHeaderError(Exception):
    """A row has something that cannot be a header."""

    def __init__(self, error: DataError) -> None:
        super().__init__(error.message)
        self.error = error


def encode_row_headers(
    key: bytes | None, headers: Sequence[tuple[str, bytes | None]] | None
) -> bytes:
    """Return the lines of a message's headers that its row makes.

    Raises:
        InvalidHeaderError: something cannot be a header.
    """
    pairs: dict[str, str] = {}
    if key is not None:
        pairs[KEY] = _text("the key", key, "activemq.key")
    for name, value in headers or ():
        if name in {ID, OP}:
            continue
        if name in _OF_BROKERS:
            raise InvalidHeaderError(
                DataError(
                    "activemq.reserved_header",
                    f"the header {name!r} has a name that means something to the broker",
                    fix="Rename or drop the header by a transform.",
                )
            )
        if name in pairs:
            raise _invalid(f"there are several headers {name!r}, and of these only one counts")
        if not name or "\x00" in name:
            raise _invalid(f"a header has the name {name!r}")
        pairs[name] = _text(f"the header {name!r}", value or b"", "activemq.header")
    return encode_headers(pairs.items())


def _text(what: str, value: bytes, code: str) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise _invalid(f"{what} is no text in UTF-8", code) from None
    if "\x00" in text:
        raise _invalid(f"{what} has the character U+0000", code)
    return text


def _invalid(message: str, code: str = "activemq.header") -> InvalidHeaderError:
    fix = "Change or drop it by a transform; headers of STOMP are texts."
    return InvalidHeaderError(DataError(code, message, fix=fix))


def destination_of(name: str, *, is_topic: bool, is_artemis: bool) -> str:
    """Return a queue or topic as the broker calls it: Artemis has addresses, without a prefix."""
    if is_artemis:
        return name
    return f"/topic/{name}" if is_topic else f"/queue/{name}"


def routing_of(*, is_topic: bool) -> str:
    """Return what Artemis calls a topic and a queue."""
    return "MULTICAST" if is_topic else "ANYCAST"
