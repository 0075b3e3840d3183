"""Tests of pipelines as files have them, and how what became of rows differs."""

from __future__ import annotations

import pytest

from penstock.cli.expected import MOST_SHOWN, expected_of, outcome
from penstock.model.errors import ConfigError, Diagnostic
from penstock.model.preview_rows import Rehearsed

PASSING = {
    "name": "adults",
    "dataset": "people",
    "columns": {"age": "int32"},
    "input": [{"age": 36, "born": "1815-12-10"}, {"age": 3}],
    "expected": [{"age": 36}],
    "expected_dataset": "adults",
    "failed": {2: "transform.bad_row"},
}
BAD = Diagnostic("transform.bad_row", "no")


def test_a_test_says_what_goes_in_and_what_comes_out():
    expected = expected_of(PASSING, "f")
    assert expected.given.rows == ('{"age": 36, "born": "1815-12-10"}', '{"age": 3}')
    assert expected.given.dataset == "people"
    assert expected.given.columns == {"age": "int32"}
    became = Rehearsed(('{"age":36}',), "adults", ((2, BAD),))
    assert outcome(expected, became).differences == ()


@pytest.mark.parametrize(
    ("became", "told"),
    [
        (Rehearsed(('{"age":36}',), "all", ((2, BAD),)), "rows go to 'all'"),
        (Rehearsed(('{"age":36}',), "adults"), "row 2 does not fail"),
        (Rehearsed(('{"age":36}',), "adults", ((1, BAD), (2, BAD))), "row 1 fails: "),
        (Rehearsed((), "adults", ((2, BAD),)), 'row 1 does not come out: {"age": 36}'),
        (Rehearsed(('{"age":36}',) * 2, "adults", ((2, BAD),)), "row 2 that comes out is not"),
        (Rehearsed(('{"age":"36"}',), "adults", ((2, BAD),)), "column 'age' is \"36\", not 36"),
        (Rehearsed(('{"age":36,"x":1}',), "adults", ((2, BAD),)), "column 'x' is not expected: 1"),
        (Rehearsed(("{}",), "adults", ((2, BAD),)), "column 'age' is missing"),
        (
            Rehearsed(('{"age":36}',), "adults", ((2, Diagnostic("a.b", "no")),)),
            "transform.bad_row is expected",
        ),
    ],
)
def test_what_differs_is_told(became, told):
    (difference,) = outcome(expected_of(PASSING, "f"), became).differences
    assert told in difference


def test_of_many_differences_the_first_are_told():
    became = Rehearsed(("{}",) * 100, "adults", ((2, BAD),))
    differences = outcome(expected_of({**PASSING, "expected": []}, "f"), became).differences
    assert len(differences) == MOST_SHOWN + 1
    assert differences[-1] == "and 80 more"


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ("x", "it is no mapping"),
        ({"inptu": []}, "did you mean `input`?"),
        ({"input": {"a": 1}}, "are lists of rows"),
        ({"input": [1]}, "are lists of rows"),
        ({"input": [], "columns": ["a"]}, "`column: type`"),
        ({"input": [], "failed": {"one": "x"}}, "by their number"),
    ],
)
def test_what_is_no_test_is_refused(raw, told):
    with pytest.raises(ConfigError, match=r"test\.malformed") as caught:
        expected_of(raw, "p.yaml: tests[1]")
    assert told in caught.value.diagnostic.message
    assert "p.yaml: tests[1]" in caught.value.diagnostic.message
