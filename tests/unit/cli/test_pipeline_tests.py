"""Tests of pipelines as files have them, and how what became of rows differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.test import MAX_DIFFERENCES, find_differences, parse_test
from penstock.model.connector import Connector
from penstock.model.errors import ConfigError, Diagnostic
from penstock.model.inspection import PreviewResult

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


def parse(raw, place="f"):
    return parse_test(raw, Path("p.yaml"), Connector("p", {}), place)


def test_a_test_says_what_goes_in_and_what_comes_out():
    test = parse(PASSING)
    assert test.request.rows == ('{"age": 36, "born": "1815-12-10"}', '{"age": 3}')
    assert test.request.dataset == "people"
    assert test.request.columns == {"age": "int32"}
    became = PreviewResult(('{"age":36}',), "adults", ((2, BAD),))
    assert find_differences(test, became) == []


@pytest.mark.parametrize(
    ("became", "told"),
    [
        (PreviewResult(('{"age":36}',), "all", ((2, BAD),)), "rows go to 'all'"),
        (PreviewResult(('{"age":36}',), "adults"), "row 2 does not fail"),
        (PreviewResult(('{"age":36}',), "adults", ((1, BAD), (2, BAD))), "row 1 fails: "),
        (PreviewResult((), "adults", ((2, BAD),)), 'output row 1 is missing: {"age": 36}'),
        (PreviewResult(('{"age":36}',) * 2, "adults", ((2, BAD),)), "output row 2 is not expected"),
        (PreviewResult(('{"age":"36"}',), "adults", ((2, BAD),)), "column 'age' is \"36\", not 36"),
        (
            PreviewResult(('{"age":36,"x":1}',), "adults", ((2, BAD),)),
            "column 'x' is not expected: 1",
        ),
        (PreviewResult(("{}",), "adults", ((2, BAD),)), "column 'age' is missing"),
        (
            PreviewResult(('{"age":36}',), "adults", ((2, Diagnostic("a.b", "no")),)),
            "transform.bad_row is expected",
        ),
    ],
)
def test_what_differs_is_told(became, told):
    (difference,) = find_differences(parse(PASSING), became)
    assert told in difference


def test_of_many_differences_the_first_are_told():
    became = PreviewResult(("{}",) * 100, "adults", ((2, BAD),))
    differences = find_differences(parse({**PASSING, "expected": []}), became)
    assert len(differences) == MAX_DIFFERENCES + 1
    assert differences[-1] == "and 80 more"


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ("x", "is not a mapping"),
        ({"inptu": []}, "did you mean `input`?"),
        ({"input": {"a": 1}}, "are lists of rows"),
        ({"input": [1]}, "are lists of rows"),
        ({"input": [], "columns": ["a"]}, "`column: type`"),
        ({"input": [], "failed": {"one": "x"}}, "by their number"),
    ],
)
def test_what_is_no_test_is_refused(raw, told):
    with pytest.raises(ConfigError, match=r"test\.malformed") as caught:
        parse(raw, "p.yaml: tests[1]")
    assert told in caught.value.diagnostic.message
    assert "p.yaml: tests[1]" in caught.value.diagnostic.message
