"""`access.show.secrets`: those who may edit a connector read its secrets as they were written, as
Kafka Connect shows them to everyone. Terraform's provider compares them; Strimzi's operator, too.
"""

from __future__ import annotations

import httpx
import pytest

from penstock.gateway.access import passwords
from penstock.gateway.access.guard import Guard
from penstock.gateway.access.users import Principal, User, parse_grants
from penstock.gateway.app import build_app
from penstock.gateway.http_server import serve
from penstock.gateway.listeners import Listener, ListenerScope
from support.people import GRANTS

CANARY = "canary-52b1"
LISTENERS = [Listener("127.0.0.1:0"), Listener("127.0.0.1:0", scope=ListenerScope.ROCKETMQ)]


@pytest.fixture(scope="module")
def shows(gateway):
    """A gateway that shows secrets; returns a function that opens a client of a person."""
    users = {
        name: User(Principal(name, parse_grants(may)), passwords.hash_password(name))
        for name, may in GRANTS.items()
    }
    app = build_app(gateway.clients, "tests", Guard(users, shows_secrets=True))
    entered = serve(app, LISTENERS)
    urls = gateway.run(entered.__aenter__)

    def client(name, listener=0):
        return httpx.Client(base_url=urls[listener], auth=(name, name), timeout=60)

    yield client
    gateway.run(lambda: entered.__aexit__(None, None, None))


@pytest.fixture
def stamped(gateway, tmp_path):
    """Two connectors with a key that only their plugin declares as a secret; returns their
    configuration.
    """
    config = {
        "source.connector.class": "verifiable-source",
        "sink.connector.class": "picky-sink",
        "sink.file": str(tmp_path / "out"),
        "sink.stamp": CANARY,
    }
    for name in ("orders-s", "bills-s"):
        body = {"name": name, "config": config, "initial_state": "STOPPED"}
        assert gateway.post("/connectors", body).status_code == 201
    yield config
    for name in ("orders-s", "bills-s"):
        gateway.delete(f"/connectors/{name}")


def test_who_edits_a_connector_reads_exactly_what_was_put(shows, stamped):
    """Terraform's provider waits until the configuration is what it sent, and at most `name`."""
    changed = {**stamped, "sink.stamp": f"{CANARY}-2"}
    with shows("edda") as edda:
        answer = edda.put("/connectors/orders-s/config", json=changed)
        assert answer.json()["config"] == {**changed, "name": "orders-s"}
        assert edda.get("/connectors/orders-s/config").json() == {**changed, "name": "orders-s"}
        assert edda.get("/connectors/orders-s").json()["config"]["sink.stamp"] == f"{CANARY}-2"
        listed = edda.get("/connectors?expand=info").json()
        assert listed["orders-s"]["info"]["config"]["sink.stamp"] == f"{CANARY}-2"
        patched = edda.patch("/connectors/orders-s/config", json={"sink.stamp": CANARY})
        assert patched.json()["config"]["sink.stamp"] == CANARY
        body = {"name": "orders-n", "config": stamped, "initial_state": "STOPPED"}
        assert edda.post("/connectors", json=body).json()["config"]["sink.stamp"] == CANARY
        assert edda.delete("/connectors/orders-n").status_code == 204


@pytest.mark.parametrize(
    ("name", "connector"), [("vera", "orders-s"), ("otto", "orders-s"), ("edda", "bills-s")]
)
def test_who_only_reads_or_operates_it_does_not(shows, gateway, stamped, name, connector):
    with shows(name) as client, shows(name, 1) as theirs:
        for answer in (
            client.get(f"/connectors/{connector}"),
            client.get(f"/connectors/{connector}/config"),
            client.get(f"/connectors/{connector}/tasks"),
            theirs.get(f"/connectors/{connector}/config"),
        ):
            assert CANARY not in answer.text, answer.url
        for answer in (
            client.get("/connectors?expand=info"),
            client.get("/allocated/connectors"),
            theirs.get("/connectors/list"),
        ):
            others = [text for text in answer.text.split('"name"') if connector in text]
            assert CANARY not in "".join(others), answer.url


def test_rocketmq_connects_routes_show_them_too(shows, gateway, stamped):
    gateway.put("/connectors/orders-s/resume")
    gateway.until("/connectors/orders-s", "RUNNING")
    with shows("edda") as edda, shows("edda", 1) as theirs:
        for answer in (
            edda.get("/allocated/connectors"),
            edda.get("/allocated/tasks"),
            theirs.get("/connectors/list"),
            theirs.get("/connectors/orders-s/config"),
            theirs.post("/connectors/orders-s", json=stamped),
        ):
            assert answer.is_success, answer.text
            assert CANARY in answer.text, answer.url


def test_what_only_penstock_has_shows_none(shows, stamped):
    with shows("edda") as edda:
        for path in ("/v1/connectors/orders-s", "/v1/connectors/orders-s/revisions/1"):
            answer = edda.get(path)
            assert answer.is_success
            assert CANARY not in answer.text, path


def test_stars_that_come_back_still_mean_the_secret(shows, gateway, stamped):
    with shows("edda") as edda:
        edda.put("/connectors/orders-s/config", json={**stamped, "sink.stamp": "***"})
    stored = gateway.run(lambda: gateway.clients.config.get("orders-s"))
    assert stored.config["sink.stamp"] == CANARY
