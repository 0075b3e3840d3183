"""Kafka Connect 4.3's REST API, row by row: each route with each status that it is to have.

Bodies and effects are shown by the files beside this one (403 of topics by test_listeners.py); here
nothing is left out but the statuses of the calls between workers, which are gRPC.
"""

from __future__ import annotations

import httpx
import pytest

from penstock.client import ConfigClient, OffsetClient, SchedulerClient
from penstock.gateway.app import build_api
from penstock.gateway.clients import Processes, ServiceClients, Workers
from support.surface import KAFKAS

VERIFIABLE = {"connector.class": "verifiable-source", "rows": "10", "topic": "rows"}
NEW = {"name": "surface-new", "config": VERIFIABLE, "initial_state": "STOPPED"}
TAKEN = {"name": "surface", "config": VERIFIABLE}
WRONG = {"connector.class": "verifiable-source", "rowz": "1"}
NOWHERE = {"offsets": [{"partition": {"partition": 0}, "offset": None}]}

ROWS = (
    ("GET /", None, 200),
    ("GET /health", None, 200),
    ("GET /connectors", None, 200),
    ("GET /connectors?expand=status&expand=info&expand=others", None, 200),
    ("POST /connectors", NEW, 201),
    ("POST /connectors", TAKEN, 409),
    ("POST /connectors", {"name": "x", "config": WRONG}, 400),
    ("POST /connectors", {"config": VERIFIABLE}, 400),
    ("POST /connectors", {**NEW, "initial_state": "UP"}, 400),
    ("GET /connectors/surface", None, 200),
    ("GET /connectors/none", None, 404),
    ("DELETE /connectors/surface", None, 204),
    ("DELETE /connectors/surface?offsets=delete", None, 204),
    ("DELETE /connectors/surface?offsets=some", None, 400),
    ("DELETE /connectors/none", None, 404),
    ("DELETE /connectors/none?offsets=delete", None, 404),
    ("DELETE /connectors/none?offsets=keep", None, 404),
    ("GET /connectors/surface/config", None, 200),
    ("GET /connectors/none/config", None, 404),
    ("PUT /connectors/surface/config", VERIFIABLE, 200),
    ("PUT /connectors/surface-new/config", VERIFIABLE, 201),
    ("PUT /connectors/surface/config", WRONG, 400),
    ("PUT /connectors/surface/config", {**VERIFIABLE, "name": "other"}, 400),
    ("PATCH /connectors/surface/config", {"rows": "7", "topic": None}, 200),
    ("PATCH /connectors/surface/config", {"rowz": "7"}, 400),
    ("PATCH /connectors/none/config", {"rows": "7"}, 404),
    ("GET /connectors/surface/status", None, 200),
    ("GET /connectors/none/status", None, 404),
    ("GET /connectors/surface/tasks", None, 200),
    ("GET /connectors/none/tasks", None, 404),
    ("GET /connectors/surface/tasks/0/status", None, 404),
    ("GET /connectors/none/tasks/0/status", None, 404),
    ("POST /connectors/surface/tasks/0/restart", None, 404),
    ("POST /connectors/none/tasks/0/restart", None, 404),
    ("POST /connectors/surface/restart", None, 204),
    ("POST /connectors/surface/restart?includeTasks=true", None, 202),
    ("POST /connectors/surface/restart?onlyFailed=true", None, 202),
    ("POST /connectors/surface/restart?onlyFailed=some", None, 400),
    ("POST /connectors/none/restart", None, 404),
    ("PUT /connectors/surface/pause", None, 202),
    ("PUT /connectors/none/pause", None, 404),
    ("PUT /connectors/surface/resume", None, 202),
    ("PUT /connectors/none/resume", None, 404),
    ("PUT /connectors/surface/stop", None, 204),
    ("PUT /connectors/none/stop", None, 404),
    ("GET /connectors/surface/offsets", None, 200),
    ("GET /connectors/none/offsets", None, 404),
    ("PATCH /connectors/surface/offsets", NOWHERE, 200),
    ("PATCH /connectors/surface/offsets", {"offsets": []}, 400),
    ("PATCH /connectors/none/offsets", NOWHERE, 404),
    ("DELETE /connectors/surface/offsets", None, 200),
    ("DELETE /connectors/none/offsets", None, 404),
    ("GET /connectors/surface/topics", None, 200),
    ("GET /connectors/none/topics", None, 404),
    ("PUT /connectors/surface/topics/reset", None, 202),
    ("PUT /connectors/none/topics/reset", None, 404),
    ("GET /connector-plugins", None, 200),
    ("GET /connector-plugins?connectorsOnly=false", None, 200),
    ("GET /connector-plugins?connectorsOnly=some", None, 400),
    ("GET /connector-plugins/file-sink/config", None, 200),
    ("GET /connector-plugins/file-sink/config?version=[99,)", None, 404),
    ("GET /connector-plugins/none/config", None, 404),
    ("PUT /connector-plugins/file-sink/config/validate", {"name": "x"}, 200),
    ("PUT /connector-plugins/none/config/validate", {"name": "x"}, 404),
    ("PUT /connector-plugins/file-sink/config/validate", VERIFIABLE, 400),
    ("PUT /connector-plugins/Cast/config/validate", {"name": "x"}, 400),
    ("GET /admin/loggers", None, 200),
    ("GET /admin/loggers/root", None, 200),
    ("PUT /admin/loggers/penstock.surface", {"level": "INFO"}, 200),
    ("PUT /admin/loggers/penstock.surface?scope=worker", {"level": "INFO"}, 200),
    ("PUT /admin/loggers/penstock.surface?scope=cluster", {"level": "INFO"}, 204),
    ("PUT /admin/loggers/penstock.surface", {"level": "LOUD"}, 404),
    ("PUT /admin/loggers/penstock.surface", {}, 400),
)
"""Requests with the status of their answers. `surface` is there, and STOPPED."""


def templated(row):
    """Return the route that a request is for."""
    method, path = row.split(" ")
    parts = path.partition("?")[0].split("/")
    names = {"connectors": "{connector}", "connector-plugins": "{plugin}", "loggers": "{logger}"}
    names["tasks"] = "{task}"
    return f"{method} " + "/".join(
        names.get(before, part) if part else part
        for before, part in zip(["", *parts], parts, strict=False)
    )


def test_no_route_is_left_out():
    assert {templated(row) for row, _, _ in ROWS} == KAFKAS


@pytest.mark.parametrize(("row", "body", "status"), ROWS, ids=lambda one: str(one)[:60])
def test_each_route_has_each_status(gateway, made, row, body, status):
    if "/surface" in row or body is TAKEN:
        made("surface")
    method, path = row.split(" ")
    content = {} if body is None else {"json": body}
    answer = gateway.client.request(method, path, **content)
    if status == 201:
        gateway.delete("/connectors/surface-new")
    assert answer.status_code == status, answer.text
    if status >= 400:
        found = answer.json()
        assert (found["error_code"], bool(found["message"])) == (status, True)
        assert found["code"]
    elif status == 204:
        assert answer.content == b""


def test_offsets_of_what_may_run_are_not_deleted(gateway, made):
    path = made("", "PAUSED")
    answer = gateway.delete(f"{path}?offsets=delete")
    assert (answer.status_code, answer.json()["code"]) == (400, "offset.not_stopped")
    assert gateway.get(path).status_code == 200


def test_offsets_of_an_older_revision_are_not_deleted(gateway, made):
    path = made()
    old = gateway.get(path).headers["etag"]
    gateway.put(f"{path}/config", {**VERIFIABLE, "rows": "11"})
    answer = gateway.delete(f"{path}?offsets=delete", headers={"If-Match": old})
    assert (answer.status_code, answer.json()["code"]) == (409, "config.revision_changed")


def test_health_is_starting_before_and_unhealthy_after_it_was_healthy(gateway):
    async def asked():
        nobody = "unix:/nobody/is/here"
        clients = ConfigClient(nobody, 0.5), OffsetClient(nobody, 0.5), SchedulerClient(nobody, 0.5)
        away = ServiceClients(*clients, Workers(clients[2]), Processes(dict))
        app = build_api(away, "tests")
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            answers = []
            for services in (away, gateway.clients, away):
                app.state.clients = services
                answer = await client.get("/health")
                answers.append((answer.status_code, answer.json()["status"]))
        for one in (*clients, away.workers):
            await one.close()
        return answers

    wanted = [(503, "starting"), (200, "healthy"), (500, "unhealthy")]
    assert gateway.run(asked) == wanted
