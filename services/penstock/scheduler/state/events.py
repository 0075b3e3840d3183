"""The latest events, and those that follow from reports of workers. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from penstock.model.connector import TaskState, TaskStatus
from penstock.model.events import MAX_EVENT_LENGTH, MAX_EVENTS, Event
from penstock.scheduler.state.desired_state import is_monitor_id
from penstock.scheduler.state.numbered_log import NumberedLog

_STATES: Final[Mapping[TaskState, tuple[str, str]]] = {
    TaskState.RUNNING: ("running", "runs"),
    TaskState.PAUSED: ("paused", "is paused"),
    TaskState.RESTARTING: ("retrying", "failed and is tried again"),
    TaskState.FAILED: ("failed", "failed"),
    TaskState.COMPLETED: ("completed", "is completed"),
}
"""The states that have an event: its kind, and what the task does."""


_FAILED: Final = frozenset({TaskState.FAILED, TaskState.RESTARTING})
"""The states that a diagnostic explains."""

_BETWEEN_LEADERS: Final = _FAILED | {TaskState.COMPLETED}
"""The states of a first report that are events. That a task runs is none: all of them do."""

_KINDS_OF_STATE: Final = frozenset(
    {*(kind for kind, _ in _STATES.values()), "assigned", "moved", "restarted"}
)
"""The kinds of events after which the state of a task is known; the last three: it starts."""

LIMIT_WINDOW_S: Final = 60.0
"""Seconds for which events of one kind are counted. Shorter, and a start of many tasks has several
windows; longer, and it takes that long until an event says how many were left out."""

MAX_EVENTS_PER_WINDOW: Final = 100
"""Events of one kind in a window: a tenth of those that are kept."""


class EventLog(NumberedLog[Event]):
    """The latest events."""

    def __init__(self) -> None:
        super().__init__(MAX_EVENTS)

    def add(self, events: Iterable[Event], at_ms: int) -> None:
        """Add events that happened now."""
        self.append(
            replace(event, message=event.message[:MAX_EVENT_LENGTH], at_ms=at_ms)
            for event in events
        )

    def latest(self, connector: str, after: int, limit: int, generation: str = "") -> list[Event]:
        """Return the latest events behind a number: of a connector, or of all for "". With its
        `generation`, without those of an earlier connector of the same name.
        """

        def matches(event: Event) -> bool:
            return (
                event.number > after
                and (not connector or event.connector == connector)
                and (not event.task or event.task.startswith(generation))
            )

        return self.select(matches, limit)

    def last_states(self) -> dict[str, str]:
        """Return the kind of the last event of each task that is about its state."""
        return {event.task: event.kind for event in self._items if event.kind in _KINDS_OF_STATE}


class EventLimit:
    """Keeps events of one kind from pushing out all others: ten thousand tasks that start have one
    event each. The first ones of a window pass, and the first one of each connector; the rest is
    one event that says how many.
    """

    def __init__(self) -> None:
        self._windows: dict[str, _Window] = {}

    def admit(self, events: Iterable[Event], now: float) -> list[Event]:
        """Return the events that pass, after those that say what did not pass before."""
        admitted = self.summarize(now)
        for event in events:
            window = self._windows.setdefault(event.kind, _Window(now))
            if window.admits(event):
                admitted.append(event)
        return admitted

    def summarize(self, now: float) -> list[Event]:
        """End the windows that are over; return an event for each that left some out."""
        over = [kind for kind, one in self._windows.items() if now - one.began >= LIMIT_WINDOW_S]
        ended = {kind: self._windows.pop(kind) for kind in over}
        return [
            Event(kind, f"and {one.left_out} more events of kind {kind}")
            for kind, one in ended.items()
            if one.left_out
        ]


@dataclass(slots=True)
class _Window:
    """The events of one kind since `began`."""

    began: float
    passed: int = 0
    left_out: int = 0
    connectors: set[str] = field(default_factory=set)

    def admits(self, event: Event) -> bool:
        """Return whether an event passes, and count it."""
        passes = self.passed < MAX_EVENTS_PER_WINDOW or event.connector not in self.connectors
        self.connectors.add(event.connector)
        self.passed += passes
        self.left_out += not passes
        return passes


def events_of_report(
    before: Mapping[str, TaskStatus], after: Mapping[str, TaskStatus], worker: str
) -> Iterator[Event]:
    """Yield what happened to tasks between two reports of one session.

    Args:
        before: The statuses before. A task that is not there is new.
        after: The statuses that changed.
        worker: The name of the worker.
    """
    for id_, status in after.items():
        if not is_monitor_id(id_):
            for kind, message in _changes(before.get(id_), status):
                text = f"task {id_} of {status.connector} {message}"
                yield Event(kind, text, status.connector, id_, worker)


def events_between_leaders(
    reported: Mapping[str, TaskStatus], last_states: Mapping[str, str], worker: str
) -> Iterator[Event]:
    """Yield what happened to tasks that no leader was told of, by the first report of a session:
    failures and ends that are not the last event about the state of the task. A task
    without an event that is completed was so long ago.
    """
    for id_, status in reported.items():
        if status.state in _BETWEEN_LEADERS and not is_monitor_id(id_):
            kind, text = _describe_state(status)
            if last_states.get(id_, "completed") != kind:
                message = f"task {id_} of {status.connector} {text}"
                yield Event(kind, message, status.connector, id_, worker)


def _describe_state(status: TaskStatus) -> tuple[str, str]:
    """Return the kind of the event of a state, and what the task does."""
    kind, verb = _STATES[status.state]
    why = status.diagnostic if status.state in _FAILED else None
    return kind, f"{verb}: [{why.code}] {why.message}" if why else verb


def _changes(before: TaskStatus | None, after: TaskStatus) -> Iterator[tuple[str, str]]:
    if before is None or before.epoch != after.epoch:
        before = TaskStatus(after.task_id, after.connector, after.epoch, TaskState.STARTING)
    is_again = after.restarts != before.restarts
    if (after.state is not before.state or is_again) and after.state in _STATES:
        yield _describe_state(after)
    if after.batches and not before.batches:
        yield "first_commit", f"committed its first rows: {after.rows_written}"
    if after.rows_failed and not before.rows_failed:
        yield "rejected_rows", f"rejects rows: {after.rows_failed} so far"


def encode_events(events: Sequence[Event]) -> bytes:
    """Return the JSON value of an entry."""
    return json.dumps(
        [asdict(event) for event in events], ensure_ascii=False, separators=(",", ":")
    ).encode()


def decode_events(value: bytes) -> list[Event]:
    """Return the events of an entry. Fields of a newer version are left out."""
    names = Event.__dataclass_fields__.keys()
    return [
        Event(**{name: found for name, found in one.items() if name in names})
        for one in json.loads(value)
    ]
