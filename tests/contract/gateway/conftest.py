"""A gateway over all services, for all tests here: each has connectors of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from penstock.gateway.access import passwords
from penstock.gateway.access.guard import Guard
from penstock.gateway.access.users import Principal, User, parse_grants
from penstock.gateway.app import build_app
from penstock.gateway.http_server import serve
from penstock.gateway.listeners import Listener
from support.gateway import Gateway
from support.people import GRANTS

SUPPORT = Path(__file__).parents[2] / "support"
REACH = {
    "reach": "bounded,rest",
    "reach.bounded.connectors": "bounded-.*",
    "reach.bounded.topics": "bounded-.*",
    "reach.bounded.secrets": "env:BOUNDED_.*",
    "reach.bounded.hosts": "db.example",
    "reach.rest.connectors": ".*",
    **{f"reach.rest.{key}": "*" for key in ("topics", "secrets", "folders", "hosts")},
}
"""Connectors called bounded-… may reach little, the others everything."""
PLUGINS = [SUPPORT / name for name in ("moody", "mute", "picky")]
NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that references may name."""
    return tmp_path_factory.mktemp("secrets")


@pytest.fixture(scope="session")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that connectors called bounded-… may reach."""
    return tmp_path_factory.mktemp("bounded")


@pytest.fixture(scope="session")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, secrets: Path, bounded: Path
) -> Iterator[Gateway]:
    """The gateway. There is one: a process has one Spark."""
    keys = {
        "plugin.path": ",".join(map(str, PLUGINS)),
        "config.providers": "file,env",
        "config.providers.file.param.allowed.paths": str(secrets),
        "config.providers.file.param.ttl": "200ms",
        "config.providers.env.param.allowlist.pattern": "DB_.*",
        **REACH,
        "reach.bounded.folders": str(bounded),
    }
    with Gateway(tmp_path_factory.mktemp("node"), **keys) as gateway:
        yield gateway


@pytest.fixture
def made(gateway: Gateway) -> Iterator[Callable[..., str]]:
    """Make connectors that go with the test; returns the path of one."""
    paths = []

    def make(name: str = "", state: str = "STOPPED", **config: str) -> str:
        name = name or f"c{next(NUMBERS)}"
        gateway.create(name, state, **config)
        paths.append(f"/connectors/{quote(name, safe='')}")
        return paths[-1]

    yield make
    for path in paths:
        gateway.delete(path)


@pytest.fixture(scope="session")
def guarded(gateway: Gateway) -> Iterator[str]:
    """Another address of the same services, which asks who it is; returns its URL."""
    users = {
        name: User(
            Principal(name, parse_grants(may)), passwords.hash_password(f"{name}'s password")
        )
        for name, may in GRANTS.items()
    }
    app = build_app(gateway.clients, "tests", Guard(users))

    async def enter():
        entered = serve(app, [Listener("127.0.0.1:0")])
        (url,) = await entered.__aenter__()
        return entered, url

    entered, url = gateway.run(enter)
    yield url
    gateway.run(lambda: entered.__aexit__(None, None, None))


@pytest.fixture
def who(guarded):
    """Speak as somebody."""

    def client(name: str = "", password: str = "") -> httpx.Client:
        auth = (name, password or f"{name}'s password") if name else None
        return httpx.Client(base_url=guarded, auth=auth, timeout=60)

    return client
