"""What `penstock doctor --config` finds of what a file names: each with code, place and fix."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from typing import Any

import pytest

from penstock.cli.__main__ import main
from penstock.gateway.access.guard import Guard
from penstock.gateway.app import build_app
from penstock.gateway.http_server import serve
from penstock.gateway.listeners import Listener
from support.certificates import Authority
from support.etcd import EtcdServers
from support.processes import free_ports

NO_SERVICES: Any = None
"""A path of nothing is answered without any."""


@pytest.fixture
def looked(tmp_path, capsys):
    """Look at a file of keys; returns how it ended, and what was found by what was looked at."""

    def look(**keys):
        file = tmp_path / "keys.json"
        file.write_text(json.dumps({key.replace("__", "."): said for key, said in keys.items()}))
        code = main(["doctor", "--config", str(file), "-o", "json"])
        return code, {one["what"]: one for one in json.loads(capsys.readouterr().out)}

    return look


def told(found):
    assert found["status"] == "missing"
    assert found["fix"]
    return found["code"], found["place"]


def test_a_key_that_nobody_reads_is_told(looked):
    code, found = looked(etcd__endpiont="h:1", listen="127.0.0.1:0", spark__conf__x="1")
    assert code == 1
    assert told(found["key etcd.endpiont"]) == ("config.unknown_key", "etcd.endpiont")
    assert "etcd.endpoints" in found["key etcd.endpiont"]["fix"]
    assert {"java", "etcd", "port 8083"} <= found.keys(), "the rest is as without a file"


def test_a_file_that_cannot_be_read_is_a_mistake(tmp_path, capsys):
    assert main(["doctor", "--config", str(tmp_path / "none.yaml")]) == 2
    assert "config.file" in capsys.readouterr().err


def test_members_of_etcd_answer_or_are_told(looked, tmp_path):
    with EtcdServers(tmp_path / "etcd") as servers:
        (there,) = servers.settings().endpoints
        away = f"127.0.0.1:{free_ports(1)[0]}"
        code, found = looked(etcd__endpoints=f"{there},{away}")
    assert code == 1
    assert (found[f"etcd {there}"]["status"], "etcd" in found) == ("ok", False)
    assert "answers" in found[f"etcd {there}"]["found"]
    assert told(found[f"etcd {away}"]) == ("etcd.unreachable", "etcd.endpoints")


def test_a_member_that_says_nothing_does_not_hold_it_up(looked):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        where = f"127.0.0.1:{mute.getsockname()[1]}"
        code, found = looked(etcd__endpoints=where)
    assert (code, told(found[f"etcd {where}"])[0]) == (1, "etcd.unreachable")


@pytest.mark.parametrize(
    ("keys", "what", "code", "place"),
    [
        (
            {"etcd.endpoints": "127.0.0.1:1", "etcd.tls.authority": "/none.pem"},
            "etcd 127.0.0.1:1",
            "etcd.tls_unreadable",
            "etcd.tls.authority",
        ),
        ({"etcd.endpoints": "http://h:1"}, "etcd", "etcd.bad_endpoint", "etcd.endpoints"),
        ({"etcd.user": "u"}, "etcd", "etcd.no_password", "etcd.password"),
        ({"listeners": "h:1"}, "listeners", "config.bad_value", "listeners"),
        ({"admin.listeners": "h:1"}, "listeners", "config.bad_value", "admin.listeners"),
        (
            {"listeners": "https://127.0.0.1:0"},
            "listeners",
            "config.missing",
            "listener.tls.certificate",
        ),
        ({"plugin.path": "/none/there"}, "plugin", "plugin.no_folder", "plugin.path"),
        ({"state.dir": f"{__file__}/x"}, "state", "doctor.not_writable", "state.dir"),
        ({"topics.dir": f"{__file__}/x"}, "topics", "doctor.not_writable", "topics.dir"),
    ],
)
def test_what_is_wrong_is_told_where_it_is_said(looked, keys, what, code, place):
    ended, found = looked(**keys)
    assert (ended, told(found[what])) == (1, (code, place))


def test_listeners_are_free_or_taken_or_a_gateways(looked):
    async def look(other):
        app = build_app(NO_SERVICES, "tests", Guard())
        async with serve(app, [Listener("127.0.0.1:0")]) as urls:
            wanted = [*urls, f"http://127.0.0.1:{other.getsockname()[1]}", "http://127.0.0.1:0"]
            return wanted, await asyncio.to_thread(looked, listeners=",".join(wanted))

    with socket.create_server(("127.0.0.1", 0)) as other:
        (ours, foreign, free), (code, found) = asyncio.run(look(other))
    assert code == 1
    assert found[f"listener {ours}"]["found"] == "a gateway answers there"
    assert found[f"listener {free}"]["found"] == "free"
    assert told(found[f"listener {foreign}"]) == ("rpc.address_in_use", "listeners")


def test_certificates_of_listeners_are_read(looked, tmp_path):
    certificate, key = Authority(tmp_path).sign("localhost")
    said = {"listener.tls.certificate": str(certificate), "listener.tls.key": str(key)}
    code, found = looked(listeners="https://127.0.0.1:0", **said)
    assert (code, found["listener https://127.0.0.1:0"]["found"]) == (0, "free")
    code, found = looked(listeners="https://127.0.0.1:0", **said | {"listener.tls.key": "/none"})
    assert (code, told(found["listeners"])[0]) == (1, "tls.file")


def test_plugins_are_read_and_their_programs_are_there(looked, tmp_path):
    for name, command in (("good", "{python}"), ("bad", "/none/there"), ("broken", "")):
        (tmp_path / "plugins" / name).mkdir(parents=True)
        text = (
            f'name = "{name}"\nversion = "1.0"\ncommand = ["{command}"]\n'
            f'connector = [{{ name = "{name}-source", kind = "source" }}]\n'
        )
        (tmp_path / "plugins" / name / "plugin.toml").write_text(text)
    code, found = looked(plugin__path=str(tmp_path / "plugins"), state__dir=str(tmp_path))
    assert code == 1
    assert found["plugin good"]["found"] == f"1.0, {sys.executable}"
    assert told(found["plugin bad"])[0] == "plugin.command_not_found"
    assert told(found["plugin"])[0] == "plugin.bad_manifest"
    assert found["state"]["status"] == "ok"
    assert "disk" not in found


def test_a_service_wants_plugins_sealed_and_standalone_does_not(looked, tmp_path):
    text = (
        'name = "new"\nversion = "1.0"\ncommand = ["{python}"]\n'
        'connector = [{ name = "new-source", kind = "source" }]\n'
    )
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "plugin.toml").write_text(text)
    path = {"plugin.path": str(tmp_path)}
    _, found = looked(**path)
    assert found["plugin new"]["status"] == "ok"
    _, found = looked(**path, **{"cluster.name": "one"})
    assert told(found["plugin"]) == ("plugin.not_sealed", "plugin.only.sealed")
    assert f"penstock plugin seal {tmp_path / 'new'}" in found["plugin"]["fix"]


RULE = {"reach": "team-a", "reach.team-a.connectors": "team-a-.*"}


@pytest.mark.parametrize(
    ("keys", "code", "place"),
    [
        ({"reach.team-b.topics": "x"}, "reach.unknown_rule", "reach.team-b.topics"),
        ({"reach": "a b"}, "reach.bad_name", "reach"),
        ({"reach": "rest"}, "config.missing", "reach.rest.connectors"),
        ({**RULE, "reach.team-a.hosts": "10.1.0.1/16"}, "config.bad_value", "reach.team-a.hosts"),
        ({**RULE, "reach.team-a.folders": "here"}, "config.bad_value", "reach.team-a.folders"),
        ({**RULE, "reach.team-a.topic": "x"}, "config.unknown_key", "reach.team-a.topic"),
    ],
)
def test_a_rule_of_reach_that_cannot_be_read_is_told(looked, keys, code, place):
    ended, found = looked(**keys)
    assert (ended, told(found["reach"])) == (1, (code, place))


def test_folders_of_reach_that_are_not_there_are_warned_about(looked, tmp_path):
    file = tmp_path / "file"
    file.touch()
    away = tmp_path / "away"
    names = f"{tmp_path},{away},{file},s3://bucket/team-a"
    rest = {"reach": "team-a,rest", "reach.rest.connectors": ".*", "reach.rest.folders": "*"}
    ended, found = looked(**RULE | {"reach.team-a.folders": names} | rest)
    assert ended == 0
    assert (found["reach"]["status"], found["reach"]["found"]) == ("ok", "team-a, rest")
    one = found[f"reach {away}"]
    assert (one["status"], one["code"]) == ("note", "doctor.no_folder")
    assert one["place"] == "reach.team-a.folders"
    assert one["fix"]
    there = {str(tmp_path), str(file), "s3://bucket/team-a"}
    assert not {f"reach {folder}" for folder in there} & found.keys()


def test_a_file_without_rules_of_reach_says_nothing_of_them(looked, tmp_path):
    assert "reach" not in looked(state__dir=str(tmp_path))[1]
