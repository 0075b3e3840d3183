"""What a gateway's keys say of what is answered where: `admin.listeners`, `topic.tracking.…`."""

from __future__ import annotations

import httpx
import pytest

from penstock.cluster.settings import instance_settings
from penstock.gateway.access.guard import Guard
from penstock.gateway.app import build_app
from penstock.gateway.http_server import serve
from penstock.gateway.listeners import listeners_from_settings
from penstock.gateway.routes.connectors import connector_rules_from_settings
from penstock.model.errors import ConfigError

FREE = "http://127.0.0.1:0"
ADMIN = ("/admin/loggers", "/admin/loggers/root", "/admin/loggers/", "/%61dmin/loggers")
REST = ("/", "/health", "/connectors", "/connector-plugins", "/metrics", "/v1/cluster")


@pytest.fixture
def answered(gateway):
    """Answer as a gateway with these keys does; returns a client for each of its URLs."""
    entered, clients = [], []

    def answer(**keys):
        values = instance_settings("gateway", {"listeners": FREE, **keys}, {}).values
        wanted = listeners_from_settings(values)
        app = build_app(gateway.clients, "tests", Guard(), connector_rules_from_settings(values))
        entered.append(serve(app, wanted))
        urls = gateway.run(entered[-1].__aenter__)
        clients.extend(httpx.Client(base_url=url, timeout=60) for url in urls)
        return clients[-len(urls) :]

    yield answer
    for client in clients:
        client.close()
    for one in entered:
        gateway.run(lambda one=one: one.__aexit__(None, None, None))


def statuses(client, paths):
    return {client.get(path).status_code for path in paths}


def test_unset_they_are_where_the_rest_is(answered):
    (rest,) = answered()
    assert statuses(rest, ADMIN + REST) == {200}


@pytest.mark.parametrize("said", ["", "none"])
def test_empty_they_are_nowhere(answered, said):
    (rest,) = answered(**{"admin.listeners": said})
    assert (statuses(rest, ADMIN), statuses(rest, REST)) == ({404}, {200})
    answer = rest.put("/admin/loggers/penstock.x", json={"level": "INFO"})
    assert (answer.status_code, answer.json()["code"]) == (404, "http.other_listener")
    assert "admin.listeners" in answer.json()["fix"]


def test_listed_they_are_there_and_nowhere_else(answered):
    rest, *admins = answered(**{"admin.listeners": f"{FREE},{FREE}"})
    assert len(admins) == 2
    assert (statuses(rest, ADMIN), statuses(rest, REST)) == ({404}, {200})
    for admin in admins:
        assert (statuses(admin, ADMIN), statuses(admin, REST)) == ({200}, {404})
        level = admin.put("/admin/loggers/penstock.x", json={"level": "INFO"})
        assert level.status_code == 200
        assert admin.delete("/connectors/none").json()["code"] == "http.other_listener"


def test_two_cannot_be_one(answered):
    (rest,) = answered()
    with pytest.raises(ConfigError) as caught:
        answered(**{"admin.listeners": str(rest.base_url).rstrip("/")})
    found = caught.value.diagnostic
    assert (found.code, found.config_path) == ("rpc.address_in_use", "admin.listeners")


@pytest.mark.parametrize(
    ("keys", "of_get", "of_reset"),
    [
        ({}, 404, 404),
        ({"topic.tracking.allow.reset": "false"}, 404, "Topic tracking reset is disabled."),
        ({"topic.tracking.enable": "false"}, *["Topic tracking is disabled."] * 2),
    ],
)
def test_topics_are_told_and_forgotten_where_that_is_allowed(answered, keys, of_get, of_reset):
    (rest,) = answered(**keys)
    get, reset = rest.get("/connectors/c/topics"), rest.put("/connectors/c/topics/reset")
    for answer, wanted in ((get, of_get), (reset, of_reset)):
        if wanted == 404:
            assert answer.status_code == 404
            continue
        assert (answer.status_code, answer.json()["error_code"]) == (403, 403)
        assert answer.json()["message"].startswith(wanted)
