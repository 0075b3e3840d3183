"""References stand anywhere in a value; what is no reference is text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.secrets.resolution import (
    MAX_PART_CHARACTERS,
    Reference,
    fill_references,
    find_references,
)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("${file:/a/b.properties:key}", [Reference("file", "/a/b.properties", "key")]),
        ("${env:NAME}", [Reference("env", "", "NAME")]),
        ("${vault:app/db:pass:word}", [Reference("vault", "app/db", "pass:word")]),
        ("a${env:X}b${env:Y}", [Reference("env", "", "X"), Reference("env", "", "Y")]),
        ("${name}", []),
        ("$1 ${} ${:x} $", []),
        ("${env:X", []),
    ],
)
def test_the_form_is_that_of_kafka_connect(value, found):
    assert [reference for _, reference in find_references({"k": value})] == found


def test_values_take_the_place_of_references_and_what_is_unknown_stays():
    known = {Reference("env", "", "X"): "1"}
    assert fill_references("a${env:X}b${env:Y}c${d}", known.get) == "a1b${env:Y}c${d}"


def test_what_comes_in_is_not_looked_at_again():
    values = {Reference("env", "", "X"): "${env:Y}", Reference("env", "", "Y"): "secret"}
    assert fill_references("${env:X}", values.get) == "${env:Y}"


@given(st.text())
def test_any_text_is_left_alone_by_who_knows_nothing(text):
    assert fill_references(text, lambda _: None) == text


@given(st.text(alphabet="${}:ab", max_size=200))
def test_each_reference_that_is_found_is_filled(text):
    assert list(find_references({"k": fill_references(text, lambda _: "")})) == [] or "${" in text


@pytest.mark.parametrize("part", ["${", "${a:", "${a:b:", "${a", "$"])
def test_a_value_that_only_begins_references_is_read_at_once(part):
    """Without bounds that takes hours, and the test its deadline."""
    value = part * (300_000 // len(part))
    assert not list(find_references({"k": value}))


def test_what_is_longer_than_any_path_is_text():
    assert not list(find_references({"k": "${file:" + "x" * (MAX_PART_CHARACTERS + 1) + ":k}"}))
    assert list(find_references({"k": "${file:" + "x" * MAX_PART_CHARACTERS + ":k}"}))
