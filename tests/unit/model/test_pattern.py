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
