"""What a node lets connectors of some names reach holds for every request that names one."""

import pytest

SINK = {"connector.class": "file-sink", "file": "/nowhere/bounded/x", "topics": "bounded-rows"}
SOURCE = {"connector.class": "verifiable-source", "rows": "10", "topic": "bounded-rows"}
STAMPED = {
    **SOURCE,
    "transforms": "stamp",
    "transforms.stamp.type": "InsertField",
    "transforms.stamp.static.field": "secret",
    "transforms.stamp.static.value": "${env:DB_PASS}",
}
ATTACKS = {
    "a topic of others": ({**SINK, "topics": "others"}, "reach.topic"),
    "writing into it": ({**SOURCE, "topic": "others"}, "reach.topic"),
    "a secret": (STAMPED, "reach.secret"),
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
    assert "reach.bounded." in answer.text
    assert "S3CRET" not in answer.text
    assert gateway.get("/connectors/bounded-x").status_code == 404


def test_a_secret_is_not_looked_up_for_a_check_either(gateway):
    answer = gateway.post("/v1/connectors/check", {"name": "bounded-x", "config": STAMPED})
    assert "reach.secret" in answer.text
