"""The keys of the scheduler, and the stored forms.

- `assignment/<task>` who owns a task, or a monitor; the entry's revision is its epoch
  (invariant 4)
- `planned/<generation>` which configuration the plans in force were made for
- `restarted/<generation>` which requests to restart were taken, and which tasks they mean
- `drain/<worker>` a person wants this worker to be empty
- `scheduler/round` written with every round, so that an assignment has a revision of its own
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from penstock.store import Entry

ASSIGNMENTS: Final = "assignment/"
PLANNED: Final = "planned/"
RESTARTED: Final = "restarted/"
DRAINS: Final = "drain/"
ROUND: Final = "scheduler/round"

PLACES: Final = (ASSIGNMENTS, PLANNED, RESTARTED, DRAINS, ROUND)
"""What all keys of the scheduler start with."""


@dataclass(frozen=True, slots=True)
class Record:
    """Who owns a task, and which form of it.

    `name` is the worker's, which it keeps when its process is started anew under another id.
    """

    worker: str
    name: str
    generation: str
    digest: str
    restarts: int = 0
    """Restarts in a row, so that a new leader does not begin to count anew."""


@dataclass(frozen=True, slots=True)
class Owned:
    """A record with its epoch."""

    record: Record
    epoch: int


@dataclass(frozen=True, slots=True)
class Planned:
    """Plans that were made: for which configuration, and at which revision they were stored.

    `monitor`: the connector has one, which is to run somewhere. `applied`: the version of the
    configuration that plugins set up outside last, which has no plans while it cannot be planned;
    0: none, or not known.
    """

    config: str = ""
    epoch: int = 0
    monitor: bool = False
    applied: int = 0


@dataclass(frozen=True, slots=True)
class Taking:
    """Requests to restart that were taken: up to which marker, and which tasks they mean. A task is
    done when its epoch is newer than `revision`, that of the entry. `plan`: the connector is to be
    planned anew.
    """

    marker: int
    tasks: tuple[str, ...] = ()
    plan: bool = False
    revision: int = 0


def record_key(task_id: str) -> str:
    """Return the key of a task's record."""
    return ASSIGNMENTS + task_id


def encode_record(record: Record) -> bytes:
    """Return the stored form."""
    return json.dumps(asdict(record), separators=(",", ":")).encode()


def decode_record(entry: Entry) -> tuple[str, Owned]:
    """Return the task of an entry, and who owns it."""
    record = Record(**_known(Record, entry.value))
    return entry.key.removeprefix(ASSIGNMENTS), Owned(record, entry.revision)


def encode_planned(planned: Planned) -> bytes:
    """Return the stored form."""
    return json.dumps(asdict(planned), separators=(",", ":")).encode()


def decode_planned(entry: Entry) -> tuple[str, Planned]:
    """Return the generation of an entry, and what its plans were made for."""
    return entry.key.removeprefix(PLANNED), Planned(**_known(Planned, entry.value))


def encode_taking(generation: str, taking: Taking) -> bytes:
    """Return the stored form: of ids only what comes after the generation, since there may be ten
    thousand.
    """
    tasks = [id_.removeprefix(generation) for id_ in taking.tasks]
    document = {"marker": taking.marker, "tasks": tasks, "plan": taking.plan}
    return json.dumps(document, separators=(",", ":")).encode()


def decode_taking(entry: Entry) -> tuple[str, Taking]:
    """Return the generation of an entry, and what was taken."""
    generation = entry.key.removeprefix(RESTARTED)
    document = json.loads(entry.value)
    tasks = tuple(generation + rest for rest in document["tasks"])
    return generation, Taking(document["marker"], tasks, document["plan"], entry.revision)


def _known(kind: type[Record | Planned], value: bytes) -> dict[str, Any]:
    """Return the fields of a stored form; those of a newer version are left out."""
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in json.loads(value).items() if name in names}
