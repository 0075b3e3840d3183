"""A real Prometheus, and web servers that a test tells what to answer."""

import pytest

from support.prometheus import PrometheusServer
from support.web import WebServer


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """A Prometheus that takes remote writes."""
    with PrometheusServer(tmp_path_factory.mktemp("prometheus")) as server:
        yield server


@pytest.fixture
def web():
    """A web server."""
    server = WebServer()
    yield server
    server.close()
