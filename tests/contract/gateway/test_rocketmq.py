"""RocketMQ Connect's calls, as its article has them."""

from __future__ import annotations

VERIFIABLE = {"connector.class": "verifiable-source", "rows": "10", "topic": "rows"}


def test_the_articles_four_calls(gateway):
    path = "/connectors/rocket"
    assert gateway.post(path, VERIFIABLE).status_code == 201
    assert gateway.post(path, {**VERIFIABLE, "rows": "20"}).status_code == 200
    assert gateway.get(f"{path}/config").json()["rows"] == "20"
    gateway.until(path, "RUNNING")
    assert gateway.get(f"{path}/status").json()["name"] == "rocket"
    assert gateway.post(f"{path}/stop").status_code == 204
    gateway.until(path, "STOPPED")
    assert gateway.get(f"{path}/config").status_code == 200
    assert gateway.post("/connectors/nobody/stop").status_code == 404
    gateway.delete(path)


def test_what_is_there_is_told(gateway, made):
    name = made().rpartition("/")[2]
    assert len(gateway.get("/getClusterInfo").json()["body"]) == 1
    found = gateway.get("/allocated/connectors").json()
    assert (found["status"], found["body"][name]["name"]) == (200, name)
    groups = gateway.get("/allocated/tasks").json()["body"]
    assert set(groups) == {"pending", "running", "stopped", "error"}
    listed = gateway.get("/plugin/list/connectors").json()["body"]
    assert listed == gateway.get("/connector-plugins").json()
    assert gateway.get("/plugin/list").status_code == gateway.get("/plugin/reload").status_code
    assert gateway.get("/plugin/list").status_code == 200


def test_a_link_changes_nothing(gateway, made):
    path = made()
    for what in ("stop", "pause", "resume"):
        assert gateway.get(f"{path}/{what}").status_code == 405
