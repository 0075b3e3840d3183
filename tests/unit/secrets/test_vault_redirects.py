"""No redirect of Vault is followed: its token goes to the server that the worker's file names."""

import asyncio

import httpx
import pytest

from penstock.model.errors import PenstockError
from penstock.secrets import vault
from penstock.secrets.vault import VaultProvider, VaultSettings
from penstock.telemetry.redaction import Secret
from support.web import Reply, WebServer

FOUND = Reply({"data": {"data": {"password": "pw"}}, "lease_duration": 0})


@pytest.fixture
def servers():
    """Vault, and another server."""
    both = WebServer(), WebServer(address="127.0.0.2")
    yield both
    for server in both:
        server.close()


def read(server, **more):
    async def run():
        provider = VaultProvider(VaultSettings(server.url, Secret("a-token"), **more))
        try:
            return dict((await provider.read("app/db", ["password"])).values)
        finally:
            await provider.close()

    return asyncio.run(run())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(servers, status):
    server, other = servers
    server.answer = lambda asked: Reply(status=status, headers={"Location": other.url + "/v1/x"})
    other.answer = lambda asked: FOUND
    with pytest.raises(PenstockError, match=r"secrets\.unreachable"):
        read(server)
    assert other.asked == []


def test_a_client_that_follows_redirects_goes_red(servers, monkeypatch):
    """The twin of the test above: the other server would get the token."""
    following = httpx.AsyncClient
    monkeypatch.setattr(
        vault.httpx,
        "AsyncClient",
        lambda **keys: following(**{**keys, "follow_redirects": True}),
    )
    server, other = servers
    server.answer = lambda asked: Reply(status=307, headers={"Location": other.url + "/v1/x"})
    other.answer = lambda asked: FOUND
    assert read(server) == {"password": "pw"}
    assert other.asked[0].headers["X-Vault-Token"] == "a-token"
