"""The table of invariants: each has its row, and the tests that it names are there."""

import re

import pytest

from support.checkout import ROOT

README = (ROOT / "services" / "README.md").read_text(encoding="utf-8")
TABLE = README.partition("## Invariants")[2].partition("\n## ")[0]
ROW = re.compile(r"^\| (\d+) \|.*\| (.+) \|$", re.MULTILINE)
ROWS = {int(number): shown for number, shown in ROW.findall(TABLE)}


def missing(shown):
    """The paths of a row's last column where nothing is."""
    paths = re.findall(r"`([\w/.]+)`", shown)
    return [
        path
        for path in paths
        if not any((ROOT / folder / path).exists() for folder in (".", "tests/unit"))
    ]


def test_every_invariant_has_a_row():
    assert sorted(ROWS) == list(range(1, 13))


@pytest.mark.parametrize("number", ROWS)
def test_the_tests_that_a_row_names_are_there(number):
    assert missing(ROWS[number]) == []


def test_a_test_that_is_not_there_goes_red():
    assert missing("`tests/unit/rpc`, `store`, `plugin/test_nothing.py`") == [
        "plugin/test_nothing.py"
    ]
