"""One broker of each product for all tests here."""

import pytest

from support.activemq import ActivemqBroker


@pytest.fixture(scope="session")
def classic(tmp_path_factory):
    """A running broker of ActiveMQ Classic, shared: tests use queues of their own."""
    with ActivemqBroker("classic", tmp_path_factory.mktemp("classic")) as broker:
        yield broker


@pytest.fixture(scope="session")
def artemis(tmp_path_factory):
    """A running broker of ActiveMQ Artemis, shared, as above."""
    with ActivemqBroker("artemis", tmp_path_factory.mktemp("artemis")) as broker:
        yield broker


@pytest.fixture(params=["classic", "artemis"])
def broker(request):
    """Both of them."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def queue(request):
    """A name that no other test has."""
    return f"q-{abs(hash(request.node.nodeid))}"
