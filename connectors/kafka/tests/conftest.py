"""One broker for all tests here."""

import pytest

from support.kafka import KafkaServer


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    """A running broker, shared: tests use topics of their own."""
    with KafkaServer(tmp_path_factory.mktemp("kafka")) as server:
        yield server


@pytest.fixture
def topic(request):
    """A name that no other test has."""
    return f"t-{abs(hash(request.node.nodeid))}"
