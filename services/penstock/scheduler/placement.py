"""Which workers a task may run on. Pure.

`placement` is a list of wishes, all of which must hold: `zone=a|b, disk=ssd` takes the workers
whose label `zone` is `a` or `b` and whose label `disk` is `ssd`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from penstock.model.errors import ConfigError

Placement: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
"""Labels and the values that each may have, ordered by label. Empty: anywhere."""

ANYWHERE: Final[Placement] = ()

MOST_WISHES: Final = 16
"""Labels in one placement (invariant 12)."""


def parse_placement(text: str) -> Placement:
    """Return what a `placement` says.

    Raises:
        ConfigError: `scheduler.placement`.
    """
    wishes: dict[str, tuple[str, ...]] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        label, equals, values = (word.strip() for word in part.partition("="))
        allowed = tuple(sorted({v.strip() for v in values.split("|") if v.strip()}))
        if not label or not equals or not allowed or label in wishes:
            raise _refused(part)
        wishes[label] = allowed
    if len(wishes) > MOST_WISHES:
        raise _refused(text)
    return tuple(sorted(wishes.items()))


def fits(placement: Placement, labels: Mapping[str, str]) -> bool:
    """Tell whether a worker with these labels is one that a placement wants."""
    return all(labels.get(label) in values for label, values in placement)


def _refused(part: str) -> ConfigError:
    return ConfigError(
        "scheduler.placement",
        f"`placement` cannot be read at {part[:100]!r}",
        fix=f"Write up to {MOST_WISHES} labels as `zone=a|b, disk=ssd`, each once.",
        config_path="placement",
    )
