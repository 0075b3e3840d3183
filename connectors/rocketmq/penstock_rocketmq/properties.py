"""Properties of messages ↔ keys, tags, times and headers of rows. Pure.

Properties are texts, name and value between two control characters; a name has one value, which is
not empty. Names that RocketMQ uses itself are no headers, but for TAGS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock_connector import DataError

_OF_NAME, _OF_PAIR = b"\x01", b"\x02"
_KEYS, _TAGS, _BORN = b"KEYS", b"TAGS", b"BORN_TIMESTAMP"
ID: Final = b"penstock_id"
"""The property by which a consumer knows a message that was sent twice."""

_TRANSIENT: Final = b"__RMQ.TRANSIENT."
_RESERVED: Final = frozenset((
    b"TRACE_ON", b"MSG_REGION", b"KEYS", b"TAGS", b"WAIT", b"DELAY", b"RETRY_TOPIC",
    b"REAL_TOPIC", b"REAL_QID", b"TRAN_MSG", b"PGROUP", b"MIN_OFFSET", b"MAX_OFFSET", b"BUYER_ID",
    b"ORIGIN_MESSAGE_ID", b"TRANSFER_FLAG", b"CORRECTION_FLAG", b"MQ2_FLAG", b"RECONSUME_TIME",
    b"UNIQ_KEY", b"MAX_RECONSUME_TIMES", b"CONSUME_START_TIME", b"POP_CK", b"POP_CK_OFFSET",
    b"1ST_POP_TIME", b"TRAN_PREPARED_QUEUE_OFFSET", b"DUP_INFO", b"EXTEND_UNIQ_INFO",
    b"INSTANCE_ID", b"CORRELATION_ID", b"REPLY_TO_CLIENT", b"TTL", b"ARRIVE_TIME",
    b"PUSH_REPLY_TIME", b"CLUSTER", b"MSG_TYPE", b"INNER_MULTI_DISPATCH",
    b"INNER_MULTI_QUEUE_OFFSET", b"INNER_NUM", b"INNER_BASE", b"TIMER_DELAY_MS",
    b"TIMER_DELAY_SEC", b"TIMER_DELIVER_MS", b"TIMER_ENQUEUE_MS", b"TIMER_DEQUEUE_MS",
    b"TIMER_ROLL_TIMES", b"TIMER_OUT_MS", b"TIMER_DEL_UNIQKEY", b"TIMER_DELAY_LEVEL",
    b"__BORNHOST", b"BORN_TIMESTAMP", b"DLQ_ORIGIN_TOPIC", b"DLQ_ORIGIN_MESSAGE_ID", b"__CRC32#",
    b"__transactionId__", b"TRANSACTION_CHECK_TIMES", b"CHECK_IMMUNITY_TIME_IN_SECONDS",
))  # fmt: skip
"""Names that RocketMQ's clients and brokers use (`MessageConst`)."""


@dataclass(frozen=True, slots=True)
class DecodedProperties:
    """Properties of neighbouring messages.

    Attributes:
        keys: KEYS of each, as bytes.
        tags: TAGS of each.
        born_ms: BORN_TIMESTAMP of each, which counts before the time that the broker has.
        headers: The others, and TAGS; null for a message without any.
    """

    keys: list[bytes | None]
    tags: list[bytes | None]
    born_ms: list[int | None]
    headers: pa.Array


def decode_properties(blocks: Sequence[bytes]) -> DecodedProperties:
    """Return the properties of messages. What is no pair is left out, as RocketMQ's clients do."""
    keys: list[bytes | None] = []
    tags: list[bytes | None] = []
    born: list[int | None] = []
    names: list[str] = []
    values: list[bytes] = []
    starts: list[int | None] = []
    for block in blocks:
        key = tag = at = None
        start = len(names)
        for pair in block.split(_OF_PAIR):
            name, _, value = pair.partition(_OF_NAME)
            if not (name and value):
                continue
            if name in _RESERVED:
                if name == _KEYS:
                    key = value
                elif name == _BORN:
                    at = _number(value)
                if name != _TAGS:
                    continue
                tag = value
            elif name.startswith(_TRANSIENT):
                continue
            names.append(name.decode(errors="replace"))
            values.append(value)
        keys.append(key)
        tags.append(tag)
        born.append(at)
        starts.append(start if len(names) > start else None)
    ends = pa.array([*starts, len(names)], pa.int32())
    parts = pa.array(names, pa.string()), pa.array(values, pa.binary())
    return DecodedProperties(keys, tags, born, pa.MapArray.from_arrays(ends, *parts))


def _number(value: bytes) -> int | None:
    return int(value) if value.isdigit() and len(value) < 16 else None


class InvalidPropertyError(Exception):
    """A row has something that cannot be a property."""

    def __init__(self, error: DataError) -> None:
        super().__init__(error.message)
        self.error = error


def encode_properties(
    key: bytes | None,
    tag: str | None,
    timestamp_ms: int | None,
    headers: Sequence[tuple[str, bytes | None]] | None,
) -> bytes:
    """Return the properties of a message. A tag counts before the header TAGS.

    Raises:
        InvalidPropertyError: something cannot be a property.
    """
    pairs: dict[bytes, bytes] = {}
    if key is not None:
        pairs[_KEYS] = _checked("the key", key, "rocketmq.key")
    if tag is not None:
        pairs[_TAGS] = _checked("the tag", tag.encode(), "rocketmq.property")
    if timestamp_ms is not None and timestamp_ms >= 0:
        pairs[_BORN] = b"%d" % timestamp_ms
    for name, value in headers or ():
        _add_header(pairs, name, value)
    return b"".join(
        [part for name, value in pairs.items() for part in (name, _OF_NAME, value, _OF_PAIR)]
    )


def _add_header(pairs: dict[bytes, bytes], text: str, value: bytes | None) -> None:
    name = text.encode()
    if name == ID or (name == _TAGS and name in pairs):
        return
    if (name in _RESERVED and name != _TAGS) or name.startswith(_TRANSIENT):
        raise InvalidPropertyError(
            DataError(
                "rocketmq.reserved_property",
                f"the header {text!r} has the name of a property that RocketMQ uses itself",
                fix="Rename or drop the header by a transform.",
            )
        )
    if name in pairs:
        raise _invalid(f"there are several headers {text!r}, and a property has one value")
    pairs[_checked("the name of a header", name, "rocketmq.property")] = _checked(
        f"the header {text!r}", value or b"", "rocketmq.property"
    )


def _checked(what: str, value: bytes, code: str) -> bytes:
    if not value:
        raise _invalid(f"{what} is empty, and RocketMQ's clients leave out what is empty", code)
    if _OF_NAME in value or _OF_PAIR in value:
        raise _invalid(f"{what} has a control character that separates properties", code)
    if not value.isascii():
        try:
            value.decode()
        except UnicodeDecodeError:
            raise _invalid(f"{what} is no text in UTF-8", code) from None
    return value


def _invalid(message: str, code: str = "rocketmq.property") -> InvalidPropertyError:
    fix = "Change or drop it by a transform; properties of RocketMQ are texts that are not empty."
    return InvalidPropertyError(DataError(code, message, fix=fix))


def hash_keys(keys: Sequence[bytes]) -> npt.NDArray[np.int32]:
    """Return Java's hash of texts: `SelectMessageQueueByHash` of RocketMQ's clients chooses the
    queue by it.
    """
    units = [key.decode("utf-8").encode("utf-16-le", "surrogatepass") for key in keys]
    sizes = np.fromiter((len(one) // 2 for one in units), np.int64, len(units))
    if not sizes.sum():
        return np.zeros(len(keys), np.int32)
    codes = np.frombuffer(b"".join(units), "<u2").astype(np.uint32)
    ends = np.cumsum(sizes)
    left = np.repeat(ends, sizes) - np.arange(len(codes)) - 1
    powers = np.full(int(sizes.max()), 31, np.uint32)
    powers[0] = 1
    powers = np.cumprod(powers, dtype=np.uint32)
    sums = np.zeros(len(codes) + 1, np.uint32)
    np.cumsum(codes * powers[left], dtype=np.uint32, out=sums[1:])
    hashes: npt.NDArray[np.int32] = (sums[ends] - sums[ends - sizes]).view(np.int32)
    return hashes


def queue_of(hashed: int, queues: int) -> int:
    """Return the place of a queue among some, as Java's clients choose it: its remainder has the
    sign of the hash.
    """
    return abs(hashed) % queues


def header_rows(column: pa.Array) -> list[Any]:
    """Return headers as lists of pairs; none for all rows without any."""
    if column.null_count == len(column):
        return [None] * len(column)
    found: list[Any] = column.to_pylist()
    return found
