"""Which function runs which case."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from penstock.conformance.bench import Bench
from penstock.conformance.cases import Case

Check: TypeAlias = Callable[[Bench, Case], Awaitable[None]]

CHECKS: Final[dict[str, Check]] = {}
"""The function of every case, by its id."""


def case(id_: str) -> Callable[[Check], Check]:
    """Say that a function runs a case. It raises where the plugin does not do what is asked."""

    def register(check: Check) -> Check:
        if id_ in CHECKS:
            raise ValueError(f"case {id_} is run by two functions")
        CHECKS[id_] = check
        return check

    return register
