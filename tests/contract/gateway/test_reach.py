"""What a node lets connectors of some names reach holds for every request that names one."""

import json

import pytest

from penstock_kit.testing import wait_until
from support.gateway import READY

SINK = {"connector.class": "log-sink", "topics": "bounded-rows"}
SOURCE = {"connector.class": "verifiable-source", "rows": "10", "topic": "bounded-rows"}
STAMPED = {
    **SOURCE,
    "transforms": "stamp",
    "transforms.stamp.type": "InsertField",
    "transforms.stamp.static.field": "secret",
    "transforms.stamp.static.value": "${env:DB_PASS}",
}
FILES = {"connector.class": "file-source", "file": "/etc/shadow", "topic": "bounded-rows"}
DATABASE = {
    "connector.class": "jdbc-source",
    "connection.url": "jdbc:sqlite:/var/lib/penstock/state.db",
    "mode": "bulk",
    "topic": "bounded-rows",
}
ATTACKS = {
    "a topic of others": ({**SINK, "topics": "others"}, "reach.topic"),
    "writing into it": ({**SOURCE, "topic": "others"}, "reach.topic"),
    "a secret": (STAMPED, "reach.secret"),
    "a file": ({**FILES, "file": "/etc/shadow"}, "reach.folder"),
    "a database": (DATABASE, "reach.folder"),
    "a host": ({**DATABASE, "connection.url": "jdbc:mysql://127.0.0.1/x"}, "reach.host"),
    "a key of the node's": ({**FILES, "reach.folders": "/"}, "reach.reserved"),
    "a plugin that keeps to nothing": ({**SOURCE, "connector.class": "moody-source"},
                                       "reach.plugin"),
}  # fmt: skip
REQUESTS = {
    "preview": ("/v1/connectors/rehearse", {"sample": 10}),
    "validate": ("/v1/connectors/validate", {}),
    "create": ("/connectors", {"initial_state": "STOPPED"}),
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("request_", REQUESTS)
def test_what_is_outside_of_the_rule_is_refused(gateway, monkeypatch, request_, attack):
    monkeypatch.setenv("DB_PASS", "S3CRET-of-others")
    (path, more), (config, code) = REQUESTS[request_], ATTACKS[attack]
    answer = gateway.post(path, {"name": "bounded-x", "config": config, **more})
    assert code in answer.text
    assert "S3CRET" not in answer.text
    assert gateway.get("/connectors/bounded-x").status_code == 404


def test_a_secret_is_not_looked_up_for_a_check_either(gateway):
    answer = gateway.post("/v1/connectors/check", {"name": "bounded-x", "config": STAMPED})
    assert "reach.secret" in answer.text


@pytest.mark.parametrize(
    "attack", ["a secret", "a file", "a database", "a host", "a key of the node's",
               "a plugin that keeps to nothing"]
)  # fmt: skip
def test_datasets_outside_of_the_rule_are_not_listed(gateway, attack):
    config, code = ATTACKS[attack]
    answer = gateway.post("/v1/connectors/datasets", {"name": "bounded-x", "config": config})
    assert code in answer.text


def test_what_is_inside_of_the_rule_runs(gateway, made, bounded):
    (bounded / "in").write_text('{"a": 1}\n')
    made(
        "bounded-moves",
        "RUNNING",
        **{
            "source.connector.class": "file-source",
            "source.file": str(bounded / "in"),
            "source.format": "jsonl",
            "sink.connector.class": "file-sink",
            "sink.file": str(bounded / "out"),
            "sink.format": "jsonl",
        },
    )
    out = bounded / "out"
    wait_until(lambda: out.exists() and out.read_text(), READY, "the row at its place")
    assert json.loads(out.read_text()) == {"a": 1}
    shown = gateway.get("/connectors/bounded-moves").text
    assert "reach." not in shown


def test_topics_that_match_a_pattern_and_are_outside_are_not_read(gateway, made, bounded):
    made("theirs", "RUNNING", **{**SOURCE, "topic": "others-rows"})
    made("bounded-ours", "RUNNING", **SOURCE)
    sink = {
        "connector.class": "file-sink",
        "path": f"{bounded}/${{topic}}",
        "format": "jsonl",
        "topics.regex": ".*-rows",
    }
    path = made("bounded-all", "RUNNING", **sink)
    ours = bounded / "bounded-rows"
    wait_until(lambda: list(ours.glob("part-*")), READY, "rows of our topic")
    assert sorted(one.name for one in bounded.glob("*-rows")) == ["bounded-rows"]
    topics = gateway.get(f"{path}/topics").json()["bounded-all"]["topics"]
    assert topics == ["bounded-rows"]
