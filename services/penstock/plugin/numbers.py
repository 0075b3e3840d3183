"""Numbers that a plugin has of itself, as the `Progress` of a stream tells them: counters and
gauges, by name. Which they are says the name: one that ends with `_total` only grows.

What cannot be told is left out, and named in the log once: bad names, what is no number, and what
is more than `MOST_OF_PLUGIN` (invariant 12).
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from typing import Final

from penstock.api.connector.v1 import types_pb2 as pb
from penstock.model.numbers import LONGEST_NAME, MOST_OF_PLUGIN, PluginNumber
from penstock.plugin.escape import printable

log = logging.getLogger(__name__)

_NAME: Final = re.compile(rf"[a-z][a-z0-9_]{{0,{LONGEST_NAME - 1}}}")
_MOST_SHOWN: Final = 5


class PluginNumbers:
    """The numbers of the plugin at one end of a task."""

    def __init__(self, plugin: str = "", end: str = "") -> None:
        """`end` is source or sink."""
        self._plugin, self._end = plugin, end
        self._now: tuple[PluginNumber, ...] = ()
        self._warned = False

    def take(self, progress: pb.Progress) -> None:
        """Take in a frame. One without numbers, or about a single partition, changes nothing."""
        if progress.metrics and not progress.partition_id:
            good = _good(progress.metrics)
            told = sorted(good.items())[:MOST_OF_PLUGIN]
            self._now = tuple(PluginNumber(self._plugin, self._end, *one) for one in told)
            if len(told) < len(progress.metrics):
                self._warn(progress.metrics, dict(told))

    def now(self) -> tuple[PluginNumber, ...]:
        """Return the newest."""
        return self._now

    def _warn(self, metrics: Mapping[str, float], told: Mapping[str, float]) -> None:
        if self._warned:
            return
        self._warned = True
        out = [name for name in sorted(metrics) if _plain(name) not in told][:_MOST_SHOWN]
        log.warning(
            "plugin %s has numbers that are not told (%s): a name is up to %d lower-case letters, "
            "digits, `_` and `.`, a value is finite, and %d are the most",
            self._plugin,
            ", ".join(printable(name, LONGEST_NAME) for name in out) or "names that come twice",
            LONGEST_NAME,
            MOST_OF_PLUGIN,
        )


def _good(metrics: Mapping[str, float]) -> dict[str, float]:
    plain = {_plain(name): value for name, value in metrics.items() if math.isfinite(value)}
    return {name: value for name, value in plain.items() if _NAME.fullmatch(name)}


def _plain(name: str) -> str:
    """Return a name of OpenTelemetry as Prometheus has it."""
    return name.replace(".", "_")
