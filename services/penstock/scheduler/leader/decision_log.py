"""What the leader decided, as lines of its log: which task goes where, and which workers came and
went. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from penstock.scheduler.state.cluster import RecordWrite
from penstock.scheduler.state.desired_state import TaskSpec, is_monitor_id
from penstock.scheduler.state.records import OwnedTask, TaskRecord
from penstock.scheduler.state.workers import Member

MAX_LINES: Final = 50
"""Lines about one write. A cluster that starts with ten thousand tasks says the rest in one."""


def describe_write(
    write: RecordWrite,
    owned: Mapping[str, OwnedTask],
    specs: Mapping[str, TaskSpec],
    living: Collection[str],
) -> list[str]:
    """Return a line for each task that a write moves.

    Args:
        write: The write.
        owned: The owners before it.
        specs: The tasks that should run.
        living: The ids of the workers that are there.
    """
    lines = list(_task_lines(write, owned, specs, living))
    left = len(lines) - MAX_LINES
    return lines if left <= 1 else [*lines[:MAX_LINES], f"and {left} more tasks"]


def _task_lines(
    write: RecordWrite,
    owned: Mapping[str, OwnedTask],
    specs: Mapping[str, TaskSpec],
    living: Collection[str],
) -> Iterator[str]:
    for id_, record in write.records.items():
        if is_monitor_id(id_):
            continue
        before = owned[id_].record if id_ in owned else None
        spec = specs.get(id_)
        connector = f" of {spec.connector.name}" if spec is not None else ""
        yield f"task {id_}{connector} {_move(before, record, living)}"


def _move(before: TaskRecord | None, after: TaskRecord | None, living: Collection[str]) -> str:
    if after is None:
        return f"ends on {worker_name(before)}" if before else "ends"
    if before is None:
        return f"goes to {worker_name(after)}"
    if before.worker != after.worker:
        lost = "" if before.worker in living else ", which is lost,"
        return f"goes from {worker_name(before)}{lost} to {worker_name(after)}"
    if after.restarts > before.restarts:
        return f"starts again on {worker_name(after)}, the {_ordinal(after.restarts)} time in a row"
    return f"starts anew on {worker_name(after)}"


def describe_members(before: Mapping[str, Member], after: Mapping[str, Member]) -> list[str]:
    """Return a line for each worker that came or went."""
    came = (f"worker {_member_name(after[id_])} is there" for id_ in after.keys() - before.keys())
    went = (f"worker {_member_name(before[id_])} is gone" for id_ in before.keys() - after.keys())
    return [*sorted(went), *sorted(came)]


def worker_name(record: TaskRecord) -> str:
    """Return how a worker is called for people: by its name, which it need not have."""
    return record.name or record.worker


def _member_name(member: Member) -> str:
    return member.name or member.id


def _ordinal(number: int) -> str:
    tens, ones = number // 10 % 10, number % 10
    ending = "th" if tens == 1 else {1: "st", 2: "nd", 3: "rd"}.get(ones, "th")
    return f"{number}{ending}"
