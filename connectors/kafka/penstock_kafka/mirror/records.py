"""Records of MirrorMaker's topics, as its tools read them. Pure.

Numbers are big-endian; a text is its length in two bytes and UTF-8. Values of checkpoints and
heartbeats begin with a version in two bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock_connector.messages import KEY, VALUE

ROWS: Final = pa.schema([(KEY, pa.binary()), (VALUE, pa.binary())])
"""Records as rows: the bytes of their messages."""

_LENGTH: Final = struct.Struct(">h")
_NUMBER: Final = struct.Struct(">i")
_OFFSETS: Final = struct.Struct(">qq")
_TIME: Final = struct.Struct(">hq")
_CHECKPOINT: Final = struct.Struct(">hqq")
_VERSION: Final = 0


@dataclass(frozen=True, slots=True, order=True)
class OffsetSync:
    """A message of a topic's partition has one offset in the source and another one in the target.
    `topic` is its name in the source.
    """

    topic: str
    partition: int
    upstream: int
    downstream: int

    def encode(self) -> tuple[bytes, bytes]:
        """Return key and value of the record."""
        key = _text(self.topic) + _NUMBER.pack(self.partition)
        return key, _OFFSETS.pack(self.upstream, self.downstream)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> OffsetSync | None:
        """Return the sync in a record; None where it is none."""
        try:
            (length,) = _LENGTH.unpack_from(key or b"")
            topic = (key or b"")[2 : 2 + length].decode()
            (number,) = _NUMBER.unpack((key or b"")[2 + length :])
            return cls(topic, number, *_OFFSETS.unpack(value or b""))
        except (struct.error, UnicodeDecodeError):
            return None


@dataclass(frozen=True, slots=True, order=True)
class Checkpoint:
    """How far a consumer group is, in both clusters. `topic` is its name in the target."""

    group: str
    topic: str
    partition: int
    upstream: int
    downstream: int
    metadata: str = ""

    def encode(self) -> tuple[bytes, bytes]:
        """Return key and value of the record."""
        key = _text(self.group) + _text(self.topic) + _NUMBER.pack(self.partition)
        value = _CHECKPOINT.pack(_VERSION, self.upstream, self.downstream)
        return key, value + _text(self.metadata)


def encode_heartbeat(source: str, target: str, at_ms: int) -> tuple[bytes, bytes]:
    """Return key and value of a heartbeat between two clusters."""
    return _text(source) + _text(target), _TIME.pack(_VERSION, at_ms)


def _text(text: str) -> bytes:
    data = text.encode()
    return _LENGTH.pack(len(data)) + data
