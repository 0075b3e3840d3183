"""A commit that is stored as one piece: many partitions, one durable and atomic write. Pure.

A store takes about a hundred keys in one transaction, and a commit may touch a hundred thousand
partitions. Such a commit is written as chunks, which nobody sees; then one small write puts its
index, its task's record and its name into the generation's head: from there on it counts as a
whole. Readers lay it over the line of offsets until it has been folded in (see `folding`).

What a journal says of a partition counts unless the line has something that was written after it,
or by a newer epoch. So it may be folded twice, by anybody, and read while that goes on.
"""

from __future__ import annotations

import json
import secrets
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from penstock.offset import history, rules
from penstock.offset.cache import Known
from penstock.offset.history import Version

CHUNK_BYTES: Final = 448 << 10
"""Bytes of a chunk: two of them, an index, a task's record and a head are one request of etcd."""

INLINE_CHUNKS: Final = 2
"""Chunks that go with the index in one write. More are written before it."""

ORPHANED_AFTER: Final = 600_000
"""Milliseconds after which chunks without an index, or a line that is not finished, are left over
from a crash. No commit takes a tenth of it; a rewind that does has to be repeated."""

_ENTRY: Final = struct.Struct(">Hi")


@dataclass(frozen=True, slots=True)
class Journal:
    """What a commit says of its partitions; None removes an offset. `revision` is that of the write
    that made it count, `chunks` how many keys hold it, `size` their bytes.
    """

    id: str
    epoch: int
    time: int
    bodies: Mapping[str, bytes | None]
    chunks: int = 0
    size: int = 0
    revision: int = 0
    ordered: Sequence[str] = field(default=(), compare=False)

    def at(self, revision: int) -> Journal:
        """Return it as of the write that made it count, with its partitions in order."""
        return replace(self, revision=revision, ordered=sorted(self.bodies))


@dataclass(frozen=True, slots=True)
class Draft:
    """A journal that is not written yet, and its chunks."""

    journal: Journal
    chunks: Sequence[bytes]


def drafted(epoch: int, time: int, bodies: Mapping[str, bytes | None]) -> Draft:
    """Return a new journal; `time` in milliseconds since the epoch."""
    chunks = encode(bodies)
    size = sum(map(len, chunks))
    return Draft(Journal(new_id(time), epoch, time, bodies, len(chunks), size), chunks)


def new_id(time: int) -> str:
    """Return a name that is never used twice, and tells when it was made."""
    return f"{time:013x}-{secrets.token_hex(6)}"


def made_at(id_: str) -> int:
    """Return when a journal was begun, in milliseconds since the epoch."""
    return int(id_.partition("-")[0], 16)


def encode(bodies: Mapping[str, bytes | None]) -> list[bytes]:
    """Return the chunks of a journal. An entry is never cut."""
    chunks: list[bytes] = []
    parts: list[bytes] = []
    size = 0
    for id_, body in bodies.items():
        name = id_.encode()
        part = _ENTRY.pack(len(name), -1 if body is None else len(body)) + name + (body or b"")
        if size + len(part) > CHUNK_BYTES and parts:
            chunks.append(b"".join(parts))
            parts, size = [], 0
        parts.append(part)
        size += len(part)
    return [*chunks, b"".join(parts)]


def decode(chunk: bytes) -> dict[str, bytes | None]:
    """Return the entries of a chunk."""
    bodies: dict[str, bytes | None] = {}
    at = 0
    while at < len(chunk):
        name, size = _ENTRY.unpack_from(chunk, at)
        at += _ENTRY.size
        id_ = chunk[at : at + name].decode()
        at += name
        bodies[id_] = None if size < 0 else chunk[at : at + size]
        at += max(size, 0)
    return bodies


def encode_index(journal: Journal) -> bytes:
    """Return the stored form of a journal's index."""
    names = ("epoch", "time", "chunks", "size")
    return json.dumps({name: getattr(journal, name) for name in names}).encode()


def decode_index(id_: str, value: bytes, revision: int) -> Journal:
    """Return a journal without its bodies."""
    return Journal(id_, bodies={}, revision=revision, **json.loads(value))


def merged(
    partition_id: str, base: Known[bytes | None], journals: Sequence[Journal]
) -> bytes | None:
    """Return the value of a partition: what the line has, with the journals laid over it."""
    value = base.value
    for journal in journals:
        if base.revision > journal.revision or partition_id not in journal.bodies:
            continue
        if value is not None and rules.is_stale(journal.epoch, history.epoch_of(value)):
            continue  # a newer owner wrote it before this journal was folded (invariant 4)
        version = Version(journal.epoch, journal.time, journal.bodies[partition_id])
        value = history.pushed(value, version)
    return value
