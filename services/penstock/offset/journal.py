"""A commit of many partitions that is stored as one piece: one durable and atomic write. Pure.

A store takes about a hundred keys in one transaction, and a commit may have a hundred thousand
partitions. Such a commit is written as chunks, which are not visible. Then one small write stores
its index, the record of its task, and its id in the manifest of the generation: from then on the
whole commit is visible. Readers merge it with the current version until it has been compacted into
that version (see `compaction`).

The offset that a journal has for a partition counts unless the version contains a value that was
written after the journal, or by a newer epoch. So a journal can be compacted twice, by any
instance, and read meanwhile.
"""

from __future__ import annotations

import json
import secrets
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

CHUNK_BYTES: Final = 448 << 10
"""Bytes of a chunk: two chunks, an index, a task record and a manifest fit into one request of
etcd."""

INLINE_CHUNKS: Final = 2
"""Chunks that are written together with the index. When there are more, all are written before."""

ORPHANED_AFTER_MS: Final = 600_000
"""Milliseconds after which chunks without an index, or an unfinished version, count as left over
from a crash. No commit takes a tenth of it; a rewind that takes longer must be repeated."""

_ENTRY: Final = struct.Struct(">Hi")


@dataclass(frozen=True, slots=True)
class Journal:
    """The offsets of a commit by partition id; None removes an offset.

    `time_ms` is milliseconds since the Unix epoch; `chunks` is the number of keys that hold the
    offsets, `size` their bytes; `revision` is that of the write that made the journal visible.
    """

    id: str
    epoch: int
    time_ms: int
    bodies: Mapping[str, bytes | None]
    chunks: int = 0
    size: int = 0
    revision: int = 0
    sorted_ids: Sequence[str] = field(default=(), compare=False)

    def at_revision(self, revision: int) -> Journal:
        """Return the journal as visible since a revision, with its partition ids sorted."""
        return replace(self, revision=revision, sorted_ids=sorted(self.bodies))


@dataclass(frozen=True, slots=True)
class JournalDraft:
    """A journal that is not written yet, and its chunks."""

    journal: Journal
    chunks: Sequence[bytes]


def draft_journal(epoch: int, time_ms: int, bodies: Mapping[str, bytes | None]) -> JournalDraft:
    """Create a journal with a new id."""
    chunks = encode_chunks(bodies)
    size = sum(map(len, chunks))
    journal = Journal(new_id(time_ms), epoch, time_ms, bodies, len(chunks), size)
    return JournalDraft(journal, chunks)


def new_id(time_ms: int) -> str:
    """Return a unique id that contains a time."""
    return f"{time_ms:013x}-{secrets.token_hex(6)}"


def id_time_ms(id_: str) -> int:
    """Return the time that an id contains, in milliseconds since the Unix epoch."""
    return int(id_.partition("-")[0], 16)


def encode_chunks(bodies: Mapping[str, bytes | None]) -> list[bytes]:
    """Return the chunks of a journal. No entry is split."""
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


def decode_chunk(chunk: bytes) -> dict[str, bytes | None]:
    """Return the offsets of a chunk by partition id."""
    bodies: dict[str, bytes | None] = {}
    position = 0
    while position < len(chunk):
        name_size, size = _ENTRY.unpack_from(chunk, position)
        position += _ENTRY.size
        id_ = chunk[position : position + name_size].decode()
        position += name_size
        bodies[id_] = None if size < 0 else chunk[position : position + size]
        position += max(size, 0)
    return bodies


def encode_index(journal: Journal) -> bytes:
    """Return the stored form of the index of a journal."""
    document = {
        "epoch": journal.epoch,
        "time": journal.time_ms,
        "chunks": journal.chunks,
        "size": journal.size,
    }
    return json.dumps(document).encode()


def decode_index(id_: str, value: bytes, revision: int) -> Journal:
    """Return the journal of an index, without its bodies."""
    document = json.loads(value)
    return Journal(
        id_,
        document["epoch"],
        document["time"],
        {},
        document["chunks"],
        document["size"],
        revision,
    )
