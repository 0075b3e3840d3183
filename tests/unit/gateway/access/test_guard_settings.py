"""Nobody is let in from elsewhere without being asked, unless a person says so."""

import pytest

from penstock.cluster.keys import KEYS
from penstock.gateway.access.guard import guard_from_settings
from penstock.gateway.listeners import Listener
from penstock.model.config_def import parse
from penstock.model.errors import ConfigError


def values(**config):
    return parse(KEYS["gateway"], {key.replace("_", "."): value for key, value in config.items()})


@pytest.mark.parametrize("address", ["127.0.0.1:8083", "[::1]:8083", "localhost:80"])
def test_this_machine_is_not_asked(address):
    assert guard_from_settings(values(), [Listener(address)]).schemes() == ""


@pytest.mark.parametrize("address", ["0.0.0.0:8083", "10.0.0.1:80", "node:80", "[::]:80"])
def test_others_are_asked_or_let_in_on_purpose(address, tmp_path):
    with pytest.raises(ConfigError, match=r"access\.open"):
        guard_from_settings(values(), [Listener("127.0.0.1:1"), Listener(address)])
    assert guard_from_settings(values(auth_open="true"), [Listener(address)]).schemes() == ""
    users = tmp_path / "users.yaml"
    users.write_text("users: {}")
    assert (
        guard_from_settings(values(auth_users=str(users)), [Listener(address)])
        .schemes()
        .startswith("Basic")
    )
    oidc = guard_from_settings(values(auth_oidc_issuer="https://id.example"), [Listener(address)])
    assert oidc.schemes().startswith("Bearer")


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"access.hosts": "box", "auth.open": "true"}, ["access.hosts"]),
        ({"access.hosts": "box"}, []),
        ({"access.control.allow.methods": "PUT"}, ["access.control.allow.methods"]),
        (
            {"access.control.allow.methods": "PUT", "access.control.allow.origin": "https://ui"},
            [],
        ),
    ],
)
def test_a_key_without_effect_is_told(config, told, caplog):
    guard_from_settings(parse(KEYS["gateway"], config), [Listener("127.0.0.1:1")])
    assert [message.split("`")[1] for message in caplog.messages] == told


@pytest.mark.parametrize("config", [{}, {"auth_open": "true"}])
def test_secrets_that_every_caller_reads_are_a_warning(config, caplog, tmp_path):
    listeners = [Listener("127.0.0.1:1")]
    assert not guard_from_settings(values(**config), listeners).shows_secrets
    assert caplog.messages == []
    assert guard_from_settings(
        values(access_show_secrets="true", **config), listeners
    ).shows_secrets
    assert "no users" in caplog.text
    caplog.clear()
    users = tmp_path / "users.yaml"
    users.write_text("users: {}")
    guard_from_settings(values(access_show_secrets="true", auth_users=str(users)), listeners)
    assert caplog.messages == []
