"""Kafka Connect's BlockingConnectorTest, by the names of its cases: a connector that never comes
back keeps no other from its work, and who waits for it is told what it does.

A connector here is a process: one that hangs is named by its stage, and given up.

| case | here |
|---|---|
| block_in_connector_initialize | its plan; a restart is noted, so no request waits for it |
| block_in_connector_start | the same |
| block_in_connector_stop | its tasks have an end, it has none: block_in_source_task_stop |
| worker_restart_with_block_in_connector_start | `tests/chaos/test_cluster_plugins.py`: the worker |
| worker_restart_with_block_in_connector_stop | is a process there, and this one is the tests' own |
"""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.cli.__main__ import main
from penstock_kit.testing import wait_until

NUMBERS = itertools.count()
ROWS = {"connector.class": "verifiable-source", "rows": "30", "topic": "for-blocked"}


@pytest.fixture
def moody(gateway, made, tmp_path):
    """Make a connector of a mood; returns its path, and the file that says the mood."""
    moods = []

    def make(mood, kind="source"):
        file = tmp_path / f"mood{next(NUMBERS)}"
        file.write_text(mood)
        moods.append(file)
        config = {"connector.class": f"moody-{kind}", "mood": str(file)}
        config |= {"topic": "moods"} if kind == "source" else {"topics": "for-blocked"}
        return made("", "RUNNING", **config), file

    yield make
    for file in moods:
        file.write_text("")


@pytest.fixture
def normal(gateway, made):
    """Make a connector that is well, and see that its rows are moved."""

    def make():
        path = made("", "RUNNING", **ROWS)
        gateway.until(path, "RUNNING")

        def moved():
            (one,) = gateway.get(f"{path}/offsets").json()["offsets"] or [{"offset": {}}]
            return "30" in str(one["offset"])

        wait_until(moved, 120, "the rows of a connector that is well")

    return make


def timed_out(gateway, tmp_path, class_, mood):
    """Ask for a connector whose check hangs; return what is answered."""
    file = tmp_path / "mood"
    file.write_text(mood)
    config = {"connector.class": class_, "mood": str(file), "topic": "moods"}
    answer = gateway.post("/connectors", {"name": "blocked", "config": config})
    assert answer.status_code == 500, answer.text
    assert gateway.get("/connectors/blocked").status_code == 404
    assert answer.json()["message"].startswith("Request timed out")
    return answer.json()["message"]


def test_block_in_connector_validate(gateway, normal, tmp_path):
    path = "/connector-plugins/moody-source/config/validate"
    config = {"name": "blocked", "mood": str(tmp_path / "mood"), "topic": "moods"}
    (tmp_path / "mood").write_text("hang validate")
    with ThreadPoolExecutor(1) as pool:  # a check alone, at the same time
        checked = pool.submit(gateway.put, path, config)
        said = timed_out(gateway, tmp_path, "moody-source", "hang validate")
    assert "plugin.validate" in said
    assert (checked.result().status_code, "plugin.validate" in checked.result().text) == (500, True)
    normal()


def test_block_in_connector_config(gateway, normal, tmp_path):
    said = timed_out(gateway, tmp_path, "mute-source", "")
    assert "plugin.describe" in said
    normal()


def test_block_in_connector_initialize(gateway, moody, normal):
    path, _ = moody("hang plan")
    normal()
    assert gateway.post(f"{path}/restart").status_code == 204
    assert gateway.states(path)[1] == set()


def test_block_in_source_task_start(gateway, moody, normal):
    path, _ = moody("hang connect")
    wait_until(lambda: gateway.states(path)[1], 120, "the task")
    normal()
    assert "RUNNING" not in gateway.states(path)[1]


def test_a_task_that_opens_its_source_is_shown_as_connecting(gateway, moody, capsys):
    """Kafka Connect's clients read UNASSIGNED: they know no other word."""
    path, _ = moody("hang connect")
    name = path.rpartition("/")[2]

    def shown():
        (one,) = gateway.get(f"/v1/status?connector={name}").json()["connectors"]
        return {task["state"] for task in one["tasks"]}

    wait_until(lambda: shown() == {"CONNECTING"}, 120, "the task to open")
    assert gateway.states(path)[1] <= {"UNASSIGNED", "RESTARTING"}
    server = ("--server", f"http://{gateway.address}", "-o", "json")
    assert main(["connector", "status", name, *server]) == 0
    (task,) = json.loads(capsys.readouterr().out)["tasks"]
    assert task["state"] == "CONNECTING"


def test_block_in_source_task_stop(gateway, moody, normal):
    path, mood = moody("")
    gateway.until(path, "RUNNING")
    mood.write_text("hang close")
    assert gateway.delete(path).status_code == 204
    normal()


def test_block_in_sink_task_start(gateway, moody, normal):
    normal()
    path, _ = moody("hang connect", "sink")
    wait_until(lambda: gateway.states(path)[1], 120, "the task")
    normal()
    assert "RUNNING" not in gateway.states(path)[1]


def test_block_in_sink_task_stop(gateway, moody, normal):
    path, mood = moody("", "sink")
    gateway.until(path, "RUNNING")
    mood.write_text("hang close")
    assert gateway.delete(path).status_code == 204
    normal()
