"""The latest events, and those that follow from reports of workers. Pure."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final

from penstock.model.connector import TaskState, TaskStatus
from penstock.model.events import MAX_EVENT_LENGTH, MAX_EVENTS, Event
from penstock.scheduler.state.desired_state import is_monitor_id

MAX_STORED_EVENTS: Final = 200
"""Events of one stored entry: some tens of kilobytes, of the 1.5 MB that etcd takes."""

_TERM_GAP: Final = 10_000
"""Numbers that a new leader leaves out. The last events of its predecessor may not be stored, and
somebody may have read them.
"""

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


class EventLog:
    """The latest events, and which of them are not stored yet."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self._unstored: list[Event] = []
        self._next = 1
        self._is_loaded = False

    def load(self, events: Sequence[Event]) -> None:
        """Put the stored events in front of those that were added since this leader began."""
        if self._is_loaded or not events:
            self._is_loaded = True
            return
        self._is_loaded, last = True, events[-1].number
        added = [
            replace(event, number=last + _TERM_GAP + at) for at, event in enumerate(self._unstored)
        ]
        self._events.clear()
        self._events.extend([*events, *added])
        self._unstored = added
        self._next = last + _TERM_GAP + len(added)

    def add(self, events: Iterable[Event], at_ms: int) -> None:
        """Add events that happened now."""
        for event in events:
            text = event.message[:MAX_EVENT_LENGTH]
            made = replace(event, message=text, number=self._next, at_ms=at_ms)
            self._next += 1
            self._events.append(made)
            self._unstored.append(made)
        del self._unstored[:-MAX_EVENTS]

    def latest(self, connector: str, after: int, limit: int) -> list[Event]:
        """Return the latest events behind a number: of a connector, or of all for ""."""
        found = [
            event
            for event in self._events
            if event.number > after and (not connector or event.connector == connector)
        ]
        return found[-limit:] if limit else []

    def take_unstored(self) -> list[list[Event]]:
        """Return the events to store, in entries. `record_stored` comes after the write."""
        events, size = self._unstored, MAX_STORED_EVENTS
        return [events[at : at + size] for at in range(0, len(events), size)]

    def record_stored(self, events: Sequence[Event]) -> None:
        """Record that events are stored."""
        last = events[-1].number
        self._unstored = [event for event in self._unstored if event.number > last]


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


def _changes(before: TaskStatus | None, after: TaskStatus) -> Iterator[tuple[str, str]]:
    if before is None or before.epoch != after.epoch:
        before = TaskStatus(after.task_id, after.connector, after.epoch, TaskState.STARTING)
    is_again = after.restarts != before.restarts
    if (after.state is not before.state or is_again) and after.state in _STATES:
        kind, verb = _STATES[after.state]
        why = after.diagnostic if after.state in _FAILED else None
        yield kind, f"{verb}: [{why.code}] {why.message}" if why else verb
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
