"""Patterns have the meaning of Python's `re`, and a timeout."""

import re
import warnings

import pytest

from penstock.model.errors import ConfigError
from penstock.model.pattern import InvalidPatternError, Pattern

SLOW = "(a|aa)+$"
LONG = "a" * 60 + "!"


def refused(call, *args):
    with pytest.raises(ConfigError) as caught:
        call(*args)
    return caught.value.diagnostic


@pytest.mark.parametrize("pattern", ["(a+)+$", "([a-z]+)*\\.x", "(x+x+)+y", "(a*)*b", "(.*a){20}b"])
def test_most_backtracking_patterns_end_in_time(pattern):
    assert not Pattern.compile(pattern, "p").matches(LONG)


def test_a_pattern_that_never_ends_is_refused_with_its_key():
    pattern = Pattern.compile(SLOW, "topics.regex")
    told = refused(pattern.matches, LONG)
    assert (told.code, told.config_path) == ("config.slow_pattern", "topics.regex")
    assert SLOW in told.message
    assert told.fix
    assert refused(pattern.search, LONG) == told
    assert refused(pattern.replace_all, ["a", LONG], lambda _: "") == told
    assert refused(pattern.filter, ["a", LONG]) == told
    assert pattern.matches("aaa"), "the next text has its own time"


def test_all_texts_of_a_list_have_a_common_timeout(monkeypatch):
    monkeypatch.setattr("penstock.model.pattern.LIST_TIMEOUT_S", 0.0)
    pattern = Pattern.compile("a", "p")
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
    ours = Pattern.compile(pattern, "p")
    assert ours.matches(text) is bool(theirs.fullmatch(text))
    assert ours.replace_all([text], lambda found: f"<{found[0]}>") == [theirs.sub(r"<\g<0>>", text)]


@pytest.mark.parametrize(
    "pattern", ["(", "[a", "*a", r"\m", "(?r)a", "(?|a)", "(?R)", "(" * 5000, r"\K"]
)
def test_a_pattern_that_python_refuses_is_refused(pattern):
    with pytest.raises(InvalidPatternError):
        Pattern.compile(pattern, "p")


def test_flags_are_applied():
    assert Pattern.compile(".", "p", re.DOTALL).matches("\n")
    assert not Pattern.compile(r"\w", "p", re.ASCII).matches("é")
    assert Pattern.compile("(?i)a.", "p", re.DOTALL | re.ASCII).matches("A\n")
