"""One broker for all tests here, and topics of their own."""

import pytest

from support.mosquitto import MosquittoServer


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
