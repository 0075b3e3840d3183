"""How long a plugin may be silent on a stream that has no end (rule R19). Pure."""

from __future__ import annotations

from typing import Final

from google.protobuf.duration_pb2 import Duration

from penstock.model.errors import PenstockError, RetriableError

_DEFAULT: Final = 30.0
"""For a stream that names none."""
_LONGEST: Final = 300.0
"""A plugin cannot opt out of being noticed when it hangs (invariant 8)."""
_MISSED: Final = 2.0
"""Heartbeats that may be missing. One is too strict for a machine that is busy."""


def silence(every: Duration) -> float:
    """Return the seconds without a frame after which a plugin is taken for hung."""
    return min(every.ToTimedelta().total_seconds() or _DEFAULT, _LONGEST) * _MISSED


def missed(who: str, seconds: float) -> PenstockError:
    """Return the error of a plugin that was silent for so long."""
    return RetriableError(
        "plugin.heartbeat_missed",
        f"plugin {who} sent nothing for {seconds:g} s; it promised a heartbeat twice as often "
        "(R19)",
        fix="It is started anew; if it repeats, see in its log what it hangs in.",
    )
