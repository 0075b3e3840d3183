"""DELETE with `offsets=keep`: the next connector of the name goes on, as with Kafka Connect."""

from __future__ import annotations

import httpx
import pytest

from penstock.cluster.settings import instance_settings
from penstock.gateway.access.guard import Guard
from penstock.gateway.app import build_app
from penstock.gateway.http_server import serve
from penstock.gateway.listeners import Listener
from penstock.gateway.routes.connectors import connector_rules_from_settings
from penstock_kit.testing import wait_until

LINES = ["one", "two", "three"]


@pytest.fixture
def source(gateway, tmp_path):
    """A source that has read two lines; its offsets and its file."""
    file = tmp_path / "in.txt"
    file.write_text("one\ntwo\n")
    path = f"/connectors/kept-{tmp_path.name}"
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": tmp_path.name}
    create = {"name": path.rpartition("/")[2], "config": config}

    def make(state="RUNNING"):
        answer = gateway.post("/connectors", json={**create, "initial_state": state})
        assert answer.status_code == 201
        return path

    make()
    wait_until(lambda: position(gateway, path) == 8, 120, "both lines")
    yield path, make, file
    gateway.delete(path)
    gateway.delete(f"/v1/kept-offsets/{create['name']}")


def offsets(gateway, path):
    return gateway.get(f"{path}/offsets").json()["offsets"]


def position(gateway, path):
    found = offsets(gateway, path)
    return found[0]["offset"].get("position") if found else None


def kept(gateway):
    return [one["name"] for one in gateway.get("/v1/kept-offsets").json()["kept"]]


def test_a_namesake_goes_on_from_kept_offsets(gateway, source, tmp_path):
    path, make, file = source
    before = offsets(gateway, path)
    assert gateway.delete(f"{path}?offsets=keep").status_code == 204
    assert gateway.get(path).status_code == 404
    assert gateway.get(f"{path}/status").status_code == 404
    name = path.rpartition("/")[2]
    assert name in kept(gateway)
    (listed,) = [
        one for one in gateway.get("/v1/kept-offsets").json()["kept"] if one["name"] == name
    ]
    assert (listed["kind"], listed["connector_class"]) == ("source", "FileStreamSource")
    make()
    assert offsets(gateway, path) == before
    assert name not in kept(gateway)
    with file.open("a") as more:
        more.write("three\n")
    wait_until(lambda: position(gateway, path) == 14, 120, "the third line")
    # every line once: what the topic has is what a sink of it writes
    sink = f"/connectors/sink-{name}"
    out = tmp_path / "out"
    config = {"connector.class": "FileStreamSink", "file": str(out), "topics": tmp_path.name}
    gateway.create(sink.rpartition("/")[2], "RUNNING", **config)
    try:
        wait_until(lambda: out.exists() and "three" in out.read_text(), 120, "the lines")
        assert out.read_text().splitlines() == LINES
    finally:
        gateway.delete(sink)


def test_a_deletion_at_once_after_a_namesake_was_created_loses_nothing(gateway, source):
    """The scheduler may see none of it: it is the same connector with another configuration."""
    path, make, file = source
    for _ in range(3):
        assert gateway.delete(f"{path}?offsets=keep").status_code == 204
        make()
    with file.open("a") as more:
        more.write("three\n")
    wait_until(lambda: position(gateway, path) == 14, 120, "the third line")
    gateway.until(path, "RUNNING")


def test_a_plain_deletion_lets_a_namesake_begin_anew(gateway, source):
    path, make, _ = source
    assert gateway.delete(path).status_code == 204
    assert path.rpartition("/")[2] not in kept(gateway)
    make("STOPPED")
    assert offsets(gateway, path) == []


def test_purged_offsets_are_not_taken_up(gateway, source):
    path, _, _ = source
    name = path.rpartition("/")[2]
    gateway.put(f"{path}/stop")
    assert gateway.delete(f"{path}?offsets=keep").status_code == 204
    assert gateway.delete(f"/v1/kept-offsets/{name}").status_code == 204
    answer = gateway.delete(f"/v1/kept-offsets/{name}")
    assert (answer.status_code, answer.json()["code"]) == (404, "config.nothing_kept")
    state = {"initial_state": "STOPPED"}
    config = {"connector.class": "verifiable-source", "topic": "t"}
    made = gateway.post("/connectors", json={"name": name, "config": config, **state})
    assert made.status_code == 201
    assert offsets(gateway, path) == []


def test_a_connector_of_another_kind_does_not_take_them_up(gateway, source, tmp_path):
    path, _, _ = source
    assert gateway.delete(f"{path}?offsets=keep").status_code == 204
    config = {"connector.class": "FileStreamSink", "file": str(tmp_path / "o"), "topics": "t"}
    answer = gateway.put(f"{path}/config", json=config)
    assert (answer.status_code, answer.json()["code"]) == (400, "config.kept_kind")


def test_offsets_of_a_kept_connector_cannot_be_altered(gateway, source):
    path, _, _ = source
    assert gateway.delete(f"{path}?offsets=keep").status_code == 204
    assert gateway.get(f"{path}/offsets").status_code == 404
    assert gateway.delete(f"{path}/offsets").status_code == 404


def test_a_gateway_that_deletes_as_kafka_connect_keeps_them(gateway, source):
    path, make, _ = source
    before = offsets(gateway, path)

    async def delete():
        values = instance_settings("gateway", {"delete.keeps.offsets": "true"}, {}).values
        rules = connector_rules_from_settings(values)
        app = build_app(gateway.clients, "tests", Guard(), rules)
        async with (
            serve(app, [Listener("127.0.0.1:0")]) as (url,),
            httpx.AsyncClient(base_url=url) as client,
        ):
            return (await client.delete(path)).status_code

    assert gateway.run(delete) == 204
    make()
    assert offsets(gateway, path) == before
