"""Task plans as one text of bytes, cut into chunks. Pure.

The plans of a connector may be of a hundred thousand tasks. Each plan is a frame: its length in 4
bytes, then its bytes as they came. The frames are cut into chunks wherever a chunk is full, so that
no value of the store is large, also when a single plan is.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final

from penstock.model.errors import ConfigError

CHUNK_BYTES: Final = 448 << 10
"""Bytes in a chunk. etcd takes values up to 1.5 MB; smaller ones only make more keys."""

MOST_TASKS: Final = 100_000
MOST_BYTES: Final = 64 << 20
"""Bounds of the plans of one connector (invariant 12)."""

_LENGTH: Final = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Index:
    """Where the plans of a generation are. `token` names the chunks of one upload."""

    token: str
    chunks: int
    tasks: int
    size: int


class TaskIds:
    """Checks the ids of plans as they come: of this generation, each once, in order."""

    def __init__(self, generation: str) -> None:
        """Expect tasks of `generation`."""
        self._form = re.compile(re.escape(generation) + r"-([0-9]{1,9})")
        self._generation, self._last, self.count = generation, -1, 0

    def check(self, task_id: str) -> None:
        """Take the next id.

        Raises:
            ConfigError: `config.plan_task_id`, `config.plan_too_large`.
        """
        match = self._form.fullmatch(task_id)
        number = int(match[1]) if match else -1
        if number <= self._last:
            raise ConfigError(
                "config.plan_task_id",
                f"task ids must be {self._generation}-<number>, each once, in order of number; "
                f"{task_id[:100]!r} is not",
                fix="Plan the connector again, for the generation that it has now.",
            )
        self._last = number
        self.count += 1
        if self.count > MOST_TASKS:
            raise too_large(f"more than {MOST_TASKS} tasks")


class Chunker:
    """Cuts frames into chunks as they come."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self.size = 0

    def add(self, plan: bytes) -> Iterator[bytes]:
        """Take a plan; returns the chunks that are full.

        Raises:
            ConfigError: `config.plan_too_large`.
        """
        self._rest += _LENGTH.pack(len(plan)) + plan
        self.size += _LENGTH.size + len(plan)
        if self.size > MOST_BYTES:
            raise too_large(f"more than {MOST_BYTES} bytes")
        return self._full()

    def rest(self) -> bytes:
        """Return the last chunk, which may be empty."""
        return bytes(self._rest)

    def _full(self) -> Iterator[bytes]:
        while len(self._rest) >= CHUNK_BYTES:
            yield bytes(self._rest[:CHUNK_BYTES])
            del self._rest[:CHUNK_BYTES]


class Frames:
    """Puts chunks together again, as they come."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def add(self, chunk: bytes) -> Iterator[bytes]:
        """Take a chunk; returns the plans that are whole."""
        self._rest += chunk
        at = 0
        while len(self._rest) - at >= _LENGTH.size:
            size: int = _LENGTH.unpack_from(self._rest, at)[0]
            end = at + _LENGTH.size + size
            if end > len(self._rest):
                break
            yield bytes(self._rest[at + _LENGTH.size : end])
            at = end
        del self._rest[:at]


def encode_index(index: Index) -> bytes:
    """Return the stored form of an index."""
    return json.dumps(asdict(index)).encode()


def decode_index(value: bytes) -> Index | None:
    """Return an index; None for one of before plans were streamed: its connector is planned anew
    when it starts.
    """
    document = json.loads(value)
    return Index(**document) if "token" in document else None


def too_large(what: str) -> ConfigError:
    """Return the error of plans that are over a bound."""
    return ConfigError(
        "config.plan_too_large",
        f"the plans of the connector are of {what}",
        fix=f"Stay within {MOST_TASKS} tasks and {MOST_BYTES >> 20} MiB: lower `tasks.max`, or "
        "divide the connector.",
        config_path="tasks.max",
    )
