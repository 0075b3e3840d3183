import pytest

from penstock.model.config_def import (
    ConfigKey,
    parse,
    parse_duration,
    parse_size,
    parse_with_errors,
)
from penstock.model.errors import ConfigError

KEYS = (
    ConfigKey("name", required=True, doc="its name"),
    ConfigKey("tasks.max", "int", 1),
    ConfigKey("flush.interval", "duration", 0.05),
    ConfigKey("flush.bytes", "size"),
    ConfigKey("rate", "double"),
    ConfigKey("on", "boolean", default=False),
    ConfigKey("topics", "list", ()),
    ConfigKey("mode", choices=("fast", "safe")),
    ConfigKey("secret", "password"),
)


def codes(errors):
    return sorted((e.code, e.diagnostic.config_path) for e in errors)


def test_values_have_the_types_of_their_keys():
    values = parse(
        KEYS,
        {
            "name": "n", "tasks.max": "4", "flush.interval": "2s", "flush.bytes": "1MiB",
            "rate": "0.5", "on": "TRUE", "topics": "a, b,", "mode": "safe", "secret": " x ",
        },
    )  # fmt: skip
    assert values == {
        "name": "n", "tasks.max": 4, "flush.interval": 2.0, "flush.bytes": 1 << 20,
        "rate": 0.5, "on": True, "topics": ("a", "b"), "mode": "safe", "secret": " x ",
    }  # fmt: skip


def test_missing_keys_get_their_defaults():
    assert parse(KEYS, {"name": "n"})["flush.interval"] == 0.05


def test_all_errors_are_reported_at_once():
    _, errors = parse_with_errors(
        KEYS, {"tasks.mx": "1", "tasks.max": "many", "mode": "slow", "on": "yes"}, "connectors.c"
    )
    assert codes(errors) == [
        ("config.bad_choice", "connectors.c.mode"),
        ("config.missing", "connectors.c.name"),
        ("config.unknown_key", "connectors.c.tasks.mx"),
        ("config.wrong_type", "connectors.c.on"),
        ("config.wrong_type", "connectors.c.tasks.max"),
    ]


def test_a_combined_error_has_all_errors_as_detail():
    with pytest.raises(ConfigError) as caught:
        parse(KEYS, {"tasks.max": "many", "mode": "slow"})
    assert caught.value.diagnostic.detail.count("config.") == 3


def test_an_unknown_key_names_the_nearest():
    with pytest.raises(ConfigError) as caught:
        parse(KEYS, {"name": "n", "flush.intervall": "1s"})
    assert caught.value.code == "config.unknown_key"
    assert caught.value.diagnostic.suggestion == "flush.interval"
    assert "flush.interval" in caught.value.diagnostic.fix


def test_a_choice_out_of_a_list_is_named():
    with pytest.raises(ConfigError, match="slow"):
        parse([ConfigKey("modes", "list", choices=("fast",))], {"modes": "fast,slow"})


@pytest.mark.parametrize("text", ["", "  "])
def test_a_required_key_that_is_blank_is_missing(text):
    with pytest.raises(ConfigError) as caught:
        parse(KEYS, {"name": text})
    assert caught.value.code == "config.missing"


@pytest.mark.parametrize(
    "key", [ConfigKey("k", "int", sensitive=True), ConfigKey("k", sensitive=True, choices=("a",))]
)
def test_a_sensitive_value_is_in_no_error(key):
    with pytest.raises(ConfigError) as caught:
        parse([key], {"k": "hunter2"})
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5s", 5), ("100ms", 0.1), ("250", 0.25), ("1.5h", 5400), ("2 min", 120), ("7us", 7e-6)],
)
def test_a_duration_is_in_seconds_and_a_bare_number_in_milliseconds(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("1MiB", 1 << 20), ("64k", 64 << 10), ("4096", 4096), ("1.5KiB", 1536), ("2MB", 2_000_000)],
)
def test_a_size_is_in_bytes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "5 parsecs", "-1s", "1e3", "s", "٣s", "inf"])
def test_an_invalid_duration_is_refused(text):
    with pytest.raises(ValueError, match=r".*"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "1.5", "1 MIB", "-4", "0x10"])
def test_a_size_that_is_not_a_whole_number_of_bytes_is_refused(text):
    with pytest.raises(ValueError, match=r".*"):
        parse_size(text)
