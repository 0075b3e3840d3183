"""How many tasks a connector should have, by how far it is behind. Pure: time is an argument.

Growing is quick and by half, shrinking is slow and by one, and between the two bounds of the lag
nothing happens: a number of tasks that goes up and down restarts tasks for nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ScalingRules:
    """Bounds of the number of tasks, and the lag that is wanted, in seconds of reading.

    `target` 0 turns scaling off: the number is `most`. A lag above `target` for `up_after` seconds
    adds tasks; one below `target * low` for `down_after` seconds takes one away. A shorter
    `up_after` answers every burst with a restart; a shorter `down_after` gives up tasks between two
    bursts.
    """

    least: int = 1
    most: int = 1
    target: float = 0.0
    low: float = 0.25
    up_after: float = 30.0
    down_after: float = 300.0


@dataclass(frozen=True, slots=True)
class Scale:
    """A number of tasks, and since when the lag has been too high or low for it."""

    tasks: int
    high_since: float | None = None
    low_since: float | None = None


def started(rules: ScalingRules) -> Scale:
    """Return the number of tasks that a connector begins with."""
    return Scale(rules.most if rules.target <= 0 else max(1, rules.least))


def lag_seconds(rows_left: int, rows_per_second: float) -> float | None:
    """Return how long the connector would need for what it has not read; None when unknown.

    One that has rows left and moves none is behind for ever.
    """
    if rows_left < 0:
        return None
    if rows_left == 0:
        return 0.0
    return rows_left / rows_per_second if rows_per_second > 0 else math.inf


def bounded(rules: ScalingRules, scale: Scale) -> Scale:
    """Return the scale within the bounds, as it is when it is within."""
    tasks = min(max(scale.tasks, rules.least, 1), max(rules.most, 1))
    return scale if tasks == scale.tasks else Scale(tasks)


def scaled(rules: ScalingRules, scale: Scale, lag: float | None, now: float) -> Scale:
    """Return the scale that follows; an unknown lag changes nothing."""
    if rules.target <= 0:
        return Scale(max(1, rules.most))
    within = bounded(rules, scale)
    if within != scale:
        return within
    if lag is None:
        return replace(scale, high_since=None, low_since=None)
    if lag > rules.target and scale.tasks < rules.most:
        since = now if scale.high_since is None else scale.high_since
        if now - since < rules.up_after:
            return Scale(scale.tasks, high_since=since)
        return Scale(min(rules.most, scale.tasks + max(1, scale.tasks // 2)))
    if lag < rules.target * rules.low and scale.tasks > max(rules.least, 1):
        since = now if scale.low_since is None else scale.low_since
        if now - since < rules.down_after:
            return Scale(scale.tasks, low_since=since)
        return Scale(scale.tasks - 1)
    return Scale(scale.tasks)
