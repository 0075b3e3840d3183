"""What people may do, and with which connectors."""

import pytest

from penstock.gateway.access import passwords
from penstock.gateway.access.users import Level, Principal, parse_grants, read_users
from penstock.model.connector import Connector
from penstock.model.errors import ConfigError

ADA = Principal("ada", parse_grants([{"role": "editor", "connectors": "orders-.*"}, "viewer"]))


def test_the_highest_of_what_was_granted_counts():
    assert ADA.level("orders-1") is Level.EDITOR
    assert ADA.level("bills") is Level.VIEWER
    assert ADA.level() is Level.VIEWER, "what is for some connectors is not for the cluster"
    assert ADA.highest_level() is Level.EDITOR
    assert Principal("nobody").level("orders-1") is Level.NONE


def test_a_pattern_is_for_whole_names():
    person = Principal("a", parse_grants([{"role": "editor", "connectors": "orders"}]))
    assert person.level("orders") is Level.EDITOR
    for name in ("orders-1", "my-orders", "orders\n"):
        assert person.level(name) is Level.NONE


def test_people_see_what_they_may_look_at():
    person = Principal("a", parse_grants([{"role": "viewer", "connectors": "a.*"}]))
    found = person.filter_visible([Connector("a1", {}), Connector("b1", {})])
    assert [one.name for one in found] == ["a1"]


def test_a_pattern_that_takes_too_long_grants_nothing():
    person = Principal("a", parse_grants([{"role": "admin", "connectors": "(a|aa)+"}]))
    name = "a" * 60 + "!"
    with pytest.raises(ConfigError, match=r"config\.slow_pattern"):
        person.level(name)
    with pytest.raises(ConfigError, match=r"config\.slow_pattern"):
        person.filter_visible([Connector(name, {})])


@pytest.mark.parametrize(
    "value",
    ["owner", "nobody", "", {"role": "vewer"}, {"role": "viewer", "connector": "a"}, 5, ["viewer"],
     {"role": "viewer", "connectors": "("}],
)  # fmt: skip
def test_what_is_no_grant_is_refused(value):
    with pytest.raises(ConfigError, match=r"access\.grant"):
        parse_grants([value])


def test_a_password_is_known_by_its_hash():
    stored = passwords.hash_password("correct horse")
    assert "correct" not in stored
    assert stored != passwords.hash_password("correct horse"), "each has a salt of its own"
    assert passwords.verify_password("correct horse", stored)
    assert not passwords.verify_password("wrong horse", stored)
    assert not passwords.verify_password("correct horse\0", stored), "scrypt pads with NUL"
    with pytest.raises(ConfigError, match="NUL"):
        passwords.hash_password("correct horse\0")


@pytest.mark.parametrize(
    "stored", ["", "plain", "scrypt$1$2", "md5$1$1$1$YQ==$YQ==", "scrypt$x$8$1$YQ==$YQ=="]
)
def test_what_is_no_hash_matches_nothing(stored):
    assert not passwords.verify_password("plain", stored)
    assert not passwords.verify_password("", stored)


def test_users_are_read_from_a_file(tmp_path):
    file = tmp_path / "users.yaml"
    file.write_text(
        "users:\n  ada:\n    password: hidden\n    may: [{role: editor, connectors: a.*}]\n"
    )
    users = read_users(file)
    assert users["ada"].principal.level("a1") is Level.EDITOR
    assert "hidden" not in repr(users["ada"])


@pytest.mark.parametrize(
    "text", ["", "[]", "users: []", "users: {a: 5}", "users: {a: {may: viewer}}", "a: [", "\xff"]
)
def test_a_file_that_is_wrong_is_named_without_its_content(tmp_path, text):
    file = tmp_path / "users.yaml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"access\.file"):
        read_users(file)
    with pytest.raises(ConfigError, match=r"access\.file"):
        read_users(tmp_path / "none")
