"""Check that some order of concurrent calls explains their answers (linearizability). Pure.

The search of Wing and Gong with the cache of Lowe: in the order every call lies between its start
and its end, and a model that runs one call at a time gives the recorded answers. A call whose
answer was lost (its client or its server was killed) may have run at any time after its start, or
never.

The work grows with the number of concurrent calls, so check each key by itself: a history is
linearizable if that of every key is. Lost calls stay open until the end; two of them with the same
request are one choice, not two, and of two equal states the one with more of them left is as good.
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
"""End of a call that has no answer."""


@dataclass(frozen=True, slots=True)
class Call(Generic[_C, _A]):
    """A call, from `started_at` to `ended_at` by one clock; its answer is None when it was lost."""

    started_at: float
    ended_at: float
    request: _C
    answer: _A | None


Step = Callable[[_S, _C, _A | None], _S | None]
"""A model: returns the state after a call, None when the state does not allow the answer. An answer
of None stands for any answer that the state allows."""


def find_unexplained(
    calls: Sequence[Call[_C, _A]], initial: _S, step: Step[_S, _C, _A]
) -> Sequence[Call[_C, _A]]:
    """Return the calls that are left over by the longest order that explains the others; none when
    the history is linearizable.
    """
    calls = sorted(calls, key=lambda call: call.started_at)
    answered = sum(1 << one for one, call in enumerate(calls) if call.ended_at != LOST)
    best, everything = answered, (1 << len(calls)) - 1
    visited: dict[tuple[int, _S], list[int]] = {}
    pending = [(everything, initial)]
    while pending:
        left, state = pending.pop()
        unanswered_left = left & answered
        if not unanswered_left:
            return ()
        lost = left & ~answered
        reached = visited.setdefault((unanswered_left, state), [])
        if any(others & lost == lost for others in reached):
            continue
        reached.append(lost)
        best = min(best, unanswered_left, key=int.bit_count)
        pending += _next_states(calls, left, answered, state, step)
    return [calls[one] for one in _set_bits(best)]


def _next_states(
    calls: Sequence[Call[_C, _A]], left: int, answered: int, state: _S, step: Step[_S, _C, _A]
) -> list[tuple[int, _S]]:
    """Return the states after one more call, of those that started before the first end."""
    found: list[tuple[int, _S]] = []
    lost: dict[_C, tuple[int, _S]] = {}
    end = LOST
    for one in _set_bits(left):
        if calls[one].started_at > end:
            break  # so do all that follow: calls are sorted by start
        end = min(end, calls[one].ended_at)
        request, rest = calls[one].request, left & ~(1 << one)
        after = step(state, request, calls[one].answer)
        if after == state and answered >> one & 1:
            return [(rest, state)]  # it changes nothing: no order is better without it here
        if after is None or after == state:
            continue
        if answered >> one & 1:
            found.append((rest, after))
        else:
            lost.setdefault(request, (rest, after))
    return [*lost.values(), *found]  # the last one is tried first: an answered call has run


def _set_bits(bits: int) -> Iterator[int]:
    """Iterate over the positions of set bits, the lowest first."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low
