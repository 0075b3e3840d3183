"""A history of claims, commits and reads of offsets, and what one partition should have answered.

Of each partition two owners believe that it is theirs: one of an older epoch, which goes on as long
as it is let, and one of a newer epoch, which takes over in the middle.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from penstock.model.errors import FencedError, PenstockError
from penstock_kit.testing import LOST, Call, find_unexplained

Value: TypeAlias = "tuple[int, int] | None"
"""The epoch and the number of a commit."""

State: TypeAlias = "tuple[tuple[tuple[str, int], ...], Value]"
"""The epochs that tasks were claimed with, and the value of the partition."""

OK, STALE = "ok", "stale"


@dataclass(frozen=True)
class Claim:
    """A task is taken over."""

    task: str
    epoch: int


@dataclass(frozen=True)
class Commit:
    """A value is stored by a task."""

    task: str
    epoch: int
    number: int


@dataclass(frozen=True)
class Read:
    """The value is read."""


def step(state: State, what: Any, answer: Any) -> State | None:
    """Do one call as a service would that does one at a time (invariant 4)."""
    claims, value = dict(state[0]), state[1]
    if isinstance(what, Read):
        return state if answer is None or answer == (value,) else None
    known = claims.get(what.task, 0)
    if isinstance(what, Commit) and value is not None:
        known = max(known, value[0])
    stale = what.epoch < known
    if answer is not None and (answer == STALE) != stale:
        return None
    if stale:
        return state
    if isinstance(what, Commit):
        return state[0], (what.epoch, what.number)
    return tuple(sorted((claims | {what.task: what.epoch}).items())), value


def alike(calls: Sequence[Call[Any, Any]]) -> list[Call[Any, Any]]:
    """Give lost commits that no read has seen one number: which of them happened is no question."""
    seen = {call.answer[0] for call in calls if isinstance(call.request, Read) and call.answer}

    def alike_one(call: Call[Any, Any]) -> Call[Any, Any]:
        what = call.request
        if call.ended_at != LOST or not isinstance(what, Commit):
            return call
        return (
            call
            if (what.epoch, what.number) in seen
            else replace(call, request=replace(what, number=0))
        )

    return [alike_one(call) for call in calls]


@dataclass
class History:
    """The calls of every partition, by one clock."""

    calls: dict[str, list[Call[Any, Any]]] = field(default_factory=lambda: defaultdict(list))
    accepted: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    refused: int = 0
    lost: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """how many calls were never answered, by the code of the error"""
    _clock: itertools.count[int] = field(default_factory=itertools.count)

    async def call(self, partition: str, what: Any, doing: Awaitable[Any]) -> str:
        """Do a call; returns OK or STALE, or "" when nobody knows what became of it."""
        began = next(self._clock)
        try:
            found = await doing
        except FencedError:
            self.refused += 1
            self._add(partition, began, what, STALE)
            return STALE
        except (PenstockError, asyncio.CancelledError) as error:
            if (task := asyncio.current_task()) and task.cancelling():
                raise  # it is the test that ends, not the call
            self.lost[getattr(error, "code", "cancelled")] += 1
            self.calls[partition].append(Call(began, LOST, what, None))
            return ""
        if isinstance(what, Read):
            self._add(partition, began, what, (found,))
        else:
            self.accepted[what.epoch] += 1
            self._add(partition, began, what, OK)
        return OK

    def unexplained(self) -> dict[str, Sequence[Call[Any, Any]]]:
        """Return the partitions whose history no order explains."""
        found = {
            p: find_unexplained(alike(calls), ((), None), step) for p, calls in self.calls.items()
        }
        return {partition: calls for partition, calls in found.items() if calls}

    def _add(self, partition: str, began: int, what: Any, answer: Any) -> None:
        self.calls[partition].append(Call(began, next(self._clock), what, answer))
