"""One cluster for all tests here."""

import pytest

from support.rocketmq import RocketmqCluster


@pytest.fixture(scope="session")
def rocketmq(tmp_path_factory):
    """A running name server and broker, shared: tests use topics of their own."""
    with RocketmqCluster(tmp_path_factory.mktemp("rocketmq")) as cluster:
        yield cluster


@pytest.fixture
def topic(request):
    """A name that no other test has."""
    return f"t-{abs(hash(request.node.nodeid))}"
