"""Previews run beside the engine that moves rows: what they do there harms no connector."""

import os
import signal

import httpx
import pytest

from support.standalone import Standalone
from system.test_gateway import ANY, rest

pytestmark = pytest.mark.timeout(300)

ROWS = {"connector.class": "generator", "rows.per.second": "100", "topic": "t"}


def preview(client: httpx.Client, condition: str) -> httpx.Response:
    config = {"transforms": "f", "transforms.f.type": "Filter", "transforms.f.condition": condition}
    body = {"name": "tried", "config": {**ROWS, **config}, "rows": [{"id": 1}, {"id": 2}]}
    return client.post("/v1/connectors/rehearse", json=body)


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    folder = tmp_path_factory.mktemp("previews")
    with Standalone(folder / "node", {"listeners": ANY}, moving=ROWS) as node:
        node.wait_for(lambda: node.written("moving"), "rows of the connector")
        yield node


@pytest.fixture(scope="module")
def moving(node):
    """The JVM of the engine that moves rows: the only one before the first preview."""
    (engine,) = engines(node)
    return {engine}


def engines(node):
    """JVMs below the node: of the engine that moves rows, and of previews."""
    return {p.pid for p in node.process.process_tree() if p.program == "java"}


def children(node):
    """Processes of previews."""
    module = "penstock.worker.admin.preview_server"
    return [p for p in node.process.process_tree() if module in p.command]


def test_a_preview_has_a_jvm_of_its_own_whose_end_harms_nobody(node, moving):
    with rest(node.process) as client:
        assert preview(client, "id > 1").json()["rows"] == [{"id": 2}]
        (own,) = engines(node) - moving
        os.kill(own, signal.SIGKILL)
        node.wait_for(lambda: not children(node), "the end of its process")
        before = node.written("moving")
        assert preview(client, "id < 2").json()["rows"] == [{"id": 1}]
        node.wait_for(lambda: node.written("moving") > before, "more rows of the connector")
    assert moving <= engines(node)


def test_previews_of_one_row_that_takes_everything_leave_the_connector_alone(node, moving):
    """What the guard lets through: each step doubles a text."""
    doubled = "length(aggregate(sequence(1, 31), cast(id AS string), (a, x) -> concat(a, a))) > 1"
    with rest(node.process) as client:
        answer = preview(client, doubled)
        assert answer.status_code >= 400
        assert answer.json()["code"] in {
            "engine.out_of_memory",
            "preview.lost",
            "transform.bad_row",
        }
        before = node.written("moving")
        node.wait_for(lambda: node.written("moving") > before, "more rows of the connector")
        assert preview(client, "id > 1").json()["rows"] == [{"id": 2}]
    assert moving <= engines(node)
