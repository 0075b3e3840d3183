"""Fault points: named places in the code where a test kills, stops or breaks the process.

Armed only by the environment variable `PENSTOCK_FAULTS`, never over an API:

    PENSTOCK_FAULTS="worker.sink_written=kill@3,worker.acked=raise,offset.epoch_check=break"

`@n` means at the n-th hit, and only there, `@n-m` from the n-th to the m-th; without it, at every
hit. Actions:

- `kill`   SIGKILL to this process, as a power cut would end it
- `raise`  RetriableError `fault.injected`
- `hang`   wait for ever: `hit` stops the thread (in a coroutine: the whole process, as a process
           that is stuck would), `reach` stops only the coroutine
- `break`  the call returns True, and the caller skips an invariant

A point that is not armed costs one look-up in an empty dict. `POINTS` lists all names, so that a
misspelt one is refused at start instead of never firing.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
from collections.abc import Mapping
from enum import Enum
from typing import Final

from penstock.model.errors import ConfigError, RetriableError, nearest_names

VARIABLE: Final = "PENSTOCK_FAULTS"

_HITS: Final = re.compile(r"([1-9][0-9]*)(?:-([1-9][0-9]*))?")

POINTS: Final[Mapping[str, str]] = {
    "worker.source_read": "a batch was announced by the source",
    "worker.batch_running": "a micro-batch was submitted to the engine",
    "worker.batch_moved": "the rows of a micro-batch are at the sink",
    "worker.sink_writing": "before the sink prepares",
    "worker.sink_written": "the sink has prepared; no offset is stored yet",
    "worker.offset_committing": "before the offsets are stored",
    "worker.offset_committed": "the offsets are stored; nothing is applied yet",
    "worker.txn_committed": "the sink has made a transaction visible",
    "worker.acking": "before the acknowledgement is sent to the source",
    "worker.acked": "the acknowledgement was sent to the source",
    "worker.commit_order": "break: offsets are stored before the rows are durable (invariant 1)",
    "worker.ack_order": "break: the source is acked before the offset is durable (invariant 2)",
    "worker.drop_ack": "break: the source is never acknowledged (invariant 2)",
    "worker.skip_recover": "break: a half-applied transaction is not applied again (invariant 1)",
    "offset.epoch_check": "break: a commit of an older epoch is accepted (invariant 4)",
    "offset.claim_check": "break: a commit of an earlier run of a task is accepted (invariant 1)",
    "offset.storing": "before the store writes a commit",
    "offset.stored": "the store has written a commit; the response is not sent yet",
    "offset.folding": "before journals are compacted, or the offsets of a deleted version removed",
    "offset.copying": "before a page of a reset or rewind is written",
    "config.storing": "before the store writes a connector",
    "config.stored": "the store has written; the response is not sent yet",
    "scheduler.storing": "before a round of the scheduler is stored",
    "scheduler.stored": "a round is stored; no worker was notified yet",
    "scheduler.storing_plans": "before plans of a connector are put in force",
    "scheduler.stored_plans": "plans are in force in the store; the leader does not know it yet",
    "scheduler.renounce_check": "break: a task is reassigned before its owner stopped it (inv. 11)",
    "store.committing": "a group of writes is applied and not yet durable",
    "store.committed": "a group of writes is durable and not yet acknowledged",
    "etcd.lease_clock": "break: a lease is trusted past its expiry by the local clock (fencing)",
    "etcd.leader_check": "break: a leader's write does not compare its key (invariant 4)",
    "topic.prepared": "the files of a transaction are durable; they are not in the table yet",
    "topic.committing": "before a transaction is added to the table",
    "topic.committed": "a transaction is in the table; the response is not sent yet",
    "topic.repeat_check": "break: a transaction that is in the table already is added again",
    "topic.put_condition": "break: a version overwrites that of another writer",
    "topic.compacting": "before compacted files replace the small ones",
    "topic.expiring": "before files past their retention are removed",
}
"""Every fault point, and where in the code it is."""


class Action(Enum):
    """The action of an armed point."""

    KILL = "kill"
    RAISE = "raise"
    HANG = "hang"
    BREAK = "break"


class Fault:
    """An armed point. It fires on the hits from `first` to `last`; 0 and 0 for every hit."""

    __slots__ = ("_lock", "action", "first", "hits", "last", "point")

    def __init__(self, point: str, action: Action, first: int, last: int) -> None:
        """Arm `point`."""
        self.point, self.action, self.first, self.last = point, action, first, last
        self.hits = 0
        self._lock = threading.Lock()

    def fires(self) -> bool:
        """Count a hit; whether the fault fires on it."""
        with self._lock:
            self.hits += 1
            return not self.first or self.first <= self.hits <= self.last

    def strike(self) -> bool:
        """Perform the action, except `hang`. True for `break`."""
        if self.action is Action.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.action is Action.RAISE:
            raise RetriableError(
                "fault.injected",
                f"fault point {self.point} was armed by {VARIABLE}",
                fix=f"Start the process without {VARIABLE}: it is for tests only.",
            )
        return self.action is Action.BREAK


_armed: dict[str, Fault] = {}


def hit(point: str) -> bool:
    """Pass a fault point; True when the caller is to skip an invariant on purpose."""
    if not _armed:
        return False
    fault = _armed.get(point)
    if fault is None or not fault.fires():
        return False
    if fault.action is Action.HANG:
        threading.Event().wait()
    return fault.strike()


async def reach(point: str) -> bool:
    """Pass a fault point in a coroutine: `hang` stops only this coroutine."""
    if not _armed:
        return False
    fault = _armed.get(point)
    if fault is None or not fault.fires():
        return False
    if fault.action is Action.HANG:
        await asyncio.Event().wait()
    return fault.strike()


def hits(point: str) -> int:
    """Return how often an armed point was passed: a test asserts that it was passed at all."""
    fault = _armed.get(point)
    return fault.hits if fault else 0


def load(environment: Mapping[str, str]) -> None:
    """Arm exactly the faults of the environment. Called once when this module is imported.

    Raises:
        ConfigError: `fault.unknown_point`, `fault.unknown_action` or `fault.malformed`.
    """
    faults = parse(environment.get(VARIABLE, ""))
    _armed.clear()
    _armed.update(faults)


def parse(text: str) -> dict[str, Fault]:
    """Parse the value of `PENSTOCK_FAULTS` into faults by point."""
    faults = (_parse_one(part.strip()) for part in text.split(",") if part.strip())
    return {fault.point: fault for fault in faults}


def _parse_one(text: str) -> Fault:
    point, equals, rest = text.partition("=")
    word, at, hits = rest.partition("@")
    found = _HITS.fullmatch(hits) if at else None
    if not equals or (at and found is None):
        raise _invalid("fault.malformed", f"`{text}` is not POINT=ACTION or POINT=ACTION@N", "")
    if point not in POINTS:
        near = nearest_names(point, POINTS)
        valid = f"Did you mean {near[0]}? " if near else ""
        raise _invalid(
            "fault.unknown_point",
            f"`{point}` is not a fault point",
            f"{valid}Valid points: {', '.join(sorted(POINTS))}.",
        )
    if word not in {action.value for action in Action}:
        raise _invalid(
            "fault.unknown_action",
            f"`{word}` is not an action of a fault point",
            f"Valid actions: {', '.join(action.value for action in Action)}.",
        )
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    return Fault(point, Action(word), first, last)


def _invalid(code: str, message: str, fix: str) -> ConfigError:
    return ConfigError(
        code, message, fix=fix or "Write it as POINT=ACTION[@N].", config_path=VARIABLE
    )


load(os.environ)
