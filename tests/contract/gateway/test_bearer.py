"""Tokens of an OpenID provider, over HTTP: who has one may what it says, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from penstock.cluster.settings import instance_settings
from penstock.gateway.access.guard import guard_from_settings
from penstock.gateway.app import build_app
from penstock.gateway.http_server import serve
from penstock.gateway.listeners import listeners_from_settings
from support.gateway import Gateway
from support.issuer import Issuer

ORDERS, OTHERS = "orders-by-token", "others-by-token"
CONFIG = {"connector.class": "verifiable-source", "rows": "10", "topic": "rows"}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    """A provider."""
    with Issuer() as issuer:
        yield issuer


@pytest.fixture(scope="module")
def url(gateway: Gateway, issuer: Issuer) -> Iterator[str]:
    """A gateway that knows nobody but by tokens, as its keys say, and two connectors."""
    keys = {
        "listeners": "http://127.0.0.1:0",
        "auth.oidc.issuer": issuer.url,
        "auth.oidc.audience": "penstock",
    }
    values = instance_settings("gateway", keys, {}).values
    wanted = listeners_from_settings(values)
    asked = guard_from_settings(values, wanted)
    entered = serve(build_app(gateway.clients, "tests", asked), wanted)
    for name in (ORDERS, OTHERS):
        gateway.create(name, "STOPPED", **CONFIG)
    (url,) = gateway.run(entered.__aenter__)
    yield url
    gateway.run(lambda: entered.__aexit__(None, None, None))
    gateway.run(asked.close)
    for name in (ORDERS, OTHERS):
        gateway.delete(f"/connectors/{name}")


def bearer(url: str, token: str) -> httpx.Client:
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60)


@pytest.mark.parametrize(
    ("role", "listed", "own", "writes"),
    [
        ("viewer", [ORDERS], 200, 403),
        ("editor", [ORDERS], 200, 200),
        (None, [], 403, 403),
    ],
)
def test_who_has_a_token_may_what_it_says(url, issuer, role, listed, own, writes):
    may = [{"role": role, "connectors": "orders-.*"}] if role else []
    with bearer(url, issuer.token(penstock=may)) as client:
        answer = client.get("/connectors")
        assert answer.status_code == (200 if role else 403)
        assert not role or answer.json() == listed
        assert client.get(f"/connectors/{ORDERS}").status_code == own
        put = client.put(f"/connectors/{ORDERS}/config", json=CONFIG)
        assert put.status_code == writes, put.text
        level = client.put("/admin/loggers/penstock.token", json={"level": "INFO"})
        for refused in (client.get(f"/connectors/{OTHERS}"), level):
            assert (refused.status_code, refused.json()["code"]) == (403, "access.denied")


def test_a_token_that_is_over_is_told_apart_from_one_that_may_not(url, issuer):
    for token in (issuer.token(exp=1), issuer.token(aud="others"), "none"):
        with bearer(url, token) as client:
            answer = client.get("/connectors")
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert token not in answer.text or token == "none"
