"""Kafka Connect's ConnectorRestartApiIntegrationTest, by the names of its cases: what a restart
starts anew, counted by the plugin itself.

A connector is started anew by being planned anew; Kafka Connect's `startsAndStops` is a diary that
the plugin keeps of its plans and of the tasks that it begins.

| case | here |
|---|---|
| multi_worker_restart_only_connector | a restart is stored, and whoever leads carries it out: |
| multi_worker_restart_both_connector_and_tasks | `tests/system/test_cluster.py`, with two workers |
"""

from __future__ import annotations

from collections import Counter

import pytest

from penstock_kit.testing import wait_until

TASKS = ("0", "1")
PLAN = "plan"


class Diarist:
    """A connector of two tasks that writes down what it begins."""

    def __init__(self, gateway, folder, name, mood=""):
        """`mood` is one of moody.py's."""
        self.gateway, self.path = gateway, f"/connectors/{name}"
        self.mood, self._diary = folder / f"{name}.mood", folder / f"{name}.diary"
        self.mood.write_text(mood)
        config = {"mood": str(self.mood), "diary": str(self._diary), "partitions": "2"}
        config |= {"tasks.max": "2", "connector.class": "moody-source", "topic": name}
        gateway.create(name, "RUNNING", **config)

    def counts(self):
        """Return how often it was planned, and each task was begun."""
        lines = self._diary.read_text().splitlines() if self._diary.exists() else []
        return Counter(line.removeprefix("connect [").rstrip("]") for line in lines)

    def restart(self, *, only_failed, include_tasks):
        """Restart it; returns the states in the answer."""
        query = {"onlyFailed": only_failed, "includeTasks": include_tasks}
        answer = self.gateway.post(f"{self.path}/restart", params=query)
        if not only_failed and not include_tasks:
            assert (answer.status_code, answer.content) == (204, b"")
            return set()
        assert answer.status_code == 202
        body = answer.json()
        return {body["connector"]["state"], *(task["state"] for task in body["tasks"])}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for moods and diaries."""
    return tmp_path_factory.mktemp("diaries")


@pytest.fixture(scope="module")
def settled(gateway, folder):
    """Wait until whatever was asked for before was carried out: another restart, after it, was."""
    other = Diarist(gateway, folder, "restarts-after")
    gateway.until(other.path, "RUNNING")

    def settle():
        before = other.counts()
        other.restart(only_failed=False, include_tasks=True)
        wait_until(lambda: min((other.counts() - before)[t] for t in TASKS) > 0, 120, "a restart")
        gateway.until(other.path, "RUNNING")

    yield settle
    gateway.delete(other.path)


@pytest.fixture(scope="module")
def running(gateway, folder):
    """A connector that runs."""
    one = Diarist(gateway, folder, "restarts-running")
    gateway.until(one.path, "RUNNING")
    yield one
    gateway.delete(one.path)


@pytest.fixture(scope="module")
def failed(gateway, folder):
    """A connector that cannot be planned."""
    one = Diarist(gateway, folder, "restarts-failed", "plan")
    wait_until(lambda: gateway.states(one.path) == ("FAILED", set()), 120, "its plan to fail")
    yield one
    gateway.delete(one.path)


@pytest.fixture(scope="module")
def failing(gateway, folder):
    """A connector that runs, and whose tasks fail."""
    one = Diarist(gateway, folder, "restarts-failing", "tasks")
    tasks_fail(gateway, one)
    yield one
    gateway.delete(one.path)


def tasks_fail(gateway, one):
    failed = ("RUNNING", {"FAILED"})
    wait_until(lambda: gateway.states(one.path) == failed, 120, "its tasks to fail")


def begun(one, settled, wanted, **asked):
    """Restart a connector; tells which states were answered, when what was wanted has begun."""
    before = one.counts()
    answered = one.restart(**asked)
    wait_until(lambda: one.counts() - before >= Counter(wanted), 120, f"{wanted} to begin")
    settled()
    assert one.counts() - before == Counter(wanted)
    return answered


def test_restart_unknown_connector_no_params(gateway):
    assert gateway.post("/connectors/Unknown/restart").status_code == 404


@pytest.mark.parametrize("only_failed", ["false", "true"])
@pytest.mark.parametrize("include_tasks", ["false", "true"])
def test_restart_unknown_connector(gateway, only_failed, include_tasks):
    query = f"onlyFailed={only_failed}&includeTasks={include_tasks}"
    assert gateway.post(f"/connectors/Unknown/restart?{query}").status_code == 404


def test_running_connector_and_tasks_restart_only_connector(running, settled):
    begun(running, settled, [PLAN], only_failed=False, include_tasks=False)


def test_running_connector_and_tasks_restart_both_connector_and_tasks(running, settled):
    asked = begun(running, settled, [PLAN, *TASKS], only_failed=False, include_tasks=True)
    assert asked == {"RESTARTING"}


def test_running_connector_and_tasks_restart_only_failed_connector_noop(running, settled):
    asked = begun(running, settled, [], only_failed=True, include_tasks=False)
    assert asked == {"RUNNING"}


def test_running_connector_and_tasks_restart_both_connector_and_tasks_noop(running, settled):
    asked = begun(running, settled, [], only_failed=True, include_tasks=True)
    assert asked == {"RUNNING"}


def test_failed_connector_restart_only_connector(gateway, failed, settled):
    begun(failed, settled, [PLAN], only_failed=False, include_tasks=False)
    wait_until(lambda: gateway.states(failed.path) == ("FAILED", set()), 120, "it to fail again")


def test_failed_connector_restart_both_connector_and_tasks(gateway, failed, settled):
    begun(failed, settled, [PLAN], only_failed=False, include_tasks=True)
    wait_until(lambda: gateway.states(failed.path) == ("FAILED", set()), 120, "it to fail again")


def test_failed_connector_restart_only_failed_connector_and_tasks(gateway, failed, settled):
    begun(failed, settled, [PLAN], only_failed=True, include_tasks=True)
    wait_until(lambda: gateway.states(failed.path) == ("FAILED", set()), 120, "it to fail again")


def test_failed_tasks_restart_only_connector(gateway, failing, settled):
    begun(failing, settled, [PLAN], only_failed=False, include_tasks=False)
    tasks_fail(gateway, failing)


def test_failed_tasks_restart_only_tasks(gateway, failing, settled):
    asked = begun(failing, settled, TASKS, only_failed=True, include_tasks=True)
    assert asked == {"RUNNING", "RESTARTING"}
    tasks_fail(gateway, failing)


def test_failed_tasks_restart_without_include_tasks_noop(gateway, failing, settled):
    asked = begun(failing, settled, [], only_failed=True, include_tasks=False)
    assert asked == {"RUNNING", "FAILED"}
    tasks_fail(gateway, failing)


def test_failed_tasks_restart_both_connector_and_tasks(gateway, failing, settled):
    begun(failing, settled, [PLAN, *TASKS], only_failed=False, include_tasks=True)
    tasks_fail(gateway, failing)


def test_one_failed_tasks_restart_only_one_tasks(gateway, folder, settled):
    one = Diarist(gateway, folder, "restarts-one", "task 1")
    wait_until(lambda: gateway.states(one.path)[1] == {"RUNNING", "FAILED"}, 120, "one to fail")
    begun(one, settled, ["1"], only_failed=True, include_tasks=True)
    gateway.delete(one.path)
