"""RocketMQ Connect's calls: those of its article, and its REST API at listeners of its own."""

from __future__ import annotations

import json
import logging

import httpx
import pytest

from penstock.gateway.access.guard import Guard
from penstock.gateway.app import build_app
from penstock.gateway.http_server import serve
from penstock.gateway.listeners import Listener, ListenerScope

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
    assert set(groups) == {
        "pendingTasks", "runningTasks", "stoppingTasks", "stoppedTasks", "errorTasks",
    }  # fmt: skip
    listed = gateway.get("/plugin/list/connectors").json()["body"]
    ours = gateway.get("/connector-plugins").json()
    assert [one["className"] for one in listed] == [one["class"] for one in ours]
    assert {one["type"] for one in listed} == {"SOURCE", "SINK"}
    assert gateway.get("/plugin/list").status_code == gateway.get("/plugin/reload").status_code
    assert gateway.get("/plugin/list").status_code == 200


def test_a_link_changes_nothing(gateway, made):
    path = made()
    for what in ("stop", "pause", "resume"):
        assert gateway.get(f"{path}/{what}").status_code == 405


@pytest.fixture(scope="module")
def theirs(gateway):
    """A client of a listener of RocketMQ Connect's API."""
    app = build_app(gateway.clients, "tests", Guard())
    entered = serve(app, [Listener("127.0.0.1:0", scope=ListenerScope.ROCKETMQ)])
    (url,) = gateway.run(entered.__aenter__)
    with httpx.Client(base_url=url, timeout=60) as client:
        yield client
    gateway.run(lambda: entered.__aexit__(None, None, None))


def body(answer):
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found.keys() == {"status", "body"}
    assert found["status"] == 200
    return found["body"]


def test_its_api_from_the_first_call_to_the_last(theirs, gateway):
    config = {
        "connector.class": "verifiable-source", "rows": "10", "max.tasks": "1",
        "connect.topicname": "rows",
    }  # fmt: skip
    made = body(theirs.get("/connectors/there", params={"config": json.dumps(config)}))
    assert made["rows"] == "10"
    assert body(theirs.post("/connectors/there", json={**config, "rows": "20"}))["rows"] == "20"
    gateway.until("/connectors/there", "RUNNING")
    info = body(theirs.get("/connectors/there/config"))
    assert (info["name"], info["type"], info["config"]["rows"]) == ("there", "SOURCE", "20")
    status = body(theirs.get("/connectors/there/status"))
    assert status["connector"].keys() == {"state", "trace", "workerId"}
    assert (status["type"], status["connector"]["state"]) == ("SOURCE", "RUNNING")
    listed = body(theirs.get("/connectors/list"))["there"]
    assert listed["info"] == info
    assert listed["status"]["name"] == "there"
    assert body(theirs.get("/connectors/there/pause")).endswith("paused successfully")
    gateway.until("/connectors/there", "PAUSED")
    assert body(theirs.get("/connectors/there/resume")).endswith("resumed successfully")
    assert body(theirs.post("/connectors/there/stop")).endswith("stopped successfully")
    gateway.until("/connectors/there", "STOPPED")
    assert body(theirs.get("/connectors/there/stop")) == "Connector [there] deleted successfully"
    assert gateway.get("/connectors/there").status_code == 404


def test_its_tasks_and_what_its_workers_tell(theirs, gateway):
    body(theirs.post("/connectors/busy", json={**VERIFIABLE, "rows": "20"}))
    gateway.until("/connectors/busy", "RUNNING")
    (task,) = body(theirs.get("/connectors/busy/tasks"))
    assert task["id"] == {"connector": "busy", "task": 0}
    state = body(theirs.get("/connectors/busy/tasks/0/status"))
    assert state.keys() == {"id", "state", "trace", "workerId"}
    groups = body(theirs.get("/allocated/tasks"))
    (task,) = [t for group in groups.values() for t in group if t["connectorName"] == "busy"]
    assert task["config"]["rows"] == "20"
    assert task["taskState"] in {"RUNNING", "STOPPED"}, "it may have written all of them"
    assert body(theirs.get("/allocated/connectors"))["busy"]["connector.class"]
    assert len(body(theirs.get("/getClusterInfo"))) == 1
    assert body(theirs.get("/plugin/reload")) == "Plugin reload succeeded"
    gateway.delete("/connectors/busy")


def test_all_at_once(theirs, gateway, caplog):
    for name in ("a1", "a2"):
        body(theirs.post(f"/connectors/{name}", json=VERIFIABLE))
    count = len(gateway.get("/connectors").json())
    assert body(theirs.get("/connectors/pause/all")) == f"{count} connectors are suspended"
    assert body(theirs.get("/connectors/resume/all")) == f"{count} connectors are resumed"
    with caplog.at_level(logging.INFO, "penstock.audit"):
        assert body(theirs.get("/connectors/stop/all")).endswith("connectors are deleted")
    assert {"a1", "a2"} <= set(json.loads(audited(caplog)[-1])["connector"].split(", "))
    assert gateway.get("/connectors").json() == []
    assert body(theirs.get("/connectors/stop/all")).startswith("No connector needs to be deleted")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/connectors/nobody/status", 404),
        ("/connectors/x", 400),
        ("/connectors/x?config=oops", 400),
        ("/connectors/x?config={}", 400),
        ("/nowhere", 404),
    ],
)
def test_an_error_has_its_status_and_its_name(theirs, path, status):
    answer = theirs.get(path)
    assert (answer.status_code, answer.json()["errorCode"]) == (status, status)
    assert answer.json()["message"]
    assert answer.json()["code"]
    assert "openapi" not in answer.text


def audited(caplog):
    """Return the lines of the audit: others may be logged meanwhile."""
    return [one.message for one in caplog.records if one.name == "penstock.audit"]


def test_a_page_of_another_site_deletes_nothing_and_a_change_is_told(theirs, gateway, made, caplog):
    path = made()
    cross = {"sec-fetch-site": "cross-site"}
    with caplog.at_level(logging.INFO, "penstock.audit"):
        for call in (
            *(f"{path}/stop", "/connectors/stop/all", f"{path}?config={{}}"),
            # a route is found for a path with a line break at its end, too
            *(f"{path}/stop%0A", "/connectors/stop/all%0A", "/plugin/reload%0A"),
        ):
            assert theirs.get(call, headers=cross).status_code == 403
            # over plain http a browser does not say which page asked
            assert theirs.get(call, headers={"user-agent": "Mozilla/5.0"}).status_code == 403
    assert [json.loads(one)["status"] for one in audited(caplog)] == [403] * 12
    assert gateway.get("/plugin/reload%0A", headers=cross).status_code == 403
    assert gateway.get(path).status_code == 200
    assert theirs.get("/connectors/list", headers=cross).status_code == 200
