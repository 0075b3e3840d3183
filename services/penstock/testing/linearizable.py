"""Is a history of concurrent calls explained by some order of them? Pure: calls in, an answer out.

The search of Wing and Gong, with the memory of Lowe: an order must keep every call between its
beginning and its end, and a model, which does one call at a time, must give every answer that was
given. A call whose answer was lost (its client or its server was killed) may have happened at any
time after it began, or never.

The work grows with the calls that run at once, so check each key by itself: a history is
linearizable if that of every key is. Lost calls run until the end; two of them that ask for the
same are one choice, not two, and a place that was reached with more of them left is as good.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

_S = TypeVar("_S", bound=Hashable)
_C = TypeVar("_C", bound=Hashable)
_A = TypeVar("_A")

LOST: Final = math.inf
"""End of a call that was never answered."""


@dataclass(frozen=True, slots=True)
class Call(Generic[_C, _A]):
    """A call, from `began` to `ended` by one clock; its answer is None when it was lost."""

    began: float
    ended: float
    what: _C
    answer: _A | None


Step = Callable[[_S, _C, _A | None], _S | None]
"""A model: the state after a call, None when it does not answer so in this state. For the answer
None it is any answer that the state allows."""


def unexplained(
    calls: Sequence[Call[_C, _A]], initial: _S, step: Step[_S, _C, _A]
) -> Sequence[Call[_C, _A]]:
    """Return the calls that no order explains, beside the longest order that was found; none when
    the history is linearizable.
    """
    calls = sorted(calls, key=lambda call: call.began)
    answered = sum(1 << one for one, call in enumerate(calls) if call.ended != LOST)
    best, everything = answered, (1 << len(calls)) - 1
    seen: dict[tuple[int, _S], list[int]] = {}
    waiting = [(everything, initial)]
    while waiting:
        left, state = waiting.pop()
        owed = left & answered
        if not owed:
            return ()
        lost = left & ~answered
        reached = seen.setdefault((owed, state), [])
        if any(others & lost == lost for others in reached):
            continue
        reached.append(lost)
        best = min(best, owed, key=int.bit_count)
        waiting += _next(calls, left, answered, state, step)
    return [calls[one] for one in _ones(best)]


def _next(
    calls: Sequence[Call[_C, _A]], left: int, answered: int, state: _S, step: Step[_S, _C, _A]
) -> list[tuple[int, _S]]:
    """Return where one call more leads to, of those that began before the first end of all left."""
    found: list[tuple[int, _S]] = []
    lost: dict[_C, tuple[int, _S]] = {}
    end = LOST
    for one in _ones(left):
        if calls[one].began > end:
            break  # as all that follow: they are in order of beginning
        end = min(end, calls[one].ended)
        what, rest = calls[one].what, left & ~(1 << one)
        after = step(state, what, calls[one].answer)
        if after == state and answered >> one & 1:
            return [(rest, state)]  # it changes nothing, so no order is better without it here
        if after is None or after == state:
            continue
        if answered >> one & 1:
            found.append((rest, after))
        else:
            lost.setdefault(what, (rest, after))
    return [*lost.values(), *found]  # the last one is tried first: what is known to have happened


def _ones(bits: int) -> Iterator[int]:
    """Iterate over the places of the ones, the lowest first."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low
