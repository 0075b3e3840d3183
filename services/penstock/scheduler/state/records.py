"""The keys of the scheduler and their stored forms.

- `assignment/<task>` the owner of a task or of a monitor; the revision of the entry is its epoch
  (invariant 4)
- `planned/<generation>` the configuration for which the plans in force were made
- `plan/<generation>/index` which chunks hold these plans; the revision of the entry is their epoch
- `plan/<generation>/<token>/<number>` a chunk
- `restarted/<generation>` the restart requests that were accepted, and the tasks that they cover
- `completed/<task>` the task has read all that it had to read
- `drain/<worker>` an operator drains this worker
- `event/<number>` events, some in each entry, from the one with this number on
- `logline/<number>` warnings in the logs of workers, some in each entry, likewise
- `scheduler/round` written with every round, so that an assignment has a revision of its own

Field names of `TaskRecord` and `PlanRecord` are part of the stored form.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from penstock.store.port import Entry

ASSIGNMENT_PREFIX: Final = "assignment/"
PLAN_PREFIX: Final = "planned/"
TASK_PLANS_PREFIX: Final = "plan/"
RESTART_PREFIX: Final = "restarted/"
COMPLETED_PREFIX: Final = "completed/"
DRAIN_PREFIX: Final = "drain/"
EVENT_PREFIX: Final = "event/"
LOG_LINE_PREFIX: Final = "logline/"
ROUND_KEY: Final = "scheduler/round"

KEY_PREFIXES: Final = (
    ASSIGNMENT_PREFIX,
    PLAN_PREFIX,
    TASK_PLANS_PREFIX,
    RESTART_PREFIX,
    COMPLETED_PREFIX,
    DRAIN_PREFIX,
    EVENT_PREFIX,
    LOG_LINE_PREFIX,
    ROUND_KEY,
)
"""Every key of the scheduler starts with one of these."""

SEALED_PREFIXES: Final = (TASK_PLANS_PREFIX, EVENT_PREFIX, LOG_LINE_PREFIX)
"""Keys whose values are encrypted with `store.seal.keys`: parts of configurations, and messages of
failures, which may quote values of rows.
"""


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """The owner of a task, and the digest of the configuration and plan that it runs.

    `name` is the name of the worker. It stays when the process restarts under another id.
    """

    worker: str
    name: str
    generation: str
    digest: str
    restarts: int = 0
    """Restarts in a row. Stored, so that a new leader continues the count."""


@dataclass(frozen=True, slots=True)
class OwnedTask:
    """The record of a task with its epoch."""

    record: TaskRecord
    epoch: int


@dataclass(frozen=True, slots=True)
class Completion:
    """A task has read all that it had to, with this digest of its configuration and plan, at this
    epoch.
    """

    digest: str
    epoch: int


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """Which plans of a connector are in force.

    `config` is the digest of the configuration that they were made for, `epoch` the revision at
    which they were stored, 0 for none. `monitor`: the connector has a monitor, which a worker must
    run. `applied` is the version of the configuration that plugins applied last to external
    systems; 0 means none, or unknown. It can be newer than the plans, when planning fails after it.
    """

    config: str = ""
    epoch: int = 0
    monitor: bool = False
    applied: int = 0


@dataclass(frozen=True, slots=True)
class AcceptedRestarts:
    """The restart requests of a connector that were accepted, up to `marker`.

    `tasks` are the tasks that they cover. A task is restarted when its epoch is newer than
    `revision`, the revision of the entry. `replan`: the connector is planned again, too.
    """

    marker: int
    tasks: tuple[str, ...] = ()
    replan: bool = False
    revision: int = 0


def record_key(task_id: str) -> str:
    """Return the key of the record of a task."""
    return ASSIGNMENT_PREFIX + task_id


def encode_record(record: TaskRecord) -> bytes:
    """Return the JSON value of a task record."""
    return json.dumps(asdict(record), separators=(",", ":")).encode()


def decode_record(entry: Entry) -> tuple[str, OwnedTask]:
    """Return the task id and the owned task of an entry."""
    record = TaskRecord(**_known_fields(TaskRecord, entry.value))
    return entry.key.removeprefix(ASSIGNMENT_PREFIX), OwnedTask(record, entry.revision)


def plans_prefix(generation: str) -> str:
    """Return the prefix of the task plans of a generation."""
    return f"{TASK_PLANS_PREFIX}{generation}/"


def plan_index_key(generation: str) -> str:
    """Return the key of the index of the task plans of a generation."""
    return f"{plans_prefix(generation)}index"


def plan_chunk_key(generation: str, token: str, number: int) -> str:
    """Return the key of a chunk of task plans. Keys are ordered by number."""
    return f"{plans_prefix(generation)}{token}/{number:06d}"


def encode_plan_record(record: PlanRecord) -> bytes:
    """Return the JSON value of a plan record."""
    return json.dumps(asdict(record), separators=(",", ":")).encode()


def encode_new_plan_record(record: PlanRecord) -> bytes:
    """Return the JSON value of a plan record that is stored together with its plans. Their epoch is
    not known before the write: it is the revision of the entry, and stored as null.
    """
    document = asdict(record) | {"epoch": None}
    return json.dumps(document, separators=(",", ":")).encode()


def decode_plan_record(entry: Entry) -> tuple[str, PlanRecord]:
    """Return the generation and the plan record of an entry."""
    document = _known_fields(PlanRecord, entry.value)
    if document.get("epoch", 0) is None:
        document["epoch"] = entry.revision
    return entry.key.removeprefix(PLAN_PREFIX), PlanRecord(**document)


def encode_accepted_restarts(generation: str, accepted: AcceptedRestarts) -> bytes:
    """Return the JSON value of accepted restarts.

    Task ids are stored without the generation that they start with: there may be ten thousand.
    """
    tasks = [id_.removeprefix(generation) for id_ in accepted.tasks]
    document = {"marker": accepted.marker, "tasks": tasks, "plan": accepted.replan}
    return json.dumps(document, separators=(",", ":")).encode()


def decode_accepted_restarts(entry: Entry) -> tuple[str, AcceptedRestarts]:
    """Return the generation and the accepted restarts of an entry."""
    generation = entry.key.removeprefix(RESTART_PREFIX)
    document = json.loads(entry.value)
    tasks = tuple(generation + suffix for suffix in document["tasks"])
    accepted = AcceptedRestarts(document["marker"], tasks, document["plan"], entry.revision)
    return generation, accepted


def encode_completion(completion: Completion) -> bytes:
    """Return the JSON value of a completion."""
    return json.dumps(asdict(completion), separators=(",", ":")).encode()


def decode_completion(entry: Entry) -> tuple[str, Completion]:
    """Return the task id and the completion of an entry."""
    completion = Completion(**_known_fields(Completion, entry.value))
    return entry.key.removeprefix(COMPLETED_PREFIX), completion


def _known_fields(kind: type[TaskRecord | PlanRecord | Completion], value: bytes) -> dict[str, Any]:
    """Return the fields of a stored form. Fields of a newer version are left out."""
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in json.loads(value).items() if name in names}
