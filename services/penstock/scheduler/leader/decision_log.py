"""What the leader decided, as events: which task goes where, which workers came and went. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from penstock.model.events import Event
from penstock.scheduler.state.cluster import RecordWrite
from penstock.scheduler.state.desired_state import is_monitor_id
from penstock.scheduler.state.records import OwnedTask, TaskRecord
from penstock.scheduler.state.workers import Member

MAX_LINES: Final = 50
"""Events of one write. A cluster that starts with ten thousand tasks says the rest in one."""


def describe_write(
    write: RecordWrite,
    owned: Mapping[str, OwnedTask],
    names: Mapping[str, str],
    living: Collection[str],
) -> list[Event]:
    """Return an event for each task that a write moves.

    Args:
        write: The write.
        owned: The owners before it.
        names: The names of connectors by generation, also of those that were just deleted.
        living: The ids of the workers that are there.
    """
    events = list(_task_events(write, owned, names, living))
    left = len(events) - MAX_LINES
    if left <= 1:
        return events
    return [*events[:MAX_LINES], Event("assigned", f"and {left} more tasks")]


def _task_events(
    write: RecordWrite,
    owned: Mapping[str, OwnedTask],
    names: Mapping[str, str],
    living: Collection[str],
) -> Iterator[Event]:
    for id_, record in write.records.items():
        if is_monitor_id(id_):
            continue
        before = owned[id_].record if id_ in owned else None
        owner = record or before
        name = names.get(owner.generation, "") if owner else ""
        about = f"task {id_} of {name}" if name else f"task {id_}"
        kind, move = _move(before, record, living)
        yield Event(kind, f"{about} {move}", name, id_, worker_name(owner) if owner else "")


def _move(
    before: TaskRecord | None, after: TaskRecord | None, living: Collection[str]
) -> tuple[str, str]:
    """Return the kind of an event, and what a task does."""
    if after is None:
        return "released", f"ends on {worker_name(before)}" if before else "ends"
    if before is None:
        return "assigned", f"goes to {worker_name(after)}"
    if before.worker != after.worker:
        lost = "" if before.worker in living else ", which is lost,"
        return "moved", f"goes from {worker_name(before)}{lost} to {worker_name(after)}"
    if after.restarts > before.restarts:
        times = _ordinal(after.restarts)
        return "restarted", f"starts again on {worker_name(after)}, the {times} time in a row"
    return "restarted", f"starts anew on {worker_name(after)}"


def describe_members(before: Mapping[str, Member], after: Mapping[str, Member]) -> list[Event]:
    """Return an event for each worker that came or went."""
    came = sorted(_member_name(after[id_]) for id_ in after.keys() - before.keys())
    went = sorted(_member_name(before[id_]) for id_ in before.keys() - after.keys())
    return [
        *(Event("worker_gone", f"worker {name} is gone", worker=name) for name in went),
        *(Event("worker_joined", f"worker {name} is there", worker=name) for name in came),
    ]


def describe_drain(worker: str, *, drain: bool) -> Event:
    """Return the event of an operator who drains a worker, or undoes that."""
    if drain:
        return Event(
            "drained", f"worker {worker} is drained: its tasks go elsewhere", worker=worker
        )
    return Event("undrained", f"worker {worker} may have tasks again", worker=worker)


def worker_name(record: TaskRecord) -> str:
    """Return how a worker is called for people: by its name, which it need not have."""
    return record.name or record.worker


def _member_name(member: Member) -> str:
    return member.name or member.id


def _ordinal(number: int) -> str:
    tens, ones = number // 10 % 10, number % 10
    ending = "th" if tens == 1 else {1: "st", 2: "nd", 3: "rd"}.get(ones, "th")
    return f"{number}{ending}"
