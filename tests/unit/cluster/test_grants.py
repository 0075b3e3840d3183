"""The rights of the services in etcd. That they are enough, and no more, is tested in
`tests/system`.
"""

from __future__ import annotations

import re
import shlex

import pytest

from penstock.cli.__main__ import main
from penstock.cluster import grants
from penstock.config import records as config
from penstock.model.errors import ConfigError
from penstock.offset import records as offset
from penstock.scheduler.state import records as scheduler


@pytest.mark.parametrize("module", [config, offset, scheduler])
def test_every_documented_key_has_one_of_the_key_prefixes(module):
    documented = re.findall(r"`([a-z]+/)[^`]*`", module.__doc__)
    assert documented
    for key in documented:
        assert any(place.startswith(key) for place in module.KEY_PREFIXES), key


def test_no_key_prefix_belongs_to_two_services():
    places = [place for room in (config, offset, scheduler) for place in room.KEY_PREFIXES]
    assert not any(a != b and a.startswith(b) for a in places for b in places)
    assert len(places) == len(set(places))


def test_role_commands_are_for_a_shell_and_for_one_cluster(capsys):
    assert main(["cluster", "grants", "--name", "a.b"]) == 0
    lines = [shlex.split(line) for line in capsys.readouterr().out.splitlines()]
    made = [words[-1] for words in lines if words[:3] == ["etcdctl", "role", "add"]]
    assert made == [f"penstock-a.b-{service}" for service in grants.SERVICES]
    granted = [words[-1] for words in lines if words[2] == "grant-permission"]
    assert granted
    assert all(key.startswith("/penstock/a.b/") for key in granted)


def test_an_invalid_cluster_name_is_refused():
    with pytest.raises(ConfigError, match=r"etcd\.bad_cluster"):
        list(grants.role_commands("a; rm -rf /"))


def test_a_worker_has_no_right_to_stored_state():
    assert not [place for _, place in grants.list_grants("worker") if place.startswith("state/")]
