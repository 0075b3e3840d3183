"""What a folder of files would change in a cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Doing(Enum):
    """What is done to a connector, in this order: what stops comes before what starts."""

    DELETE = "delete"
    UPDATE = "update"
    STATE = "state"
    CREATE = "create"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A connector as its file has it. `state` is empty where the file leaves it alone."""

    name: str
    config: Mapping[str, str]
    state: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class Compared:
    """What the cluster says of a file: how its connector differs. `revision` 0: it is not there."""

    revision: int = 0
    state: str = ""
    tasks: int = 0
    differences: Sequence[Mapping[str, Any]] = ()
    errors: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be done to a connector, and what that does to its tasks."""

    doing: Doing
    name: str
    tasks: str = ""
    revision: int = 0
    state: str = ""
    wanted: Wanted | None = None
    differences: Sequence[Mapping[str, Any]] = ()
    errors: Sequence[Mapping[str, Any]] = ()


def change_of(wanted: Wanted, now: Compared) -> Change:
    """Return what makes a connector what its file says; nothing, when it is."""
    state = wanted.state if wanted.state not in {"", now.state} else ""
    if not now.revision:
        state = wanted.state or "RUNNING"
        doing, tasks = Doing.CREATE, _started(wanted) if state == "RUNNING" else "none"
    elif now.differences:
        doing, tasks = Doing.UPDATE, _changed(wanted, now, state)
    elif state:
        doing, tasks = Doing.STATE, _steered(wanted, state, now.tasks)
    else:
        doing, tasks = Doing.NOTHING, ""
    return Change(
        doing, wanted.name, tasks, now.revision, state, wanted, now.differences, now.errors
    )


def deleted(name: str, tasks: int) -> Change:
    """Return the change that takes a connector away which no file has."""
    return Change(Doing.DELETE, name, f"{tasks} stop" if tasks else "none")


def ordered(changes: Iterable[Change]) -> list[Change]:
    """Return changes as they are carried out; those that change nothing come last."""
    order = list(Doing)
    return sorted(changes, key=lambda change: (order.index(change.doing), change.name))


def _changed(wanted: Wanted, now: Compared, state: str) -> str:
    """Tell what another configuration does to the tasks, with a state if that changes, too."""
    becomes = state or now.state
    if becomes == "STOPPED":
        return _steered(wanted, state, now.tasks) if state else "none"
    if not now.tasks:
        return _started(wanted) if becomes == "RUNNING" else "none"
    again = f"{now.tasks} restart"
    if any(one["key"] == "tasks.max" for one in now.differences):
        again = f"{now.tasks} stop, {_started(wanted)}"
    return f"{again}, paused" if becomes == "PAUSED" else again


def _started(wanted: Wanted) -> str:
    return f"up to {wanted.config.get('tasks.max', '1')} start"


def _steered(wanted: Wanted, state: str, tasks: int) -> str:
    if state == "RUNNING":
        return f"{tasks} resume" if tasks else _started(wanted)
    word = {"PAUSED": "pause", "STOPPED": "stop"}[state]
    return f"{tasks} {word}" if tasks else "none"
