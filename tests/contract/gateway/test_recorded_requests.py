"""Requests as clients of Kafka Connect send them in bulk or in a hurry, and what each costs.

Kafbat asks for the topics of every connector of a list, AKHQ validates a configuration of every
plugin when a page opens: what an answer takes is shown by the calls that are made for it.
"""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.client.service_client import ServiceClient
from penstock.plugin.process.connection import Connection
from penstock_kit.testing import wait_until
from support.gateway import READY

OF_TESTS = ("moody", "mute", "picky")
VERIFIABLE = {"connector.class": "verifiable-source", "rows": "10", "topic": "rows"}


BACKGROUND = {"plugin.apply", "plugin.shutdown", "worker.apply"}
"""What is called for other connectors meanwhile: those of earlier tests are removed."""


@pytest.fixture
def calls(monkeypatch):
    """The names of the calls that the services get from now on, and those that plugins get."""
    of_services, of_plugins = [], []
    call_service, call_plugin = ServiceClient._call, Connection.call

    def counted_service(self, stage, *arguments, **more):
        of_services.append(stage)
        return call_service(self, stage, *arguments, **more)

    def counted_plugin(self, stage, *arguments, **more):
        of_plugins.append(stage)
        return call_plugin(self, stage, *arguments, **more)

    monkeypatch.setattr(ServiceClient, "_call", counted_service)
    monkeypatch.setattr(Connection, "call", counted_plugin)
    return of_services, of_plugins


def test_kafbats_list_costs_one_call_for_the_topics_of_a_connector(gateway, made, calls):
    names = [made().rpartition("/")[2] for _ in range(5)]
    of_services, of_plugins = calls
    of_services.clear()
    listed = gateway.get("/connectors?expand=info&expand=status").json()
    assert set(names) <= listed.keys()
    for name in names:
        assert gateway.get(f"/connectors/{name}/topics").json() == {name: {"topics": []}}
    asked = Counter(of_services)  # the scheduler's, too: it lists connectors that are new
    assert (asked["config.topics"], asked["config.get"]) == (len(names), 0)
    assert of_plugins.count("plugin.validate") == len(names), "when they were made, not since"


def test_akhqs_page_costs_each_plugin_a_look_at_the_keys_and_no_connection(gateway, calls):
    """Its body has nothing but the class, and a topic: every plugin that there is must answer."""
    of_services, of_plugins = calls
    listed = [one["class"] for one in gateway.get("/connector-plugins").json()]
    classes = [name for name in listed if not name.startswith(OF_TESTS)]
    for turn in ("starts plugins", "finds them started"):
        for name in classes:
            of_services.clear(), of_plugins.clear()
            answer = gateway.put(
                f"/connector-plugins/{name}/config/validate",
                {"connector.class": name, "topics": "getPlugins"},
            )
            assert answer.status_code == 200, (name, answer.text)
            assert {one["value"]["name"] for one in answer.json()["configs"]} > {
                "name",
                "tasks.max",
            }
            if turn == "starts plugins":
                continue
            # a second look where keys that it does not have are left out for the first one
            looks = [stage for stage in of_plugins if stage not in BACKGROUND]
            assert set(looks) == {"plugin.validate"}, name
            assert len(looks) <= 2, name
            asked = [
                stage
                for stage in of_services
                if stage.startswith("worker.") and stage not in BACKGROUND
            ]
            assert sorted(set(asked)) == ["worker.describe", "worker.validate"], name
            assert len(asked) == 2, name


def test_a_connector_is_there_as_soon_as_it_was_made_and_gone_as_soon_as_it_was_deleted(gateway):
    """Terraform's provider and Strimzi's operator look at once, Terraform's on another gateway."""
    for _ in range(3):
        body = {"name": "hurry", "config": VERIFIABLE}
        assert gateway.post("/connectors", body).status_code == 201
        assert gateway.get("/connectors/hurry").status_code == 200
        assert gateway.get("/connectors/hurry/status").status_code == 200
        assert gateway.get("/connectors/hurry/config").json() == {**VERIFIABLE, "name": "hurry"}
        assert gateway.delete("/connectors/hurry").status_code == 204
        for path in ("", "/status", "/config", "/tasks", "/topics"):
            assert gateway.get(f"/connectors/hurry{path}").status_code == 404
        assert "hurry" not in gateway.get("/connectors?expand=status").json()


def test_the_tasks_of_a_stopped_connector_are_nowhere(gateway, made):
    path = made("", "RUNNING", **VERIFIABLE)
    gateway.until(path, "RUNNING")
    assert len(gateway.get(f"{path}/tasks").json()) == 1
    assert gateway.put(f"{path}/stop").status_code == 204
    gateway.until(path, "STOPPED")
    wait_until(lambda: not gateway.get(path).json()["tasks"], READY, "no task in info")
    assert gateway.get(f"{path}/tasks").json() == []
    assert gateway.get(f"{path}/status").json()["tasks"] == []
    assert gateway.get(f"{path}/tasks/0/status").status_code == 404
