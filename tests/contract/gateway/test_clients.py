"""Known clients of Kafka Connect's REST API run unchanged: in Python, Go and Node.

Each does the whole life of a connector, and has its own kind of error for what is refused.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator

import pytest
from kafka_connect_api.errors import ConnectApiException, GenericConflict, GenericNotFound
from kafka_connect_api.kafka_connect_api import Api, Cluster, Connector

from penstock_kit.testing import wait_until
from support.connect_clients import KNOWN, Client, Refused, opened
from support.foreign import BUILT
from support.gateway import READY, Gateway

pytestmark = pytest.mark.timeout(BUILT)

VERIFIABLE = {"connector.class": "verifiable-source", "rows": "10", "topic": "rows"}
NUMBERS = itertools.count(1)
ERRORS = {
    "kafka-connect-py": "HTTPError",
    "go-kafka/connect": "connect.APIError",
    "kafka-connect-client": "AxiosError",
}


@pytest.fixture(scope="session")
def clients(
    gateway: Gateway, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Client]]:
    """Open clients, each once."""
    with contextlib.ExitStack() as stack:
        open_ = {}

        def client(name: str) -> Client:
            if name not in open_:
                folder = tmp_path_factory.mktemp("client")
                open_[name] = stack.enter_context(opened(name, gateway.address, folder))
            return open_[name]

        yield client


@pytest.fixture
def client(clients: Callable[[str], Client], request: pytest.FixtureRequest) -> Client:
    """The client that a test is about."""
    return clients(request.param)


@pytest.fixture
def name(gateway: Gateway) -> Iterator[str]:
    """A name for a connector, which goes with the test."""
    name = f"client {next(NUMBERS)}"
    yield name
    gateway.delete(f"/connectors/{name}")


def whoever_knows(*calls: str) -> pytest.MarkDecorator:
    """Have a test run for each client that has these calls."""
    names = [name for name, known in KNOWN.items() if known.issuperset(calls)]
    assert names, calls
    return pytest.mark.parametrize("client", names, indirect=True)


def until(client: Client, name: str, state: str) -> None:
    """Wait until a client sees a connector and its tasks, if it has some then, in a state."""

    def there() -> bool:
        status = client.call("status", name=name)
        tasks = {task["state"] for task in status["tasks"]}
        wanted = set() if state == "STOPPED" else {state}
        return status["connector"]["state"] == state and tasks == wanted

    wait_until(there, READY, f"{name} to be {state}")


@whoever_knows()
def test_a_client_sees_a_connector_through_its_life(client, name):
    made = client.call("create", name=name, config=VERIFIABLE)
    assert made["name"] == name
    assert made["config"] == {**VERIFIABLE, "name": name}
    assert name in client.call("names")
    until(client, name, "RUNNING")
    assert client.call("info", name=name)["tasks"] == [{"connector": name, "task": 0}]
    assert client.call("config", name=name) == made["config"]
    (task,) = client.call("tasks", name=name)
    assert task["id"] == {"connector": name, "task": 0}
    changed = client.call("update", name=name, config={**VERIFIABLE, "rows": "20"})
    assert changed["config"]["rows"] == "20"
    client.call("pause", name=name)
    until(client, name, "PAUSED")
    client.call("resume", name=name)
    until(client, name, "RUNNING")
    client.call("restart", name=name)
    until(client, name, "RUNNING")
    client.call("delete", name=name)
    assert name not in client.call("names")


@whoever_knows()
@pytest.mark.parametrize(
    "call", ["info", "config", "status", "tasks", "delete", "pause", "restart"]
)
def test_what_is_not_there_is_a_clients_own_404(client, call, request):
    with pytest.raises(Refused) as refused:
        client.call(call, name="nobody")
    assert (refused.value.kind, refused.value.status) == (kind(request), 404)
    assert "nobody" in refused.value.message


@whoever_knows()
def test_a_name_that_is_taken_is_a_clients_own_409(client, name, gateway, request):
    gateway.create(name)
    with pytest.raises(Refused) as refused:
        client.call("create", name=name, config=VERIFIABLE)
    assert (refused.value.kind, refused.value.status) == (kind(request), 409)


@whoever_knows()
@pytest.mark.parametrize("call", ["create", "update"])
def test_a_wrong_configuration_is_a_clients_own_400(client, name, call, request):
    with pytest.raises(Refused) as refused:
        client.call(call, name=name, config={**VERIFIABLE, "rows": "many"})
    assert (refused.value.kind, refused.value.status) == (kind(request), 400)
    assert "rows" in refused.value.message
    assert name not in client.call("names")


@whoever_knows("plugins", "validate", "cluster", "expanded")
def test_a_client_lists_and_validates(client, name, gateway):
    assert set(client.call("cluster")) == {"version", "commit", "kafka_cluster_id"}
    assert "verifiable-source" in {one["class"] for one in client.call("plugins")}
    config = {"name": name, **VERIFIABLE}
    right = client.call("validate", name="verifiable-source", config=config)
    assert right["error_count"] == 0
    wrong = client.call("validate", name="verifiable-source", config={**config, "rows": "many"})
    assert [one["value"]["name"] for one in wrong["configs"] if one["value"]["errors"]] == ["rows"]
    gateway.create(name)
    until(client, name, "STOPPED")
    assert client.call("expanded")[name]["status"]["connector"]["state"] == "STOPPED"


@whoever_knows("task status", "restart task")
def test_a_client_restarts_a_task(client, name):
    client.call("create", name=name, config=VERIFIABLE)
    until(client, name, "RUNNING")
    assert client.call("task status", name=name, task=0)["state"] == "RUNNING"
    client.call("restart task", name=name, task=0)
    until(client, name, "RUNNING")
    with pytest.raises(Refused) as refused:
        client.call("restart task", name=name, task=9)
    assert refused.value.status == 404


@whoever_knows("restart with tasks")
def test_a_client_restarts_a_connector_with_its_tasks(client, name):
    """The client writes `includeTasks=True`, as Python does."""
    client.call("create", name=name, config=VERIFIABLE)
    until(client, name, "RUNNING")
    answer = client.call("restart with tasks", name=name)
    assert [task["state"] for task in answer["tasks"]] == ["RESTARTING"]
    until(client, name, "RUNNING")


@whoever_knows("topics", "reset topics")
def test_a_client_reads_topics(client, name):
    client.call("create", name=name, config=VERIFIABLE)

    def topics() -> list[str]:
        return client.call("topics", name=name)[name]["topics"]

    wait_until(lambda: topics() == ["rows"], READY, "the topic")
    client.call("stop", name=name)
    until(client, name, "STOPPED")
    client.call("reset topics", name=name)
    assert topics() == []


@whoever_knows("stop", "offsets", "alter offsets", "reset offsets")
def test_a_client_moves_offsets(client, name):
    client.call("create", name=name, config=VERIFIABLE)
    wait_until(lambda: client.call("offsets", name=name)["offsets"], READY, "an offset")
    with pytest.raises(Refused) as refused:
        client.call("reset offsets", name=name)
    assert refused.value.status == 400
    client.call("stop", name=name)
    until(client, name, "STOPPED")
    found = client.call("offsets", name=name)["offsets"]
    assert found
    client.call("alter offsets", name=name, offsets=[{**found[0], "offset": None}])
    assert len(client.call("offsets", name=name)["offsets"]) == len(found) - 1
    client.call("reset offsets", name=name)
    assert client.call("offsets", name=name)["offsets"] == []


def test_kafka_connect_api_has_objects_that_work(gateway, name):
    """The other client of Python: objects instead of calls, an error for each status."""
    host, _, port = gateway.address.partition(":")
    cluster = Cluster(Api(host, port=port))
    assert cluster.kafka_cluster == "tests"
    connector = Connector(cluster, name)
    connector.config = VERIFIABLE
    assert connector.exists()
    wait_until(lambda: connector.state == "RUNNING" and connector.tasks, READY, "it to run")
    assert cluster.connectors[name].connector_class == "verifiable-source"
    assert connector.config["rows"] == "10"
    (task,) = connector.tasks
    wait_until(task.is_running, READY, "the task to run")
    connector.cycle_connector()
    connector.restart()
    wait_until(task.is_running, READY, "the task to run again")
    connector.delete()
    assert name not in cluster.connectors


def test_kafka_connect_api_has_an_error_for_each_status(gateway, name):
    host, _, port = gateway.address.partition(":")
    cluster = Cluster(Api(host, port=port))
    with pytest.raises(GenericNotFound):
        _ = Connector(cluster, name).state
    gateway.create(name)
    with pytest.raises(GenericConflict):
        cluster.api.post("/connectors", json={"name": name, "config": VERIFIABLE})
    with pytest.raises(ConnectApiException) as refused:
        cluster.api.post("/connectors", json={"name": "wrong", "config": {"rows": "1"}})
    assert refused.value.code == 400


def test_kafka_connect_api_sets_levels(gateway):
    host, _, port = gateway.address.partition(":")
    cluster = Cluster(Api(host, port=port))
    before = cluster.root_logger["level"]
    cluster.root_logger = "ERROR"
    assert cluster.root_logger["level"] == "ERROR"
    cluster.set_logger_log_level("root", before)


def kind(request: pytest.FixtureRequest) -> str:
    """The client's own error."""
    return ERRORS[request.node.callspec.params["client"]]
