"""The keys of the offset service, and the stored form of a task.

| key | holds |
|---|---|
| `task/<generation>/<task id>` | a task's record: a line of JSON, then what was prepared |
| `offset/<generation>/<partition id>` | an offset with its history, in a generation's first line |
| `line/<generation>/<line>/<partition id>` | the same in a later line, of a reset or rewind |
| `floor/<generation>` | the generation's head: floor, line, journals |
| `journal/<generation>/<id>/index` | a commit of many partitions that is not folded yet |
| `journal/<generation>/<id>/<number>` | a chunk of it |
"""

from __future__ import annotations

import json
from typing import Final

from penstock.offset.manifest import FIRST_LINE
from penstock.offset.rules import Prepared, TaskRecord

HEADS: Final = "floor/"
JOURNALS: Final = "journal/"

PLACES: Final = (HEADS, JOURNALS, "task/", "offset/", "line/")
"""What all keys of the service start with."""


def task_key(generation: str, task_id: str) -> str:
    """Return the key of a task's record."""
    return f"{tasks_prefix(generation)}{task_id}"


def tasks_prefix(generation: str) -> str:
    """Return what the keys of a generation's tasks start with."""
    return f"task/{generation}/"


def line_prefix(generation: str, line: str) -> str:
    """Return what the keys of a line's offsets start with."""
    return f"offset/{generation}/" if line == FIRST_LINE else f"line/{generation}/{line}/"


def head_key(generation: str) -> str:
    """Return the key of a generation's head."""
    return f"{HEADS}{generation}"


def journal_prefix(generation: str, id_: str) -> str:
    """Return what the keys of a journal start with."""
    return f"{JOURNALS}{generation}/{id_}/"


def index_key(generation: str, id_: str) -> str:
    """Return the key of a journal's index."""
    return f"{journal_prefix(generation, id_)}index"


def chunk_key(generation: str, id_: str, number: int) -> str:
    """Return the key of a chunk of a journal."""
    return f"{journal_prefix(generation, id_)}{number:04d}"


def encode_task(record: TaskRecord) -> bytes:
    """Return the stored form of a task's record."""
    head: dict[str, int | bool] = {
        "epoch": record.epoch,
        "applied": record.applied,
        "claim": record.claim,
    }
    if record.prepared is None:
        return json.dumps(head).encode() + b"\n"
    prepared = record.prepared
    head |= {
        "txn_id": prepared.txn_id,
        "state_bytes": prepared.state_bytes,
        "txn_epoch": prepared.epoch,
    }
    return json.dumps(head).encode() + b"\n" + prepared.body


def decode_task(value: bytes) -> TaskRecord:
    """Return a task's record."""
    line, _, body = value.partition(b"\n")
    head = json.loads(line)
    claim = head.get("claim", 1)  # absent: from before claims were counted
    if "txn_id" not in head:
        return TaskRecord(head["epoch"], None, head["applied"], claim)
    prepared = Prepared(head["txn_id"], body, head["state_bytes"], head["txn_epoch"])
    return TaskRecord(head["epoch"], prepared, head["applied"], claim)
