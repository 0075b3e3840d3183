r"""Messages of brokers that could not be read: kept whole. Pure.

The bytes of such a row (`BadRow.raw`) are the whole message as a JSON object, so that a user can
correct each part of it, whatever the source is written in:

{"raw_message": 1, "key": "k", "value": "{\"n\": 1}", "headers": [["h", "1"]], "timestamp_ms": 7,
 "offset": 17}

| member | |
|---|---|
| `raw_message` | 1, the version of this form |
| `key`, `value` | text; null: none. Bytes that are no UTF-8 are in `key_base64`, `value_base64` |
| `headers` | pairs of name and text, null or `{"base64": …}` |
| `timestamp_ms`, `offset` | numbers; null: unknown |
| `damaged` | true: the value is not what was sent. Who has corrected it removes this |

Topic and partition are those of the row's partition. `raw_message_reader` reads messages again.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

import pyarrow as pa

from penstock_connector.messages import MESSAGE_SCHEMA, POSITION_SCHEMA

_FORM: Final = 1
_BASE64: Final = "_base64"
_MEMBERS: Final = frozenset(
    {
        "raw_message", "key", "key_base64", "value", "value_base64", "headers", "timestamp_ms",
        "offset", "damaged",
    }
)  # fmt: skip

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class RawMessage:
    """A message as its topic has it. `damaged`: its value is not what was sent."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
    headers: Headers = ()
    offset: int | None = None
    damaged: bool = False

    def to_bytes(self) -> bytes:
        """Return the message as the bytes of a row that could not be read."""
        members: dict[str, Any] = {"raw_message": _FORM}
        members |= _part("key", self.key) | _part("value", self.value)
        if self.headers:
            members["headers"] = [[name, _header(value)] for name, value in self.headers]
        members |= {"timestamp_ms": self.timestamp_ms, "offset": self.offset}
        if self.damaged:
            members["damaged"] = True
        return json.dumps(members, ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, raw: bytes) -> RawMessage | None:
        """Return the message that some bytes have; None: they are no message as `to_bytes` writes
        it.

        Raises:
            ValueError: they begin as one, and a member is wrong.
        """
        try:
            found = json.loads(raw)
        except (ValueError, RecursionError):
            return None
        if not isinstance(found, dict) or "raw_message" not in found:
            return None
        unknown = sorted(found.keys() - _MEMBERS)
        if unknown or found["raw_message"] != _FORM:
            name = unknown[0] if unknown else "raw_message"
            raise ValueError(f"`{name}` is unknown" if unknown else f"`{name}` is not {_FORM}")
        return cls(
            _bytes_of(found, "key"),
            _bytes_of(found, "value"),
            _number(found, "timestamp_ms"),
            _headers_of(found.get("headers")),
            _number(found, "offset"),
            bool(found.get("damaged", False)),
        )


def raw_message(messages: pa.RecordBatch, at: int, offset: int | None = None) -> RawMessage:
    """Return one of some messages of `MESSAGE_SCHEMA` or `POSITION_SCHEMA`."""
    key, value, timestamp_ms, headers = (
        messages.column(name)[at].as_py() for name in MESSAGE_SCHEMA.names
    )
    return RawMessage(key, value, timestamp_ms, headers or (), offset)


def messages_of(found: Sequence[RawMessage], partition: int | None = None) -> pa.RecordBatch:
    """Return messages as columns; with a `partition`, also where they are."""
    columns: list[pa.Array] = [
        pa.array([one.key for one in found], pa.binary()),
        pa.array([one.value for one in found], pa.binary()),
        pa.array([one.timestamp_ms for one in found], pa.int64()),
        pa.array(
            [list(one.headers) or None for one in found], MESSAGE_SCHEMA.field("headers").type
        ),
    ]
    if partition is None:
        return pa.RecordBatch.from_arrays(columns, schema=MESSAGE_SCHEMA)
    columns.append(pa.array([partition] * len(found), pa.int32()))
    columns.append(pa.array([one.offset for one in found], pa.int64()))
    return pa.RecordBatch.from_arrays(columns, schema=POSITION_SCHEMA)


def _part(name: str, value: bytes | None) -> dict[str, str | None]:
    """Return a part of a message as a member: as text, unless it is none or would grow by it."""
    text = _text(value)
    if value is None or text is not None:
        return {name: text}
    return {f"{name}{_BASE64}": base64.b64encode(value).decode()}


def _text(value: bytes | None) -> str | None:
    """Return bytes as text; None where base64 is the shorter form, or the only one."""
    try:
        text = None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
    if text is None or value is None:
        return None
    grown = len(json.dumps(text, ensure_ascii=False)) - len(text)
    return text if grown <= 16 + len(text) // 3 else None


def _header(value: bytes | None) -> str | dict[str, str] | None:
    text = _text(value)
    if value is None or text is not None:
        return text
    return {"base64": base64.b64encode(value).decode()}


def _bytes_of(members: Mapping[str, Any], name: str) -> bytes | None:
    text, encoded = members.get(name), members.get(f"{name}{_BASE64}")
    if text is not None and encoded is not None:
        raise ValueError(f"it has `{name}` and `{name}{_BASE64}`: remove one of them")
    if encoded is not None:
        return _from_base64(encoded, f"{name}{_BASE64}")
    if text is not None and not isinstance(text, str):
        _refuse(name, "a text, in quotes, or null")
    return None if text is None else _utf8(text, name)


def _headers_of(found: Any) -> Headers:
    pairs = found if found is not None else []
    if not isinstance(pairs, list):
        _refuse("headers", 'a list: [["name", "text"]]')
    headers = list[tuple[str, bytes | None]]()
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            _refuse("headers", 'a list: [["name", "text"]]')
        name, value = pair
        if isinstance(value, dict) and set(value) == {"base64"}:
            headers.append((name, _from_base64(value["base64"], f"headers of {name}")))
        elif value is None or isinstance(value, str):
            headers.append((name, None if value is None else _utf8(value, "headers")))
        else:
            _refuse("headers", 'of texts, null, or {"base64": …}')
    return headers


def _number(members: Mapping[str, Any], name: str) -> int | None:
    found = members.get(name)
    if found is not None and (type(found) is not int or not 0 <= found < 1 << 53):
        _refuse(name, "a whole number, or null")
    return found


def _utf8(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a pair of escapes, as \ud800
        _refuse(name, "a text of whole characters")


def _from_base64(text: Any, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error):
        _refuse(name, "base64")


def _refuse(name: str, expected: str) -> NoReturn:
    raise ValueError(f"`{name}` is not {expected}")
