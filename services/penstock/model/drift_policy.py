"""The policies of schema drift, as a connector configures them. `schema_drift` carries them out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DriftPolicy(StrEnum):
    """The policy for changes; see the table of `schema_drift`."""

    FAIL = "fail"
    EVOLVE = "evolve"
    TRY_EVOLVE = "try_evolve"
    LENIENT = "lenient"
    IGNORE = "ignore"
    DEAD_LETTER = "dead-letter"


class ChangeKind(StrEnum):
    """A kind of difference between the columns of a target and those of rows."""

    ADD = "add.column"
    DROP = "drop.column"
    WIDEN = "widen.column"
    CHANGE = "change.column"


@dataclass(frozen=True, slots=True)
class DriftRules:
    """A policy, and the kinds of changes that it applies to; the others are ignored."""

    policy: DriftPolicy = DriftPolicy.EVOLVE
    kinds: frozenset[ChangeKind] = frozenset(ChangeKind)

    @property
    def requests_all_changes(self) -> bool:
        """Whether rows are written unchanged, and only the target may refuse them."""
        return self.policy is DriftPolicy.EVOLVE and self.kinds == frozenset(ChangeKind)
