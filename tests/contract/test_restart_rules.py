"""What texts say of a task that ended with a defect is what the scheduler does."""

import re

import pytest

from penstock.model.errors import ErrorClass
from penstock.scheduler.state.restarts import (
    MAX_INTERNAL_RESTARTS,
    RESTARTS,
    FailureAction,
    decide_action,
)
from support.checkout import ROOT

TEXTS = (
    "services/README.md",
    "services/penstock/scheduler/README.md",
    "connectors/python/README.md",
    "connectors/go/README.md",
    "deploy/docs/pages/operate/runbooks/connectors.md",
)


def restarts_told(text: str) -> set[int]:
    """Return how many restarts of a task that ended with a defect a text speaks of."""
    found = re.findall(r"(?:INTERNAL|defect)\b[^.;]*?(\d+) restarts at most", text)
    return set(map(int, found))


def test_a_defect_is_restarted_so_often() -> None:
    fates = [
        decide_action(RESTARTS, ErrorClass.INTERNAL, n, -1, 0).action
        for n in range(MAX_INTERNAL_RESTARTS + 2)
    ]
    assert fates == [FailureAction.RESTART] * MAX_INTERNAL_RESTARTS + [FailureAction.WAIT] * 2


@pytest.mark.parametrize("path", TEXTS)
def test_a_text_tells_how_often_a_defect_is_restarted(path: str) -> None:
    assert restarts_told((ROOT / path).read_text(encoding="utf-8")) == {MAX_INTERNAL_RESTARTS}


def test_another_number_goes_red() -> None:
    assert restarts_told("INTERNAL, a defect: 4 restarts at most") == {4}
    assert restarts_told("everything else fails it") == set()
