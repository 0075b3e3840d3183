"""Users of a file, which changes while the gateway runs."""

from __future__ import annotations

import pytest

from penstock.gateway.access.users import CHECK_INTERVAL_S, Level, UsersFile
from penstock.model.errors import ConfigError

ADA = "users:\n  ada:\n    password: scrypt$1\n    may: [viewer]\n"


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def users(tmp_path, clock):
    file = tmp_path / "users.yaml"
    file.write_text(ADA)
    return file, UsersFile(file, lambda: clock[0])


def test_who_is_taken_out_is_gone_and_who_came_is_there(users, clock):
    file, found = users
    assert found.get("ada").principal.level("any") is Level.VIEWER
    file.write_text(ADA.replace("ada", "bea").replace("viewer", "admin"))
    assert found.get("ada"), "it is not looked at for each request"
    clock[0] += CHECK_INTERVAL_S
    assert found.get("ada") is None
    assert found.get("bea").principal.level("any") is Level.ADMIN


@pytest.mark.parametrize(
    "text", ["users: [", "{}", "users: {ada: {may: [owner]}}", "a: 2024-02-30"]
)
def test_what_cannot_be_read_changes_nothing(users, clock, caplog, text):
    file, found = users
    file.write_text(text)
    clock[0] += CHECK_INTERVAL_S
    assert found.get("ada")
    assert "the changed file of users is not used" in caplog.text
    file.unlink()
    clock[0] += CHECK_INTERVAL_S
    assert found.get("ada")


def test_a_file_that_is_wrong_from_the_beginning_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"access\.file"):
        UsersFile(tmp_path / "none")
