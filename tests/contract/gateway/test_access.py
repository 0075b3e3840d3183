"""Who may do what, by name and password; and a line for each change."""

from __future__ import annotations

import asyncio
import base64
import json
import logging

import httpx
import pytest

from penstock.gateway.access import passwords
from penstock.gateway.access.guard import Guard, RateLimit, guard_from_settings
from penstock.gateway.access.users import Principal, User, parse_grants
from penstock.gateway.app import build_app
from penstock.gateway.http_server import serve
from penstock.gateway.listeners import Listener
from penstock.gateway.settings import KEYS
from penstock.model.config_def import parse
from penstock.model.errors import PenstockError

VERIFIABLE = {"connector.class": "verifiable-source", "rows": "10", "topic": "rows"}


def test_who_does_not_say_who_it_is_is_asked(who):
    for client in (who(), who("vera", "wrong"), who("nobody"), who("vera", "vera's password ")):
        answer = client.get("/connectors")
        assert (answer.status_code, answer.json()["code"]) == (401, "access.unauthenticated")
        assert answer.headers["www-authenticate"].startswith("Basic")
    assert who().get("/health").status_code == 200


def test_who_guesses_or_floods_is_told_to_wait(gateway):
    users = {
        "adam": User(Principal("adam", parse_grants(["admin"])), passwords.hash_password("right"))
    }
    asked = Guard(users, requests=RateLimit(0.5), mistakes=RateLimit(0.2))
    entered = serve(build_app(gateway.clients, "tests", asked), [Listener("127.0.0.1:0")])
    (url,) = gateway.run(entered.__aenter__)
    try:
        with httpx.Client(base_url=url, timeout=60) as client:
            guesses = [client.get("/", auth=("adam", f"guess {n}")) for n in range(4)]
            assert [answer.status_code for answer in guesses] == [401, 401, 429, 429]
            assert int(guesses[-1].headers["retry-after"]) >= 1
            assert guesses[-1].json()["code"] == "http.too_many"
            known = asyncio.run(
                asked._by_password(users, basic("adam", "right"), "another address")
            )
            assert known.name == "adam"
            floods = [client.get("/", auth=("adam", "right")).status_code for _ in range(7)]
            assert floods == [200] * 5 + [429] * 2
    finally:
        gateway.run(lambda: entered.__aexit__(None, None, None))


def basic(name, password):
    return base64.b64encode(f"{name}:{password}".encode()).decode()


@pytest.mark.parametrize("header", ["", "Basic", "Basic !", "Basic YQ==", "Bearer x", "Digest a=b"])
def test_a_header_that_says_nothing_is_refused(who, header):
    answer = who().get("/connectors", headers={"Authorization": header})
    assert answer.status_code == 401


def test_each_does_what_was_granted_and_nothing_else(who):
    path = "/connectors/orders-1"
    body = {"name": "orders-1", "config": VERIFIABLE, "initial_state": "STOPPED"}
    for name in ("vera", "otto", "nick"):
        assert who(name).post("/connectors", json=body).status_code == 403
    assert who("edda").post("/connectors", json=body).status_code == 201
    other = {**body, "name": "bills"}
    assert who("edda").post("/connectors", json=other).status_code == 403
    assert who("edda").put("/connectors/bills/config", json=VERIFIABLE).status_code == 403
    for name in ("vera", "otto", "edda", "adam"):
        assert who(name).get(path).status_code == 200
    assert who("nick").get(path).status_code == 403
    assert who("vera").put(f"{path}/pause").status_code == 403
    assert who("otto").put(f"{path}/stop").status_code == 204
    assert who("otto").delete(path).status_code == 403
    assert who("edda").put("/admin/loggers/penstock.x", json={"level": "INFO"}).status_code == 403
    assert who("adam").put("/admin/loggers/penstock.x", json={"level": "INFO"}).status_code == 200
    assert who("edda").delete(path).status_code == 204


def test_lists_tell_of_what_one_may_look_at(who, gateway, made):
    made("orders-2")
    made("secret-2")
    assert "orders-2" in who("otto").get("/connectors").json()
    for found in (
        who("otto").get("/connectors").json(),
        who("otto").get("/connectors?expand=info").json(),
        who("otto").get("/allocated/connectors").json()["body"],
        [one["name"] for one in who("otto").get("/v1/status").json()["connectors"]],
    ):
        assert "secret-2" not in found
    assert "secret-2" in who("vera").get("/connectors").json()


def test_every_change_is_told(who, caplog):
    with caplog.at_level(logging.INFO, "penstock.audit"):
        who("vera").put("/connectors/a%0Ab/pause")
        who("adam").put("/connectors/none/pause")
        who("adam").get("/connectors")
    lines = told(caplog)
    assert [(one["who"], one["status"]) for one in lines] == [("vera", 403), ("adam", 404)]
    assert all(one["method"] == "PUT" and one["from"] == "127.0.0.1" for one in lines)
    assert [one["connector"] for one in lines] == ["a\nb", "none"]
    assert "\n" not in next(m.message for m in caplog.records if m.name == "penstock.audit")


def test_a_change_names_the_connector_that_its_body_names(who, caplog):
    body = {"name": "orders-7", "config": {"connector.class": "none-such"}}
    with caplog.at_level(logging.INFO, "penstock.audit"):
        who("edda").post("/connectors", json=body | {"name": "bills-7"})
        who("edda").post("/connectors", json=body)
        who("edda").put("/connector-plugins/none/config/validate", json={"name": "orders-8"})
        who().post("/connectors", json=body)
    found = [(one["who"], one["connector"], one["status"]) for one in told(caplog)]
    assert found[:2] == [("edda", "bills-7", 403), ("edda", "orders-7", 400)]
    assert found[2][:2] == ("edda", "orders-8")
    assert found[3] == (None, None, 401)


def told(caplog):
    """Return the lines of the audit."""
    lines = [one.message for one in caplog.records if one.name == "penstock.audit"]
    return [json.loads(line) for line in lines]


def test_who_only_looks_has_nothing_looked_up(who):
    """A check reads what references name."""
    path = "/connector-plugins/verifiable-source/config/validate"
    config = {**VERIFIABLE, "name": "orders-1"}
    for name, status in (("vera", 403), ("otto", 403), ("edda", 200), ("adam", 200)):
        assert who(name).put(path, json=config).status_code == status, name
    assert who("edda").put(path, json={**config, "name": "others"}).status_code == 403


def test_a_page_of_another_site_changes_nothing(gateway):
    """Nobody is asked who he is there, and a browser would send it."""
    body = b'{"name": "forged", "config": {"connector.class": "verifiable-source"}}'
    client, is_json = gateway.client, {"Content-Type": "application/json"}
    asked = (
        (client.post("/connectors", content=body), 415),
        (client.post("/connectors", content=body, headers={"Content-Type": "text/plain"}), 415),
        (
            client.post("/connectors", content=body, headers=is_json | {"Origin": "http://evil"}),
            403,
        ),
        (client.post("/connectors/forged/stop", headers={"Sec-Fetch-Site": "cross-site"}), 403),
    )
    for answer, status in asked:
        assert answer.status_code == status, answer.text
        assert answer.json()["fix"]
    assert gateway.get("/connectors/forged").status_code == 404


def test_another_name_for_this_machine_is_refused_where_nobody_is_asked(gateway):
    asked = Guard(local=True)
    entered = serve(build_app(gateway.clients, "tests", asked), [Listener("127.0.0.1:0")])
    (url,) = gateway.run(entered.__aenter__)
    try:
        with httpx.Client(base_url=url, timeout=60) as client:
            assert client.get("/connectors").status_code == 200
            answer = client.get("/connectors", headers={"Host": "evil.example"})
            assert (answer.status_code, answer.json()["code"]) == (403, "access.other_name")
    finally:
        gateway.run(lambda: entered.__aexit__(None, None, None))


def test_many_guesses_at_once_are_as_few_as_one_after_another(gateway):
    users = {
        "adam": User(Principal("adam", parse_grants(["admin"])), passwords.hash_password("right"))
    }
    asked = Guard(users, mistakes=RateLimit(0.2))

    async def guess(number):
        try:
            await asked.authenticate(f"Basic {basic('adam', str(number))}", "here")
        except PenstockError as error:
            return error.code
        return ""

    async def all_at_once():
        return await asyncio.gather(*(guess(number) for number in range(40)))

    found = asyncio.run(all_at_once())
    assert found.count("access.unauthenticated") == 2
    assert found.count("http.too_many") == 38


@pytest.mark.parametrize("header", ["Basic é", "Basic", "Basic =", "Basic AAAA", "Bearer x", "x"])
def test_what_is_no_credential_is_refused(guarded, header):
    answer = httpx.get(f"{guarded}/connectors", headers={"Authorization": header.encode()})
    assert answer.status_code == 401


def test_nobody_learns_names_that_he_may_not_see(who, made):
    """A hidden connector answers as one that is not there, and is in no suggestion."""
    made("orders-1")
    nick, vera, edda = who("nick"), who("vera"), who("edda")
    for name in ("orders-1", "orders-2"):
        assert nick.get(f"/v1/status?connector={name}").status_code == 403
        assert nick.get(f"/connectors/{name}").status_code == 403
    assert "orders-1" in vera.get("/connectors/orders-2").json()["fix"]
    assert "orders-1" not in edda.get("/connectors/orders-2").text


# ── pages of other sites, names of this machine ──────────────────────────────────────────────────

UI = "https://ui.example"


@pytest.fixture(scope="module")
def opened(gateway):
    """A gateway that lets the pages of one site in, and has a second name."""
    keys = {
        "access.control.allow.origin": UI,
        "access.control.allow.methods": "GET, PUT",
        "access.hosts": "Connect.local",
    }
    listeners = [Listener("127.0.0.1:0")]
    guard = guard_from_settings(parse(KEYS, keys), listeners)
    entered = serve(build_app(gateway.clients, "tests", guard), listeners)
    (url,) = gateway.run(entered.__aenter__)
    with httpx.Client(base_url=url, timeout=60) as client:
        yield client
    gateway.run(lambda: entered.__aexit__(None, None, None))


def test_pages_of_an_allowed_origin_may_call(opened):
    answer = opened.options(
        "/connectors/c/pause",
        headers={"Origin": UI, "Access-Control-Request-Method": "PUT"},
    )
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == UI
    assert "PUT" in answer.headers["access-control-allow-methods"]
    answer = opened.get("/connectors", headers={"Origin": UI})
    assert answer.headers["access-control-allow-origin"] == UI
    answer = opened.put(
        "/connectors/none/pause", headers={"Origin": UI, "Sec-Fetch-Site": "cross-site"}
    )
    assert answer.status_code == 404, answer.text


def test_pages_of_other_origins_may_not(opened):
    other = {"Origin": "https://other.example"}
    refused = opened.options(
        "/connectors/c/pause", headers={**other, "Access-Control-Request-Method": "PUT"}
    )
    assert refused.status_code == 400
    assert "access-control-allow-origin" not in opened.get("/connectors", headers=other).headers
    assert opened.put("/connectors/none/pause", headers=other).status_code == 403


@pytest.mark.parametrize(
    ("host", "status"),
    [("connect.local", 200), ("CONNECT.local:8083", 200), ("localhost", 200), ("evil.local", 403)],
)
def test_a_gateway_without_users_answers_to_its_names(opened, host, status):
    assert opened.get("/connectors", headers={"Host": host}).status_code == status
