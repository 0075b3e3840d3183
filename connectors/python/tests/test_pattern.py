"""Patterns of names."""

import pytest

from penstock_connector import ConfigError, Pattern


@pytest.mark.parametrize(
    ("text", "name", "is_meant"),
    [
        (r"a\d+", "a12", True),
        (r"a\d+", "xa12", False),
        ("a|ab", "ab", True),
        ("a.b", "a\nb", True),
        ("A", "a", False),
        ("", "", True),
    ],
)
def test_all_of_a_name_is_compared(text, name, is_meant):
    assert Pattern.compile(text, "names").matches(name) is is_meant


def test_case_may_count_for_nothing():
    assert Pattern.compile("shop", "names", ignore_case=True).matches("SHOP")


@pytest.mark.parametrize("text", ["(", "*", "[a", r"(?P<a>x)(?P=b)", "a" + "{99999999999}" * 2])
def test_what_is_none_is_refused_with_its_key(text):
    with pytest.raises(ConfigError) as caught:
        Pattern.compile(text, "table.include.list")
    told = caught.value
    assert (told.code, told.config_path) == ("config.bad_pattern", "table.include.list")
    assert told.fix


@pytest.mark.parametrize("text", ["(a|a)*", "(a|aa)+"])
def test_one_that_takes_for_ever_is_given_up(text):
    pattern = Pattern.compile(text, "names.regex")
    with pytest.raises(ConfigError) as caught:
        pattern.matches("a" * 60 + "!")
    told = caught.value
    assert (told.code, told.config_path) == ("config.slow_pattern", "names.regex")
    assert told.fix
    assert text in told.message
    assert pattern.matches("aaa"), "the next name has its own time"
