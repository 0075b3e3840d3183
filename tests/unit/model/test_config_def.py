import pytest

from penstock.model.config_def import ConfigKey, parse, read
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


def test_defaults_fill_what_was_not_given():
    assert parse(KEYS, {"name": "n"})["flush.interval"] == 0.05


def test_everything_that_is_wrong_is_said_at_once():
    _, errors = read(
        KEYS, {"tasks.mx": "1", "tasks.max": "many", "mode": "slow", "on": "yes"}, "connectors.c"
    )
    assert codes(errors) == [
        ("config.bad_choice", "connectors.c.mode"),
        ("config.missing", "connectors.c.name"),
        ("config.unknown_key", "connectors.c.tasks.mx"),
        ("config.wrong_type", "connectors.c.on"),
        ("config.wrong_type", "connectors.c.tasks.max"),
    ]


def test_one_error_carries_all_the_others():
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
