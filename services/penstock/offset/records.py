"""The keys of the offset service, and the stored forms of manifests and tasks.

| key | value |
|---|---|
| `task/<generation>/<task id>` | a task record: a line of JSON, then the prepared transaction |
| `offset/<generation>/<partition id>` | an offset with its history, in the first version |
| `line/<generation>/<version>/<partition id>` | the same in a later version |
| `floor/<generation>` | the manifest of a generation: epochs, version, journals |
| `journal/<generation>/<id>/index` | a commit of many partitions that is not compacted yet |
| `journal/<generation>/<id>/<number>` | a chunk of it |

A *version* is one complete set of a generation's offsets. A commit writes into the current version;
a reset or a rewind builds a new one and switches to it. (The *history* of one offset is in its
value, see `history`.)
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.offset.rules import PreparedTransaction, TaskRecord

MANIFEST_PREFIX: Final = "floor/"
JOURNAL_PREFIX: Final = "journal/"

KEY_PREFIXES: Final = (MANIFEST_PREFIX, JOURNAL_PREFIX, "task/", "offset/", "line/")
"""Every key of the service starts with one of these."""

MAX_EPOCH: Final = 2**64 - 1
"""An epoch that no task ever gets."""

FIRST_VERSION: Final = ""
"""The version with which a generation begins."""


def task_key(generation: str, task_id: str) -> str:
    """Return the key of the record of a task."""
    return f"{task_prefix(generation)}{task_id}"


def task_prefix(generation: str) -> str:
    """Return the prefix of the keys of a generation's tasks."""
    return f"task/{generation}/"


def version_prefix(generation: str, version: str) -> str:
    """Return the prefix of the keys of the offsets in a version."""
    if version == FIRST_VERSION:
        return f"offset/{generation}/"
    return f"line/{generation}/{version}/"


def manifest_key(generation: str) -> str:
    """Return the key of the manifest of a generation."""
    return f"{MANIFEST_PREFIX}{generation}"


def journal_index_key(generation: str, journal_id: str) -> str:
    """Return the key of the index of a journal."""
    return f"{_journal_prefix(generation, journal_id)}index"


def journal_chunk_key(generation: str, journal_id: str, number: int) -> str:
    """Return the key of a chunk of a journal."""
    return f"{_journal_prefix(generation, journal_id)}{number:04d}"


def _journal_prefix(generation: str, journal_id: str) -> str:
    return f"{JOURNAL_PREFIX}{generation}/{journal_id}/"


def encode_task(record: TaskRecord) -> bytes:
    """Return the stored form of the record of a task."""
    header: dict[str, int | bool] = {
        "epoch": record.epoch,
        "applied": record.applied,
        "claim": record.claim,
    }
    if record.prepared is None:
        return json.dumps(header).encode() + b"\n"
    prepared = record.prepared
    header |= {
        "txn_id": prepared.txn_id,
        "state_bytes": prepared.state_bytes,
        "txn_epoch": prepared.epoch,
    }
    return json.dumps(header).encode() + b"\n" + prepared.body


def decode_task(value: bytes) -> TaskRecord:
    """Return the record of a task from its stored form."""
    line, _, body = value.partition(b"\n")
    header = json.loads(line)
    claim = header.get("claim", 1)  # absent in records from before claims were counted
    if "txn_id" not in header:
        return TaskRecord(header["epoch"], None, header["applied"], claim)
    prepared = PreparedTransaction(
        header["txn_id"], body, header["state_bytes"], header["txn_epoch"]
    )
    return TaskRecord(header["epoch"], prepared, header["applied"], claim)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The record of a generation, on which every write of its offsets depends.

    - `floor`: the newest fenced epoch. An operator altered offsets after it (invariant 4).
    - `newest_epoch`: the newest epoch that claimed a task. A task of this epoch cannot overwrite a
      newer owner, so only a task of an older epoch must check who wrote each partition.
    - `version`: the current version. A reset or a rewind switches it.
    - `journals`: the journals that are durable and visible, and not yet in the version.
    - `pending_version`: the version that a reset or rewind is building. It is not visible.
    - `dead_versions`: versions that are no longer read, to be deleted.
    - `is_deleted`: the connector is deleted and its offsets are to be deleted completely.
    """

    floor: int = 0
    newest_epoch: int = 0
    version: str = FIRST_VERSION
    journals: tuple[str, ...] = ()
    pending_version: str = ""
    dead_versions: tuple[str, ...] = ()
    is_deleted: bool = False

    @property
    def needs_compaction(self) -> bool:
        """Whether there are journals to compact or keys to delete."""
        return bool(self.journals or self.dead_versions or self.is_deleted)

    def with_claim(self, epoch: int) -> Manifest:
        """Return the manifest after a claim; the same object when the epoch is not newer.

        A claim means that the connector was started, so it abandons a pending reset or rewind.
        """
        if epoch <= self.newest_epoch:
            return self
        return replace(self, newest_epoch=epoch).without_pending()

    def with_fence(self, epoch: int) -> Manifest:
        """Return the manifest that fences every known epoch, and all epochs up to `epoch`."""
        floor = max(epoch, self.floor, self.newest_epoch)
        return replace(self, floor=floor, newest_epoch=floor).without_pending()

    def with_journal(self, journal_id: str) -> Manifest:
        """Return the manifest with one more visible journal."""
        return replace(self, journals=(*self.journals, journal_id))

    def with_pending(self, version: str) -> Manifest:
        """Return the manifest while a new version is built. It must be fenced before."""
        return replace(self, pending_version=version)

    def without_pending(self) -> Manifest:
        """Return the manifest without a pending version; the same object if there is none."""
        if not self.pending_version:
            return self
        dead = (*self.dead_versions, self.pending_version)
        return replace(self, pending_version="", dead_versions=dead)

    def switched(self) -> Manifest:
        """Return the manifest whose current version is the pending one."""
        dead = (*self.dead_versions, self.version)
        return replace(self, version=self.pending_version, pending_version="", dead_versions=dead)

    def deleted(self) -> Manifest:
        """Return the manifest of a generation to delete: no epoch can claim it meanwhile."""
        return replace(self, floor=MAX_EPOCH, newest_epoch=MAX_EPOCH, is_deleted=True)


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the stored form of a manifest. Its keys differ from the names of the fields."""
    document = {
        "floor": manifest.floor,
        "top": manifest.newest_epoch,
        "line": manifest.version,
        "journals": manifest.journals,
        "building": manifest.pending_version,
        "dead": manifest.dead_versions,
        "gone": manifest.is_deleted,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def decode_manifest(value: bytes) -> Manifest:
    """Return a manifest from its stored form. The earliest form is only the floor, as a number."""
    document: Any = json.loads(value)
    if isinstance(document, int):
        return Manifest(floor=document, newest_epoch=document)
    return Manifest(
        document.get("floor", 0),
        document.get("top", 0),
        document.get("line", FIRST_VERSION),
        tuple(document["journals"]),
        document.get("building", ""),
        tuple(document["dead"]),
        document.get("gone", False),
    )
