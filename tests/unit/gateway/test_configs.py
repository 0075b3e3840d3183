"""Configurations as they are written and shown."""

import pytest

from penstock.gateway import configs, request_input
from penstock.model.connector import ConnectorKind, TargetState
from penstock.model.errors import ConfigError


def written(text):
    return request_input.parse_json(text.encode())


def test_values_are_texts_as_they_were_written():
    config = configs.parse_config(written('{"a": 1.0, "b": true, "c": "x", "d": null, "e": 1e3}'))
    assert config == {"a": "1.0", "b": "true", "c": "x", "e": "1e3"}


@pytest.mark.parametrize(
    "given",
    [{str(n): "" for n in range(5_001)}, {"a": "x" * (512 << 10)}],
    ids=["too many keys", "too large a value"],
)
def test_a_configuration_is_measured_before_anything_is_looked_for_in_it(given, monkeypatch):
    with pytest.raises(ConfigError) as caught:
        configs.parse_config(given)
    assert caught.value.code == "config.too_large"
    if len(given) > 1:
        monkeypatch.setattr(configs, "parse_value", None)  # values are not looked at, either
        with pytest.raises(ConfigError, match=r"config\.too_large"):
            configs.parse_config(given)


@pytest.mark.parametrize("value", ["[1]", '{"b": 1}'])
def test_a_value_that_is_no_text_is_named(value):
    with pytest.raises(ConfigError, match=r"config\.not_text") as caught:
        configs.parse_config(written(f'{{"a": {value}}}'))
    assert caught.value.diagnostic.config_path == "a"


def test_a_connector_is_asked_for():
    wanted = configs.parse_connector(
        written('{"name": " a ", "config": {"k": 1}, "initial_state": "PAUSED"}')
    )
    assert (wanted.name, wanted.config) == ("a", {"k": "1", "name": "a"})
    assert wanted.target_state is TargetState.PAUSED
    lower = configs.parse_connector(
        written('{"name": "a", "config": {}, "initial_state": "paused"}')
    )
    assert lower.target_state is TargetState.PAUSED


def test_the_name_may_be_in_the_configuration_alone():
    assert configs.parse_connector(written('{"config": {"name": "a"}}')).name == "a"


def test_two_plugins_make_a_pipeline():
    config = {"source.connector.class": "a", "sink.connector.class": "b"}
    assert configs.make_connector("p", config).kind is ConnectorKind.PIPELINE
    assert configs.make_connector("p", {"connector.class": "a"}).kind is ConnectorKind.UNSPECIFIED


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[]", "http.not_an_object"),
        ('{"name": "a"}', "http.not_an_object"),
        ('{"name": "", "config": {}}', "config.missing"),
        ('{"name": ["a"], "config": {}}', "config.not_text"),
        ('{"config": {}}', "config.missing"),
        ('{"name": "a", "config": {"name": "b"}}', "config.name_mismatch"),
        ('{"name": "a", "config": {}, "intial_state": "PAUSED"}', "config.unknown_field"),
        ('{"name": "a", "config": {}, "initial_state": "ASLEEP"}', "config.target_state"),
        ('{"name": "a", "config": {}, "initial_state": ["PAUSED"]}', "config.target_state"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(text, code):
    with pytest.raises(ConfigError) as caught:
        configs.parse_connector(written(text))
    assert caught.value.code == code


def test_a_misspelt_field_is_told_what_was_meant():
    with pytest.raises(ConfigError) as caught:
        configs.parse_connector(written('{"name": "a", "config": {}, "intial_state": "PAUSED"}'))
    assert "initial_state" in caught.value.diagnostic.fix


def test_a_secret_is_shown_masked_and_written_back_as_it_was():
    stored = {"password": "canary", "url": "jdbc:x://me:canary@host/db", "key": "${env:KEY}"}
    shown = configs.redact_config(stored)
    assert "canary" not in str(shown)
    assert shown["key"] == "${env:KEY}"
    assert configs.restore_secrets(shown, stored) == stored
    assert configs.restore_secrets({**shown, "password": "new"}, stored)["password"] == "new"


@pytest.mark.parametrize(
    "config",
    [
        {"password": "***"},
        {"connection.url": "mysql://app:***@new/db"},
        {"sink.sftp.key": "***"},
    ],
)
def test_a_mask_is_no_secret(config):
    """Somebody changed what was shown around it, or copied it from another connector."""
    stored = {"password": "p", "connection.url": "mysql://app:p@old/db"}
    restore_secrets = configs.restore_secrets(
        config, {k: v for k, v in stored.items() if k not in config}
    )
    with pytest.raises(ConfigError, match=r"config\.masked"):
        configs.refuse_redacted(restore_secrets)


def test_stars_elsewhere_are_text():
    configs.refuse_redacted({"query": "SELECT '***'", "doc": "***", "password": "${env:P}"})
