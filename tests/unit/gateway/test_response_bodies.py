"""What Kafka Connect's REST API shows."""

from dataclasses import replace

import pytest

from penstock.gateway.configs import REDACTED_VIEW, ConfigView
from penstock.gateway.routes import bodies
from penstock.gateway.routes.connectors import mark_restarting
from penstock.model.connector import (
    Connector,
    ConnectorKind,
    Partition,
    TargetState,
    TaskPlan,
)
from penstock.model.errors import Diagnostic
from penstock.model.status import ConnectorStatus, RunState, RunStatus

ORDERS = Connector("orders", {"a": "1"}, ConnectorKind.SINK, generation="g")


def status(*states, own=RunState.RUNNING):
    tasks = tuple(RunStatus(f"g-{n}", state, f"w{n}") for n, state in enumerate(states))
    return ConnectorStatus("orders", "g", ConnectorKind.SINK, own, "w0", tasks=tasks)


def state(found):
    return bodies.ConnectorState.of(ORDERS, found).to_json()


def test_a_connector_and_its_tasks():
    shown = state(status(RunState.RUNNING, RunState.FAILED))
    assert shown == {
        "name": "orders",
        "connector": {"state": "RUNNING", "worker_id": "w0"},
        "tasks": [
            {"id": 0, "state": "RUNNING", "worker_id": "w0"},
            {"id": 1, "state": "FAILED", "worker_id": "w1"},
        ],
        "type": "sink",
    }


def test_without_a_status_nobody_has_begun():
    shown = state(None)
    assert shown["connector"] == {"state": "UNASSIGNED", "worker_id": ""}
    assert shown["tasks"] == []


def test_why_something_failed_is_its_trace():
    task = RunStatus(
        "g-0", RunState.FAILED, diagnostic=Diagnostic("a.b", "it broke", detail="at x")
    )
    assert bodies.TaskState.of(task).trace == "[a.b] it broke\nat x"


@pytest.mark.parametrize("state", RunState)
def test_every_state_is_one_of_kafkas(state):
    """Kafbat's clients fail on another word; only a connector is STOPPED."""
    known = {"UNASSIGNED", "RUNNING", "PAUSED", "FAILED", "RESTARTING"}
    shown = bodies.ConnectorState.of(ORDERS, status(state, own=state))
    assert shown.tasks[0].state in known
    assert shown.connector.state in {*known, "STOPPED"}
    for target in TargetState:
        assert bodies.TaskState.of(RunStatus("g-0", state), target).state in known


@pytest.mark.parametrize("kind", ConnectorKind)
def test_every_kind_is_one_of_kafkas(kind):
    shown = bodies.ConnectorInfo.of(Connector("a", {}, kind), status(RunState.RUNNING)).to_json()
    assert shown["type"] in {"source", "sink", "unknown"}
    assert shown["tasks"] == [{"connector": "a", "task": 0}]


@pytest.mark.parametrize(
    ("include_tasks", "only_failed", "connector", "tasks"),
    [
        (False, False, "RESTARTING", ["RUNNING", "FAILED"]),
        (True, False, "RESTARTING", ["RESTARTING", "RESTARTING"]),
        (True, True, "RUNNING", ["RUNNING", "RESTARTING"]),
        (False, True, "RUNNING", ["RUNNING", "FAILED"]),
    ],
)
def test_what_restarts(include_tasks, only_failed, connector, tasks):
    now = status(RunState.RUNNING, RunState.FAILED)
    soon = mark_restarting(now, include_tasks=include_tasks, only_failed=only_failed)
    shown = state(soon)
    assert shown["connector"]["state"] == connector
    assert [task["state"] for task in shown["tasks"]] == tasks


def test_a_task_shows_its_first_partitions():
    plan = TaskPlan("g-0", tuple(Partition({"n": n}) for n in range(1000)), {"password": "canary"})
    shown = bodies.Task.of(ORDERS, 0, plan).to_json()
    assert shown["id"] == {"connector": "orders", "task": 0}
    assert shown["config"]["partitions"].count('"n"') == bodies.MAX_PARTITIONS
    assert "canary" not in str(shown)


@pytest.mark.parametrize(("written", "shown"), [("canary", "canary"), ("${env:PW}", "***")])
def test_a_task_shows_a_secret_as_it_was_written_and_never_what_a_reference_means(written, shown):
    """A plugin gets what the reference means, and may give all of it to its tasks."""
    plan = TaskPlan("g-0", (), {"password": "canary"})
    connector = replace(ORDERS, config={**ORDERS.config, "password": written})
    task = bodies.Task.of(connector, 0, plan, ConfigView({"orders"})).to_json()
    assert task["config"]["password"] == shown


def test_a_namesakes_status_is_not_shown():
    found = bodies.ListedConnectors.expanded(
        [ORDERS], {"another": status()}, ["status"], REDACTED_VIEW
    )
    found = found.to_json()
    assert found["orders"]["status"]["connector"]["state"] == "UNASSIGNED"
    assert "info" not in found["orders"]
