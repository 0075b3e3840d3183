"""One broker of each kind for all tests here, and topics and streams of their own."""

import zlib

import pytest

from support.mosquitto import MosquittoServer
from support.nats import NatsServer
from support.redis_server import RedisServer


@pytest.fixture(scope="session")
def mosquitto(tmp_path_factory):
    """A running broker, shared: tests use topics and sessions of their own."""
    with MosquittoServer(tmp_path_factory.mktemp("mosquitto")) as server:
        yield server


@pytest.fixture
def own_mosquitto(tmp_path):
    """A broker that a test stops and starts."""
    with MosquittoServer(tmp_path / "mosquitto") as server:
        yield server


@pytest.fixture
def topic(request):
    """A name that no other test has."""
    return f"t-{abs(hash(request.node.nodeid))}"


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory):
    """A running Redis, shared: tests use keys of their own."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="session")
def nats(tmp_path_factory):
    """A running server of NATS, shared: tests use streams of their own."""
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture
def own_redis(tmp_path):
    """A Redis that a test stops and starts."""
    with RedisServer(tmp_path / "redis") as server:
        yield server


@pytest.fixture
def own_nats(tmp_path):
    """A server of NATS that a test stops and starts."""
    with NatsServer(tmp_path / "nats") as server:
        yield server


@pytest.fixture
def stream(request):
    """The name of a stream that no other test has."""
    return f"s{zlib.crc32(request.node.nodeid.encode())}"
