"""What breaks clients of Kafka Connect's REST API, each as the request that they send.

Beside these: what a list costs and what validation calls (`test_recorded_requests.py`), the keys of
definitions (`test_kafka_forms.py`), states of a restart (`test_kafka_restart_api.py`), logins
(`test_access.py`, `test_bearer.py`), secrets as written (`test_shown_secrets.py`).
"""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from penstock_kit.testing import wait_until
from support.gateway import READY

VERIFIABLE = {"connector.class": "verifiable-source", "rows": "10", "topic": "rows"}
TYPES = {"BOOLEAN", "CLASS", "DOUBLE", "INT", "LIST", "LONG", "PASSWORD", "SHORT", "STRING"}
TASK_STATES = {"RUNNING", "FAILED", "PAUSED", "RESTARTING", "UNASSIGNED"}


def test_kcctl_and_julie_end_paths_with_a_slash_and_follow_no_redirect(gateway):
    body = {"name": "slash", "config": VERIFIABLE, "initial_state": "STOPPED"}
    assert gateway.post("/connectors/", body).status_code == 201
    assert "slash" in gateway.get("/connectors/").json()
    assert gateway.get("/admin/loggers/").status_code == 200
    assert gateway.delete("/connectors/slash/").status_code == 204


def test_console_reads_each_value_of_a_configuration_as_a_string(gateway, made):
    name = made().rpartition("/")[2]
    config = {**VERIFIABLE, "rows": 20, "tasks.max": 1}
    assert gateway.put(f"/connectors/{name}/config", config).status_code == 200
    shown = gateway.get(f"/connectors/{name}").json()
    for found in (
        gateway.get(f"/connectors/{name}/config").json(),
        shown["config"],
        gateway.get("/connectors?expand=info&expand=status").json()[name]["info"]["config"],
    ):
        assert {type(value) for value in found.values()} == {str}
        assert found["rows"] == "20"


def test_terraform_finds_the_keys_that_it_sent_and_the_name(gateway, made):
    path = made("", "STOPPED", **VERIFIABLE)
    assert gateway.get(f"{path}/config").json() == {**VERIFIABLE, "name": path.rpartition("/")[2]}


def test_akhq_reads_a_status_of_strings_and_tasks_of_its_list(gateway, made):
    path = made("", "RUNNING", **VERIFIABLE)
    gateway.until(path, "RUNNING")
    status = gateway.get(f"{path}/status").json()
    assert {type(value) for value in status["connector"].values()} == {str}
    assert {task["state"] for task in status["tasks"]} <= TASK_STATES
    assert status["type"] in {"source", "sink", "unknown"}
    info = gateway.get(path).json()
    assert [one["task"] for one in info["tasks"]] == [one["id"] for one in status["tasks"]]


def test_console_is_told_of_no_running_connector_without_tasks(gateway):
    """It shows one as unhealthy."""
    body = {"name": "taskless", "config": VERIFIABLE}
    assert gateway.post("/connectors", body).status_code == 201
    try:
        seen = []

        def has_tasks():
            seen.append(gateway.get("/connectors/taskless/status").json())
            return bool(seen[-1]["tasks"])

        wait_until(has_tasks, READY, "its task")
        without = {one["connector"]["state"] for one in seen if not one["tasks"]}
        assert without <= {"UNASSIGNED"}
    finally:
        gateway.delete("/connectors/taskless")


def test_an_incomplete_configuration_of_a_form_is_validated(gateway):
    body = {"connector.class": "file-sink", "topics": "getPlugins"}
    answer = gateway.put("/connector-plugins/file-sink/config/validate", body)
    assert answer.status_code == 200
    for one in answer.json()["configs"]:
        definition, value = one["definition"], one["value"]
        assert definition["type"] in TYPES, definition["name"]
        assert definition["importance"] in {"LOW", "MEDIUM", "HIGH"}
        assert definition["width"] in {"SHORT", "MEDIUM", "LONG", "NONE"}
        assert isinstance(definition["order"], int)
        for listed in (definition["dependents"], value["recommended_values"], value["errors"]):
            assert isinstance(listed, list)
        assert isinstance(value["visible"], bool)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/connectors/none", None, 404),
        ("GET", "/nowhere", None, 404),
        ("POST", "/connectors", {"name": "x", "config": {}}, 400),
        ("PATCH", "/connectors", {}, 405),
        ("PUT", "/connector-plugins/none/config/validate", {}, 404),
    ],
)
def test_console_and_strimzi_read_an_error_code_and_a_message(gateway, method, path, body, status):
    answer = gateway.client.request(method, path, **({} if body is None else {"json": body}))
    found = answer.json()
    assert (answer.status_code, found["error_code"]) == (status, status)
    assert found["message"]


def test_a_name_that_is_taken_is_the_only_conflict(gateway, made):
    """Kafbat and AKHQ repeat a 409 for seconds."""
    path = made("", "RUNNING", **VERIFIABLE)
    body = {"name": path.rpartition("/")[2], "config": VERIFIABLE}
    assert gateway.post("/connectors", body).status_code == 409
    others = [
        gateway.put(f"{path}/config", {**VERIFIABLE, "rows": "11"}),
        gateway.post(f"{path}/restart?includeTasks=false&onlyFailed=false"),
        gateway.put(f"{path}/pause"),
        gateway.put(f"{path}/resume"),
        gateway.put(f"{path}/stop"),
        gateway.delete(path),
    ]
    assert [one.status_code for one in others] == [200, 204, 202, 202, 204, 204]


def test_codes_that_strimzi_compares(gateway, made):
    path = made("", "STOPPED", **VERIFIABLE)
    new = gateway.put(f"{path}-new/config", VERIFIABLE)
    assert new.status_code == 201
    assert gateway.delete(f"{path}-new").status_code == 204
    level = gateway.put("/admin/loggers/penstock.traps", {"level": "INFO"})
    assert (level.status_code, level.json()) == (200, ["penstock.traps"])
    loggers = gateway.get("/admin/loggers").json().values()
    assert all(set(one) == {"level", "last_modified"} for one in loggers)


def test_kafbats_search_is_ignored_and_names_are_escaped(gateway, made):
    name = "a/b ü%41"
    made(name)
    assert name in gateway.get("/connectors?search=nothing").json()
    path = f"/connectors/{quote(name, safe='')}"
    assert gateway.get(path).json()["name"] == name
    assert gateway.get(f"{path}/topics").json() == {name: {"topics": []}}


def test_kcctl_reads_a_version_of_the_api_that_has_offsets(gateway):
    major, minor, *_ = gateway.get("/").json()["version"].split(".")
    assert (int(major), int(minor)) >= (3, 5)


def test_a_list_of_another_client_has_each_detail(gateway, made):
    """AKHQ, Kafbat and Console repeat the parameter; Julie asks for one of them."""
    name = made().rpartition("/")[2]
    for query, keys in {
        "expand=info&expand=status": {"info", "status"},
        "expand=info": {"info"},
        "expand=status": {"status"},
    }.items():
        assert gateway.get(f"/connectors?{query}").json()[name].keys() == keys
    assert json.loads(gateway.get("/connectors").text).count(name) == 1
