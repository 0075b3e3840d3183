"""Servers for searching, one of each kind for all tests of a process, and a web server that a test
tells what to answer.
"""

import uuid

import pytest

from support.search_servers import ElasticsearchServer, OpensearchServer
from support.web import WebServer


@pytest.fixture(scope="session")
def elasticsearch(tmp_path_factory):
    with ElasticsearchServer(tmp_path_factory.mktemp("elasticsearch")) as server:
        yield server


@pytest.fixture(scope="session")
def opensearch(tmp_path_factory):
    with OpensearchServer(tmp_path_factory.mktemp("opensearch")) as server:
        yield server


@pytest.fixture
def topic():
    """The name of a topic that no other test has."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def web():
    """A web server."""
    server = WebServer()
    yield server
    server.close()
