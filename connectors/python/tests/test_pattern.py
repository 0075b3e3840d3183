"""Patterns have the meaning of Python's `re`, and a timeout."""

import re
import warnings

import pytest

from penstock_connector import ConfigError, Pattern
from penstock_values.pattern import InvalidPatternError

SLOW = "(a|aa)+$"
LONG = "a" * 60 + "!"


def refused(call, *args):
    with pytest.raises(ConfigError) as caught:
        call(*args)
    return caught.value


@pytest.mark.parametrize(
    ("text", "name", "is_meant"),
    [
        (r"a\d+", "a12", True),
        (r"a\d+", "xa12", False),
        ("a|ab", "ab", True),
        ("a.b", "a\nb", True),
        ("A", "a", False),
        ("", "", True),
        (r"shop\.(?:orders){e}", "shop.xyz", False),
        (r"shop\.(?:orders){e}", "shop.orders{e}", True),
    ],
)
def test_all_of_a_name_is_compared(text, name, is_meant):
    assert Pattern.compile(text, "names").matches(name) is is_meant


def test_case_may_be_ignored():
    assert Pattern.compile("shop", "names", ignore_case=True).matches("SHOP")


@pytest.mark.parametrize("text", ["(", "*", "[a", r"(?P<a>x)(?P=b)", "a" + "{99999999999}" * 2])
def test_an_invalid_pattern_is_refused_with_its_key(text):
    told = refused(Pattern.compile, text, "table.include.list")
    assert (told.code, told.config_path) == ("config.bad_pattern", "table.include.list")
    assert told.fix


@pytest.mark.parametrize("pattern", ["(a+)+$", "([a-z]+)*\\.x", "(x+x+)+y", "(a*)*b", "(.*a){20}b"])
def test_most_backtracking_patterns_end_in_time(pattern):
    assert not Pattern.from_text(pattern, "p").matches(LONG)


def test_a_pattern_that_never_ends_is_refused_with_its_key():
    pattern = Pattern.compile(SLOW, "names.regex")
    told = refused(pattern.matches, LONG)
    assert (told.code, told.config_path) == ("config.slow_pattern", "names.regex")
    assert SLOW in told.message
    assert told.fix
    for call, *args in (
        (pattern.search, LONG),
        (pattern.replace_all, ["a", LONG], lambda _: ""),
        (pattern.filter, ["a", LONG]),
    ):
        assert str(refused(call, *args)) == str(told)
    assert pattern.matches("aaa"), "the next text has its own time"


def test_all_texts_of_a_list_have_a_common_timeout(monkeypatch):
    monkeypatch.setattr("penstock_values.pattern.LIST_TIMEOUT_S", 0.0)
    pattern = Pattern.from_text("a", "p")
    assert refused(pattern.filter, ["a"]).code == "config.slow_pattern"
    assert refused(pattern.replace_all, ["a"], str).code == "config.slow_pattern"


@pytest.mark.parametrize(
    "pattern",
    ["a{e<=1}", "(?:ab){i}", "a{2}", "a{,2}", "a{1,}", "a{}", "a{,}", "x{1,2}{e}", "[[:alpha:]]",
     "[a&&b]", "[a||b~~]", "[]a{e}]", "[^]{]", r"[\]{]a", r"\{e}", r"\N{DIGIT ONE}{e}", "(?i)A{d}",
     r"\w+", "a|ab", "(?P<n>a)(?P=n)", "(a)?(?(1)b|c)", "(?>a*)a", "(?s:.)", r"a\Z", "."],
)  # fmt: skip
@pytest.mark.parametrize(
    "text",
    ["", "a", "b", "aa", "ab", "aab", "abx", "a{e<=1}", "ab{i}", "xx{e}", "a{}", "a{", "&", "|",
     "~]", ":]", "l]", "z", "z]", "{", "]", "e}", "{e}", "1{e}", "1", "a{d}", "c", "]a", "é", "\n"],
)  # fmt: skip
def test_patterns_match_as_pythons(pattern, text):
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        theirs = re.compile(pattern)
    ours = Pattern.from_text(pattern, "p")
    assert ours.matches(text) is bool(theirs.fullmatch(text))
    assert ours.replace_all([text], lambda found: f"<{found[0]}>") == [theirs.sub(r"<\g<0>>", text)]


@pytest.mark.parametrize(
    "pattern", ["(", "[a", "*a", r"\m", "(?r)a", "(?|a)", "(?R)", "(" * 5000, r"\K"]
)
def test_a_pattern_that_python_refuses_is_refused(pattern):
    with pytest.raises(InvalidPatternError):
        Pattern.from_text(pattern, "p")


def test_flags_are_applied():
    assert Pattern.from_text(".", "p", re.DOTALL).matches("\n")
    assert not Pattern.from_text(r"\w", "p", re.ASCII).matches("é")
    assert Pattern.from_text("(?i)a.", "p", re.DOTALL | re.ASCII).matches("A\n")
