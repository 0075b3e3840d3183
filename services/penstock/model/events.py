"""What happened in a cluster: one event for each assignment, loss, start, end, first commit and
failure. The leading scheduler keeps the latest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_EVENTS: Final = 1_000
"""Events that are kept (invariant 12). A day of a cluster that is well has some tens."""

MAX_EVENT_LENGTH: Final = 500
"""Characters of the message of an event. The status and the logs have longer ones whole."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. `number` grows from event to event, with gaps; `at_ms` is in
    milliseconds since 1970; `kind` is a word that does not change between versions. Without a
    connector it is about a worker.
    """

    kind: str
    message: str
    connector: str = ""
    task: str = ""
    worker: str = ""
    number: int = 0
    at_ms: int = 0
