"""What a worker bounds connectors by, whatever their configurations say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from penstock.worker.overrides import OverridePolicy
from penstock.worker.reach import NO_RULES, Rules


@dataclass(frozen=True, slots=True)
class Bounds:
    """`overrides`: which settings of Kafka's clients they may bring; `reach`: what they may reach,
    by their names.
    """

    overrides: OverridePolicy = field(default_factory=OverridePolicy)
    reach: Rules = NO_RULES


NO_BOUNDS: Final = Bounds()
