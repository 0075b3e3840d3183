"""A gateway over all services, for all tests here: each has connectors of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from support.gateway import Gateway

SUPPORT = Path(__file__).parents[2] / "support"
PLUGINS = [SUPPORT / name for name in ("moody", "mute", "picky")]
NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that references may name."""
    return tmp_path_factory.mktemp("secrets")


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory, secrets: Path) -> Iterator[Gateway]:
    """The gateway. There is one: a process has one Spark."""
    keys = {
        "plugin.path": ",".join(map(str, PLUGINS)),
        "config.providers": "file,env",
        "config.providers.file.param.allowed.paths": str(secrets),
        "config.providers.file.param.ttl": "200ms",
        "config.providers.env.param.allowlist.pattern": "DB_.*",
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
