"""Properties of messages ↔ headers of rows. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from penstock_messaging.mqtt.subscription import Delivery

ID: Final = "penstock_id"
"""The user property that has the id of a row."""

_MOST_BYTES: Final = 65_535
"""Bytes of a name, and of a value."""

_PROPERTIES: Final = {
    "mqtt.content.type": "ContentType",
    "mqtt.response.topic": "ResponseTopic",
    "mqtt.correlation.data": "CorrelationData",
}
"""Headers that are properties of a message, and what the library calls them."""

_OF_DELIVERY: Final = frozenset(
    {"mqtt.message.id", "mqtt.qos", "mqtt.retained", "mqtt.duplicate", "mqtt.delivery.id"}
)
"""Headers that say how a message came: they are not the message's."""


def headers_of(delivery: Delivery, client_id: str) -> list[tuple[str, bytes]]:
    """Return the headers of a message: its properties, those that Confluent's connector gives, and
    an id that it keeps when it is given again.
    """
    message, properties = delivery.message, delivery.message.properties
    found = [(name, text.encode()) for name, text in getattr(properties, "UserProperty", ())]
    for name, attribute in _PROPERTIES.items():
        if (value := getattr(properties, attribute, None)) is not None:
            found.append((name, value if isinstance(value, bytes) else value.encode()))
    found += [
        ("mqtt.message.id", b"%d" % message.mid),
        ("mqtt.qos", b"%d" % message.qos),
        ("mqtt.retained", b"true" if message.retain else b"false"),
        ("mqtt.duplicate", b"true" if message.dup else b"false"),
    ]
    if message.qos:
        text = f"{client_id}:{message.mid}:{delivery.digest.hex()}"
        found.append(("mqtt.delivery.id", text.encode()))
    return found


def problem_of_headers(headers: Sequence[tuple[str, bytes | None]]) -> str:
    """Return why a header cannot be a property; empty when all can."""
    for name, value in headers:
        try:
            if _PROPERTIES.get(name) != "CorrelationData":
                (value or b"").decode()
        except UnicodeDecodeError:
            return f"the value of {name[:200]!r} is no text"
        if max(len(name.encode()), len(value or b"")) > _MOST_BYTES:
            return f"{name[:200]!r} has more than {_MOST_BYTES} bytes"
    return ""


def set_properties(
    properties: Any, headers: Sequence[tuple[str, bytes | None]] | None, name: str
) -> Any:
    """Set the properties of a message, and return them. `name` is its id; headers that were
    properties of a message that was read are the same again.
    """
    pairs = [(ID, name)]
    for header, value in headers or ():
        if header in _PROPERTIES:
            data = value or b""
            of_bytes = _PROPERTIES[header] == "CorrelationData"
            setattr(properties, _PROPERTIES[header], data if of_bytes else data.decode())
        elif header not in _OF_DELIVERY and header != ID:
            pairs.append((header, (value or b"").decode()))
    setattr(properties, "UserProperty", pairs)  # noqa: B010 - the library makes it
    return properties
