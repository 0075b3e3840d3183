"""Passwords that stand in a configuration as they are."""

from __future__ import annotations

import pytest

from penstock.connector_config.plain_secrets import find_plain_secrets
from penstock.model.errors import Severity


def found(key, value, *secret_keys):
    return [one.config_path for one in find_plain_secrets({key: value}, secret_keys)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("source.connection.password", "hunter2"),
        ("sasl.jaas.config", 'x required username="u" password="p";'),
        ("http.headers", "Authorization: Bearer abc"),
        ("connection.url", "postgresql://u:hunter2@host/db"),
        ("api.key", "abc"),
    ],
)
def test_a_secret_as_it_is_has_a_warning(key, value):
    (warning,) = find_plain_secrets({key: value})
    assert (warning.code, warning.config_path) == ("config.plain_secret", key)
    assert warning.severity is Severity.WARNING
    assert "hunter2" not in str(warning)
    assert "config.providers" in warning.fix


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("connection.password", "${env:DB_PASSWORD}"),
        ("connection.url", "postgresql://u:${env:DB_PASSWORD}@host/db"),
        ("connection.password", "***"),
        ("connection.password", ""),
        ("basic.auth", "none"),
        ("transforms.token.type", "Filter"),
        ("connection.user", "me"),
        ("connection.url", "jdbc:sqlite:/tmp/x.db"),
    ],
)
def test_what_is_no_secret_or_a_reference_has_none(key, value):
    assert found(key, value) == []


def test_a_key_that_a_plugin_declares_as_a_secret_is_one():
    assert found("pin", "1234") == []
    assert found("pin", "1234", "pin") == ["pin"]


def test_the_fix_names_a_variable():
    (warning,) = find_plain_secrets({"source.connection.password": "x"})
    assert "${env:SOURCE_CONNECTION_PASSWORD}" in warning.fix
