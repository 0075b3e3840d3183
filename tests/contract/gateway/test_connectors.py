"""Kafka Connect's REST API about connectors: each path, each status code.

The table is section 1.1 of Kafka Connect's surface, version 4.3.
"""

from __future__ import annotations

from urllib.parse import quote

import pytest

from penstock_kit.testing import wait_until

FILE = {"connector.class": "FileStreamSource", "file": "/nowhere/in.txt", "topic": "lines"}
VERIFIABLE = {"connector.class": "verifiable-source", "rows": "10", "topic": "rows"}


def code(answer):
    return answer.status_code, answer.json()["error_code"], answer.json()["code"]


def test_the_root_tells_version_and_cluster(gateway):
    answer = gateway.get("/").json()
    assert set(answer) == {"version", "commit", "kafka_cluster_id"}
    assert answer["kafka_cluster_id"] == "tests"
    assert answer["version"] == "4.3.1", "clients choose by the version of Kafka Connect"


def test_health_is_known(gateway):
    assert gateway.get("/health").json()["status"] == "healthy"


def test_a_connector_is_made_found_listed_and_deleted(gateway):
    body = {"name": "orders", "config": VERIFIABLE, "initial_state": "STOPPED"}
    made = gateway.post("/connectors", body)
    assert (made.status_code, made.headers["location"]) == (201, "/connectors/orders")
    wanted = {
        "name": "orders",
        "config": {**VERIFIABLE, "name": "orders"},
        "tasks": [],
        "type": "source",
    }
    assert made.json() == wanted
    assert gateway.get("/connectors/orders").json() == wanted
    assert gateway.get("/connectors/orders/config").json() == wanted["config"]
    assert "orders" in gateway.get("/connectors").json()
    assert gateway.delete("/connectors/orders").status_code == 204
    assert code(gateway.get("/connectors/orders")) == (404, 404, "config.not_found")
    assert code(gateway.delete("/connectors/orders")) == (404, 404, "config.not_found")


@pytest.mark.parametrize(
    "name",
    [
        "a/b",
        "a b",
        "ünï·code",
        "100%",
        "%2F",
        "...",
        "a?b#c",
        'it\'s "quoted"',
        "a/",
        "日本",
        "a;b",
    ],
)
def test_a_name_may_hold_what_can_be_printed(gateway, made, name):
    path = made(name)
    assert gateway.get(path).json()["name"] == name
    assert gateway.get(f"{path}/status").json()["name"] == name
    assert name in gateway.get("/connectors").json()
    assert gateway.put(f"{path}/config", VERIFIABLE).status_code == 200
    location = gateway.delete(path)
    assert location.status_code == 204
    assert name not in gateway.get("/connectors").json()


@pytest.mark.parametrize("name", ["", "..", "  ", "a\nb", "a\x00b", "\u202eabc", "x" * 201])
def test_a_name_that_could_hide_something_is_refused(gateway, name):
    answer = gateway.post("/connectors", {"name": name, "config": VERIFIABLE})
    assert answer.status_code == 400
    if name.strip(" ."):
        path = f"/connectors/{quote(name, safe='')}/config"
        assert gateway.put(path, VERIFIABLE).status_code == 400


def test_a_name_that_is_taken_is_a_conflict(gateway, made):
    name = made().rpartition("/")[2]
    answer = gateway.post("/connectors", {"name": name, "config": VERIFIABLE})
    assert code(answer) == (409, 409, "config.exists")


def test_all_that_is_wrong_is_told(gateway):
    config = {"connector.class": "verifiable-source", "rowz": "10", "tasks.max": "many"}
    answer = gateway.post("/connectors", {"name": "wrong", "config": config})
    assert code(answer) == (400, 400, "config.invalid")
    assert {one["config_path"] for one in answer.json()["errors"]} == {"rowz", "tasks.max"}
    assert "contains the following 2 error(s)" in answer.json()["message"]
    assert gateway.get("/connectors/wrong").status_code == 404


def test_a_class_that_nobody_serves_is_told_the_nearest(gateway):
    body = {"name": "wrong", "config": {"connector.class": "verifiable-sauce"}}
    answer = gateway.post("/connectors", body)
    assert code(answer) == (400, 400, "config.invalid")
    assert "verifiable-source" in answer.json()["message"]


def test_kafkas_class_names_are_known(gateway, made):
    path = made("", **FILE)
    assert gateway.get(path).json()["type"] == "source"


def test_a_state_can_be_asked_for_at_once(gateway, made):
    path = made("", "PAUSED")
    gateway.until(path, "PAUSED")
    path = made("", "STOPPED")
    assert gateway.get(f"{path}/status").json()["tasks"] == []


def test_lists_are_expanded_by_what_is_known(gateway, made):
    path = made()
    name = path.rpartition("/")[2]
    found = gateway.get("/connectors?expand=status&expand=info&expand=unknown").json()[name]
    assert found["info"] == gateway.get(path).json()
    assert found["status"]["name"] == name
    assert set(gateway.get("/connectors?expand=info").json()[name]) == {"info"}
    assert set(gateway.get("/connectors?expand=status").json()[name]) == {"status"}


def test_a_slash_at_the_end_says_nothing(gateway):
    """Clients write one: kcctl lists and creates so."""
    body = {"name": "slash", "config": VERIFIABLE, "initial_state": "STOPPED"}
    assert gateway.post("/connectors/", body).status_code == 201
    assert "slash" in gateway.get("/connectors/").json()
    assert gateway.get("/connectors/slash/").json()["name"] == "slash"
    assert gateway.delete("/connectors/slash/").status_code == 204
    assert gateway.get("/connectors/slash%2F").status_code == 404


def test_put_makes_and_changes(gateway):
    answer = gateway.put("/connectors/put/config", VERIFIABLE)
    assert (answer.status_code, answer.headers["location"]) == (201, "/connectors/put")
    answer = gateway.put("/connectors/put/config", {**VERIFIABLE, "rows": 20})
    assert (answer.status_code, answer.json()["config"]["rows"]) == (200, "20")
    assert gateway.put("/connectors/put/config", {**VERIFIABLE, "name": "other"}).status_code == 400
    gateway.delete("/connectors/put")


def test_patch_sets_and_removes_keys(gateway, made):
    path = made()
    answer = gateway.patch(f"{path}/config", {"rows": 30, "topic": None, "tasks.max": "2"})
    config = answer.json()["config"]
    assert (answer.status_code, config["rows"], config["tasks.max"]) == (200, "30", "2")
    assert "topic" not in config
    assert gateway.patch(f"{path}/config", {"rowz": "1"}).status_code == 400
    assert gateway.get(f"{path}/config").json() == config
    missing = gateway.patch("/connectors/none/config", {"a": "b"})
    assert code(missing) == (404, 404, "config.not_found")


def test_an_older_revision_is_a_conflict_that_tells_the_newest(gateway, made):
    path = made()
    old = gateway.get(path).headers["etag"]
    new = gateway.put(f"{path}/config", {**VERIFIABLE, "rows": "11"}).headers["etag"]
    assert old != new
    for change in (
        gateway.put(f"{path}/config", VERIFIABLE, headers={"If-Match": old}),
        gateway.patch(f"{path}/config", {"rows": "12"}, headers={"If-Match": old}),
        gateway.delete(path, headers={"If-Match": old}),
    ):
        assert code(change) == (409, 409, "config.revision_changed")
        assert change.headers["etag"] == new
    assert gateway.get(f"{path}/config").json()["rows"] == "11"
    answer = gateway.put(f"{path}/config", VERIFIABLE, headers={"If-Match": new})
    assert answer.status_code == 200
    wrong = gateway.put(f"{path}/config", VERIFIABLE, headers={"If-Match": '"x"'})
    assert code(wrong) == (400, 400, "http.if_match")


def test_a_secret_that_was_written_down_is_not_shown_and_survives_being_read_and_written(
    gateway, made
):
    config = {
        "connector.class": "jdbc-sink",
        "connection.url": "jdbc:postgresql://host/db",
        "connection.password": "canary",
        "topics": "x",
    }
    path = made("", **config)
    shown = gateway.get(f"{path}/config").json()
    assert "canary" not in str(shown)
    version = gateway.get(path).headers["etag"]
    gateway.put(f"{path}/config", shown)
    assert gateway.get(path).headers["etag"] == version, "nothing has changed"


def test_a_running_connector_has_tasks_with_states(gateway, made):
    path = made("", "RUNNING", **VERIFIABLE, **{"partitions": "2", "tasks.max": "2"})
    gateway.until(path, "RUNNING")
    name = path.rpartition("/")[2]
    tasks = gateway.get(f"{path}/tasks").json()
    assert [task["id"] for task in tasks] == [{"connector": name, "task": n} for n in (0, 1)]
    assert gateway.get(path).json()["tasks"] == [task["id"] for task in tasks]
    status = gateway.get(f"{path}/tasks/1/status").json()
    assert (status["id"], status["state"]) == (1, "RUNNING")
    assert status["worker_id"]
    (version,) = {
        one["version"]
        for one in gateway.get("/connector-plugins").json()
        if one["class"] == VERIFIABLE["connector.class"]
    }
    whole = gateway.get(f"{path}/status").json()
    assert {status["version"], whole["connector"]["version"]} == {version}
    for missing in (f"{path}/tasks/2/status", "/connectors/none/tasks/0/status"):
        assert gateway.get(missing).status_code == 404
    assert gateway.get(f"{path}/tasks/one/status").status_code == 404


def test_pause_resume_and_stop(gateway, made):
    path = made("", "RUNNING")
    gateway.until(path, "RUNNING")
    assert gateway.put(f"{path}/pause").status_code == 202
    gateway.until(path, "PAUSED")
    assert gateway.put(f"{path}/resume").status_code == 202
    gateway.until(path, "RUNNING")
    assert gateway.put(f"{path}/stop").status_code == 204
    gateway.until(path, "STOPPED")
    for what in ("pause", "resume", "stop"):
        assert gateway.put(f"/connectors/none/{what}").status_code == 404


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 204),
        ("?includeTasks=false&onlyFailed=false", 204),
        ("?includeTasks=true", 202),
        ("?onlyFailed=true", 202),
        ("?includeTasks=true&onlyFailed=true", 202),
        ("?includeTasks=perhaps", 400),
    ],
)
def test_restart(gateway, made, query, status):
    path = made()
    answer = gateway.post(f"{path}/restart{query}")
    assert answer.status_code == status
    if status == 202:
        assert answer.json()["name"] == path.rpartition("/")[2]


def test_restart_of_a_task(gateway, made):
    path = made("", "RUNNING")
    gateway.until(path, "RUNNING")
    assert gateway.post(f"{path}/tasks/0/restart").status_code == 204
    gateway.until(path, "RUNNING")
    assert code(gateway.post(f"{path}/tasks/7/restart")) == (404, 404, "task.not_found")
    assert gateway.post("/connectors/none/tasks/0/restart").status_code == 404
    assert gateway.post("/connectors/none/restart").status_code == 404


def test_a_failed_task_tells_why(gateway, made, tmp_path):
    mood = tmp_path / "mood"
    mood.write_text("task 0")
    path = made("", "RUNNING", **{"connector.class": "moody-source", "mood": str(mood)})
    wait_until(lambda: gateway.states(path)[1] == {"FAILED"}, 120, "the task to fail")
    state, _ = gateway.states(path)
    assert state == "RUNNING"
    trace = gateway.get(f"{path}/tasks/0/status").json()["trace"]
    assert "[moody.task] the mood forbids to go on" in trace
