"""Versions are in Maven's order, and a requirement allows what Kafka Connect's would."""

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.plugin.catalog.versions import Version, parse_requirement

ORDER = [
    *("1.0-alpha", "1.0-alpha2", "1.0-beta", "1.0-milestone", "1.0-rc", "1.0-rc2", "1.0-SNAPSHOT"),
    *("1.0", "1.0-sp", "1.0-xyz", "1.0.1", "1.1", "1.2-rc1", "1.2", "1.2.3", "1.10"),
    *("2.0-SNAPSHOT", "2", "10"),
]


@pytest.mark.parametrize(("less", "more"), list(pairwise(ORDER)))
def test_each_version_comes_before_the_next(less, more):
    assert Version(less) < Version(more)
    assert not Version(more) < Version(less)


@pytest.mark.parametrize("same", ["1", "1.0", "1.0.0", "1.0-final", "1.0.RELEASE", "1-ga"])
def test_zeros_and_words_for_a_release_make_no_difference(same):
    assert Version(same) == Version("1")
    assert hash(Version(same)) == hash(Version("1"))


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_two_texts_have_an_order(one, other):
    a, b = Version(one), Version(other)
    assert (a < b) + (b < a) + (a == b) == 1


@given(st.text(alphabet="[](),.0123456789 abc", max_size=30))
def test_no_text_breaks_the_parser(text):
    with suppress(ValueError):
        parse_requirement(text).allows("1.0")


@pytest.mark.parametrize(
    ("requirement", "allowed", "refused"),
    [
        ("", ["0.1", "9"], []),
        ("latest", ["0.1", "9"], []),
        ("1.2.0", ["1.2", "1.2.0"], ["1.2.1", "1.1"]),
        ("[1.2.0]", ["1.2"], ["1.2.1"]),
        ("[1.2,2.0)", ["1.2", "1.9.9", "2.0-rc"], ["1.1", "2.0", "2.1"]),
        ("(1.2,2.0]", ["1.2.1", "2.0"], ["1.2", "2.0.1"]),
        ("[1.5,)", ["1.5", "99"], ["1.4"]),
        ("(,1.5]", ["0", "1.5"], ["1.5.1"]),
        ("(,1.0],[1.2,)", ["0.9", "1.0", "1.2", "3"], ["1.1"]),
        (" [ 1.2 , 2.0 ) ", ["1.2"], ["2.0"]),
    ],
)
def test_a_requirement_allows_what_it_says(requirement, allowed, refused):
    wanted = parse_requirement(requirement)
    assert [wanted.allows(version) for version in allowed] == [True] * len(allowed)
    assert [wanted.allows(version) for version in refused] == [False] * len(refused)


@pytest.mark.parametrize(
    "text", ["[1", "1,2", "(1.0)", "[2,1]", "[]", "[1,2)x", "x[1,2]", "[1,2][3,4]", "[1,2,3]", ")"]
)
def test_what_is_no_requirement_is_refused(text):
    with pytest.raises(ValueError, match=r"cannot be read|is not a version|ends before"):
        parse_requirement(text)
