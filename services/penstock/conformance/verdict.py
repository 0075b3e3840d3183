"""What a case may come to, and what is kept of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from penstock.api.error.v1 import diagnostic_pb2
from penstock.wire.error import from_proto


class Outcome(StrEnum):
    """How a case ended."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    NOT_APPLICABLE = "n/a"


class RuleBrokenError(Exception):
    """The plugin did not do what the case asks for; the text says what it did instead."""


class NotApplicableError(Exception):
    """The case has nothing to look at in this connector; the text says why."""


@dataclass(frozen=True, slots=True)
class Result:
    """How one case ended for one connector, or for the process where `connector` is empty."""

    connector: str
    case: str
    level: str
    outcome: Outcome
    why: str
    seconds: float

    @property
    def breaks(self) -> bool:
        """Whether the plugin does not conform because of it."""
        return self.outcome is Outcome.FAIL and self.level == "MUST"


def reasons(found: Iterable[diagnostic_pb2.Diagnostic], most: int = 3) -> str:
    """Return the first findings of a connector, as a person reads them."""
    listed = list(found)
    told = "; ".join(str(from_proto(one)) for one in listed[:most])
    return f"{told} (and {len(listed) - most} more)" if len(listed) > most else told


def require(condition: object, why: str) -> None:
    """Go on where a condition holds.

    Raises:
        RuleBrokenError: it does not.
    """
    if not condition:
        raise RuleBrokenError(why)
