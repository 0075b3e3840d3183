"""What becomes of a task that ended with an error. Pure: time and chance are arguments.

| class of the error | what follows |
|---|---|
| RETRIABLE, unset | started anew after a growing delay, at most `restart.max` times in a row |
| INTERNAL | the same, at most `DEFECTS` times: a defect seldom mends itself |
| FENCED | never in place: the worker must let go, then the task is assigned anew |
| CONFIG, AUTH, DATA, SCHEMA, OFFSET_LOST | waits for a person, or for a new revision |

A task that runs for a quiet time has its restarts forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.model.errors import Diagnostic, ErrorClass

DEFECTS: Final = 3
"""Restarts after INTERNAL errors. Fewer leave a task down after an accident (a lost JVM); more hide
a defect behind a task that seems to run."""

_AGAIN: Final = frozenset({ErrorClass.UNSPECIFIED, ErrorClass.RETRIABLE, ErrorClass.INTERNAL})


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How fast tasks are started anew, in seconds.

    A smaller `first` spins on what fails at once; a larger `longest` leaves rows waiting after a
    long outage. `quiet` must be longer than what a failing task usually lives, else delays never
    grow. `jitter` is the part of a delay that chance takes away, so that the tasks of a connector
    whose system comes back do not all arrive at once.
    """

    first: float = 1.0
    longest: float = 60.0
    quiet: float = 300.0
    jitter: float = 0.25

    def delay(self, restarts: int, chance: float) -> float:
        """Return the wait before a restart that follows `restarts` others; `chance` is in 0..1."""
        full = min(self.longest, self.first * 2.0 ** min(restarts, 60))
        return full * (1.0 - self.jitter * chance)


class Fate(Enum):
    """What becomes of a task."""

    RESTART = "restart"
    """Started anew where it is, under a new epoch."""
    REASSIGN = "reassign"
    """Taken away and assigned anew."""
    WAIT = "wait"
    """Stays FAILED."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A fate, and how long it takes until it comes."""

    fate: Fate
    delay: float = 0.0


def judge(
    policy: RestartPolicy, kind: ErrorClass, restarts: int, most: int, chance: float
) -> Verdict:
    """Return what becomes of a task that failed after `restarts` restarts in a row.

    `most` is the connector's `restart.max`; -1 means no limit.
    """
    delay = policy.delay(restarts, chance)
    limit = most if kind is not ErrorClass.INTERNAL else _lesser(most, DEFECTS)
    if 0 <= limit <= restarts:
        return Verdict(Fate.WAIT)
    if kind is ErrorClass.FENCED:
        return Verdict(Fate.REASSIGN, delay)
    return Verdict(Fate.RESTART, delay) if kind in _AGAIN else Verdict(Fate.WAIT)


def _lesser(most: int, bound: int) -> int:
    return bound if most < 0 else min(most, bound)


@dataclass(slots=True)
class History:
    """The restarts of one task. Times are readings of a monotonic clock."""

    restarts: int = 0
    due: float | None = None
    """When what was decided comes; None: nothing will, or nothing was."""
    fate: Fate | None = None
    diagnostic: Diagnostic | None = None
    judged: int = 0
    """Epoch whose failure was judged: a failure is judged once, however often it is reported."""
    running_since: float | None = None
    asked: bool = False
    """A person wants the restart: counting begins anew."""
    again: bool = False
    """It was given a new epoch after a failure, or because a person wanted it, and does not run
    yet."""

    def failed(self, verdict: Verdict, why: Diagnostic, epoch: int, now: float) -> None:
        """Note how the failure of an epoch was judged."""
        self.judged, self.fate, self.diagnostic = epoch, verdict.fate, why
        self.running_since = None
        self.due = None if verdict.fate is Fate.WAIT else now + verdict.delay

    def ask(self, now: float) -> None:
        """Note that a person wants a restart."""
        self.fate, self.due, self.asked = Fate.RESTART, now, True

    def next_restarts(self) -> int:
        """Return what the count is to be after a restart that is due; what it is, without one."""
        if self.asked:
            return 0
        return self.restarts + (self.fate in {Fate.RESTART, Fate.REASSIGN})

    def assigned(self, restarts: int) -> None:
        """Note that the task has a new epoch."""
        self.again = self.fate is not None
        self.restarts, self.asked = restarts, False
        self.due = self.fate = self.diagnostic = self.running_since = None

    def runs(self, now: float, quiet: float) -> None:
        """Note that the task was seen running; forgets the restarts after a quiet time."""
        self.again = False
        if self.running_since is None:
            self.running_since = now
        elif now - self.running_since >= quiet:
            self.restarts = 0
