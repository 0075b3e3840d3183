"""Patterns of the services have the services' errors. How they match is tested with the SDK."""

import pytest

from penstock.model.errors import ConfigError
from penstock.model.pattern import Pattern


def test_an_invalid_pattern_is_refused_with_its_key():
    with pytest.raises(ConfigError) as caught:
        Pattern.parse("(", "topics.regex")
    told = caught.value.diagnostic
    assert (told.code, told.config_path) == ("config.bad_pattern", "topics.regex")
    assert told.fix


def test_a_slow_pattern_is_refused_with_its_key():
    pattern = Pattern.parse("(a|aa)+", "topics.regex")
    with pytest.raises(ConfigError) as caught:
        pattern.matches("a" * 60 + "!")
    told = caught.value.diagnostic
    assert (told.code, told.config_path) == ("config.slow_pattern", "topics.regex")
    assert "(a|aa)+" in told.message


def test_a_match_that_had_no_processor_is_tried_again():
    """A machine that stands still for a moment makes no pattern a slow one."""
    pattern, tries = Pattern.parse("a", "key"), []

    def match():
        tries.append(1)
        if len(tries) < 3:
            raise TimeoutError
        return "found"

    assert pattern._timed(match, "a") == "found"

    def stalled():
        raise TimeoutError

    with pytest.raises(ConfigError, match=r"config\.slow_pattern"):
        pattern._timed(stalled, "a")
