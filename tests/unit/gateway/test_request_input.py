"""What a body may be: JSON of a bounded depth, whose numbers keep their text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway import request_input
from penstock.gateway.request_input import JsonNumber
from penstock.model.errors import ConfigError


@pytest.mark.parametrize("text", ["1", "1.0", "1e3", "-0", "123456789012345678901234567890"])
def test_numbers_keep_the_text_they_were_written_in(text):
    value = request_input.parse_json(text.encode())
    assert isinstance(value, JsonNumber)
    assert value == text


@pytest.mark.parametrize(
    "text", [b"{", b"", b"\xff", b"NaN", b"[Infinity]", b"{'a': 1}", b"[" * 200_000, b'{"a":1}x']
)
def test_what_is_no_json_is_refused(text):
    with pytest.raises(ConfigError, match=r"http\.not_json"):
        request_input.parse_json(text)


def test_depth_is_bounded():
    deepest = b"[" * request_input.MAX_DEPTH + b"]" * request_input.MAX_DEPTH
    assert request_input.parse_json(deepest)
    with pytest.raises(ConfigError, match=r"http\.not_json"):
        request_input.parse_json(b"[" + deepest + b"]")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_plain_values_are_what_was_sent(value):
    import json

    assert request_input.to_plain(request_input.parse_json(json.dumps(value).encode())) == value


@pytest.mark.parametrize("value", [None, [], "text", True, JsonNumber("1")])
def test_what_is_no_object_is_named(value):
    with pytest.raises(ConfigError, match=r"http\.not_an_object") as caught:
        request_input.require_object(value, "the configuration")
    assert "the configuration is" in caught.value.diagnostic.message


@pytest.mark.parametrize("text", ['{"\\ud800": 1}', '"\\udfff"', '["a\\uD83Db"]'])
def test_half_a_character_is_refused(text):
    with pytest.raises(ConfigError, match=r"http\.not_json"):
        request_input.parse_json(text.encode())


def test_a_whole_character_is_none():
    assert request_input.parse_json(b'"\\ud83d\\ude00"') == "\U0001f600"


@pytest.mark.parametrize("text", ["1e999", "-1e400"])
def test_a_number_that_is_too_large_is_refused(text):
    with pytest.raises(ConfigError, match=r"http\.not_json"):
        request_input.to_plain(request_input.parse_json(text.encode()))
