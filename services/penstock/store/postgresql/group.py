"""What several waiting writes become in one transaction: pure, decided in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.store.port import Check, Conflict, Put


@dataclass(frozen=True, slots=True)
class Request:
    """A write that waits for its turn."""

    checks: Sequence[Check]
    puts: Sequence[Put]
    answer: asyncio.Future[int]

    def answered(self, outcome: int | BaseException) -> None:
        """Give the answer, unless the writer was cancelled while it waited."""
        if self.answer.done():
            return
        if isinstance(outcome, int):
            self.answer.set_result(outcome)
        else:
            self.answer.set_exception(outcome)


@dataclass(slots=True)
class Decision:
    """Outcomes in the order of the requests, and what is to be stored.

    `stored` and `removed` are the last word about each key; `changes` the keys of each revision.
    """

    revision: int
    outcomes: list[int | Conflict] = field(default_factory=list)
    stored: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    changes: list[tuple[int, list[str]]] = field(default_factory=list)


def checked_keys(group: Sequence[Request]) -> list[bytes]:
    """Return the keys whose revisions a decision needs."""
    checks = (check for request in group for check in request.checks)
    return [*{check.key.encode(): None for check in checks if check.revision is not None}]


def decide(group: Sequence[Request], revision: int, known: Mapping[str, int]) -> Decision:
    """Decide each request on what the ones before it leave behind. `known`: keys that exist."""
    decision, now = Decision(revision), dict(known)
    for request in group:
        conflict = _conflict(request.checks, now)
        if conflict is None:
            decision.revision += 1
            _apply(decision, dict(request.puts), now)
        decision.outcomes.append(conflict or decision.revision)
    return decision


def _conflict(checks: Sequence[Check], now: Mapping[str, int]) -> Conflict | None:
    for check in checks:
        if check.revision is not None and now.get(check.key, 0) != check.revision:
            return Conflict(check.key, now.get(check.key, 0))
    return None


def _apply(decision: Decision, puts: Mapping[str, bytes | None], now: dict[str, int]) -> None:
    for key, value in puts.items():
        if value is None:
            now.pop(key, None)
            decision.stored.pop(key, None)
            decision.removed.add(key)
        else:
            now[key] = decision.revision
            decision.stored[key] = (decision.revision, value)
            decision.removed.discard(key)
    decision.changes.append((decision.revision, sorted(puts)))
