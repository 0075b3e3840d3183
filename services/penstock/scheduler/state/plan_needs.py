"""Which connectors need new plans, and who is to make them. No I/O.

A connector is planned when it has no plans, when they were made for another configuration, when its
monitor or a person asks, and when its lag wants another number of tasks. A plan that failed is
tried again as a task is restarted: by the class of its error.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.model.connector import ApplyAction, TargetState
from penstock.model.errors import Diagnostic
from penstock.scheduler.state.assignment import fits
from penstock.scheduler.state.events import Member, PlanWish
from penstock.scheduler.state.failures import Fate, RestartPolicy, judge
from penstock.scheduler.state.ownership import Workers
from penstock.scheduler.state.records import Planned
from penstock.scheduler.state.scaling import Scale, bounded, lag_seconds, scaled, started
from penstock.scheduler.state.wanted import Rules, Wanted, config_digest, rules_of

REST: Final = 1.0
"""Seconds between two plans that a monitor asks for. Without, one that asks all the time keeps a
place of the few that plan busy for ever."""

UNSEEN: Final = 60.0
"""Seconds that plans which were made may stay unseen, before they are made again. Longer than the
config service is away for a restart; without a bound, plans that are lost were never made."""

MEASURE: Final = 5.0
"""Seconds over which rows are counted. A shorter time falls between two reports, in which no row
seems to move."""


@dataclass(slots=True)
class _Need:
    """What is known about the planning of one connector."""

    asked: bool = False
    running: bool = False
    tries: int = 0
    failure: Diagnostic | None = None
    failed_for: str = ""
    due: float | None = None
    made_by: str = ""
    made: Planned | None = None
    """What was made, until the cluster has seen it."""
    unseen_until: float = 0.0
    rests_until: float = 0.0
    scale: Scale | None = None
    moved: tuple[float, int] | None = None
    rules: tuple[int, Rules] = field(default_factory=lambda: (-1, Rules()))


class PlanNeeds:
    """The plans that are missing."""

    def __init__(self, policy: RestartPolicy, chance: random.Random) -> None:
        self._policy, self._chance = policy, chance
        self._needs: dict[str, _Need] = {}

    def keep(self, wanted: Mapping[str, Wanted]) -> None:
        """Forget the connectors that are gone (invariant 12)."""
        self._needs = {id_: need for id_, need in self._needs.items() if id_ in wanted}

    def ask(self, generation: str) -> None:
        """Plan a connector anew at once, whatever happened before: a person wants it."""
        need = self._need(generation)
        need.asked, need.failure, need.due, need.tries = True, None, None, 0
        need.rests_until = -math.inf

    def suggest(self, generation: str) -> None:
        """Plan a connector anew, because its monitor wants it: not more often than every `REST`
        seconds, and not before what failed is tried again.
        """
        self._need(generation).asked = True

    def failure(self, wanted: Wanted) -> Diagnostic | None:
        """Return why a connector could not be planned as it is configured now."""
        need = self._needs.get(wanted.generation)
        if need is None or need.failed_for != wanted.form:
            return None
        return need.failure

    def made_by(self, generation: str) -> str:
        """Return the worker that made the plans; "" when that is not known."""
        need = self._needs.get(generation)
        return need.made_by if need else ""

    def scales(self, wanted: Wanted) -> bool:
        """Tell whether the lag of a connector decides how many tasks it has."""
        return wanted.current and self._rules(wanted).scaling.target > 0

    def observe(self, wanted: Wanted, rows_left: int, rows_moved: int, now: float) -> None:
        """Take in how far a connector is behind (-1: unknown), and how many rows it moved."""
        need, rules = self._need(wanted.generation), self._rules(wanted).scaling
        before = need.moved
        if before is not None and before[0] <= now < before[0] + MEASURE:
            return
        need.moved = (now, rows_moved)
        if before is None or now <= before[0] or rows_moved < before[1]:
            return  # a task that was restarted counts anew
        rate = (rows_moved - before[1]) / (now - before[0])
        scale = need.scale or Scale(len(wanted.plans))
        need.scale = scaled(rules, scale, lag_seconds(rows_left, rate), now)
        need.asked = need.asked or (need.scale.tasks != scale.tasks)

    def wishes(self, wanted: Iterable[Wanted], workers: Workers, now: float) -> list[PlanWish]:
        """Return what is to be planned now. Each is wished once, until `made` or `failed`."""
        found = []
        for one in wanted:
            need = self._need(one.generation)
            if need.running or not self._needed(one, need, now):
                continue
            member = self._planner(one, need, workers)
            if member is not None:
                need.running, need.asked = True, False
                need.scale = self._scale(one, need)
                found.append(
                    PlanWish(
                        one.connector,
                        need.scale.tasks,
                        one.plans,
                        member.id,
                        member.address,
                        _action(one),
                    )
                )
        return found

    def made(self, generation: str, worker: str, planned: Planned, now: float) -> None:
        """Note that a connector was planned. It is not planned again before the cluster has seen
        that: it would be with the old plans at hand, and restart what they do not say.
        """
        need = self._need(generation)
        need.made, need.unseen_until = planned, now + UNSEEN
        need.running, need.tries, need.failure, need.due = False, 0, None, None
        need.made_by, need.rests_until = worker, now + REST

    def failed(self, wish: PlanWish, why: Diagnostic, now: float) -> None:
        """Note that a connector could not be planned."""
        need = self._need(wish.connector.generation)
        need.running, need.failure = False, why
        need.failed_for = config_digest(wish.connector)
        most = self._rules_of(need, wish.connector.revision, wish.connector.config).restart_max
        verdict = judge(self._policy, why.error_class, need.tries, most, self._chance.random())
        need.due = None if verdict.fate is Fate.WAIT else now + verdict.delay
        need.tries += 1

    def next_due(self, now: float) -> float | None:
        """Return when the next plan is to be tried again."""
        times = [n.due for n in self._needs.values() if n.due is not None]
        times += [n.rests_until for n in self._needs.values() if n.asked]
        return min((time for time in times if time > now), default=None)

    def _needed(self, wanted: Wanted, need: _Need, now: float) -> bool:
        if need.made is not None and (_sees(wanted, need.made) or need.unseen_until <= now):
            need.made = None
        if need.made is not None or wanted.connector.target_state is TargetState.STOPPED:
            return False
        if need.failure is not None and need.failed_for == wanted.form:
            return need.due is not None and need.due <= now
        if need.failure is not None:  # it was of another configuration
            need.failure, need.tries = None, 0
        return (need.asked and need.rests_until <= now) or not wanted.current

    def _scale(self, wanted: Wanted, need: _Need) -> Scale:
        """Return how many tasks are wanted. A new leader goes on with as many as there are."""
        rules = self._rules(wanted).scaling
        if rules.target <= 0 or not (need.scale or wanted.plans):
            return started(rules)
        return bounded(rules, need.scale or Scale(len(wanted.plans)))

    def _planner(self, wanted: Wanted, need: _Need, workers: Workers) -> Member | None:
        """Return the worker that is to plan; another one after each failure."""
        placement = self._rules(wanted).placement
        able = [
            member
            for id_, member in sorted(workers.members.items())
            if member.address and fits(placement, member.labels) and not workers.draining(id_)
        ]
        return able[need.tries % len(able)] if able else None

    def _rules(self, wanted: Wanted) -> Rules:
        need = self._need(wanted.generation)
        return self._rules_of(need, wanted.connector.revision, wanted.connector.config)

    def _rules_of(self, need: _Need, revision: int, config: Mapping[str, str]) -> Rules:
        if need.rules[0] != revision:
            need.rules = (revision, rules_of(config))
        return need.rules[1]

    def _need(self, generation: str) -> _Need:
        return self._needs.setdefault(generation, _Need())


def _action(wanted: Wanted) -> ApplyAction | None:
    """Return what is new for the outside about a connector that is planned."""
    if wanted.current:
        return None
    return ApplyAction.UPDATE if wanted.plan_epoch else ApplyAction.CREATE


def _sees(wanted: Wanted, made: Planned) -> bool:
    """Tell whether what is wanted was read after plans were made. Plans that say the same keep
    their epoch; what they were made for is news then.
    """
    if wanted.plan_epoch == made.epoch:
        return wanted.planned_for == made.config
    return wanted.plan_epoch > made.epoch
