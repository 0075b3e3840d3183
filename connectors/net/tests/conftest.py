"""Web servers that a test tells what to answer."""

import subprocess

import pytest

from support.web import DEADLINE, WebServer


@pytest.fixture
def web():
    """A web server."""
    server = WebServer()
    yield server
    server.close()


@pytest.fixture
def other_web():
    """Another one, on a port of its own."""
    server = WebServer()
    yield server
    server.close()


@pytest.fixture
def far_web():
    """One at another address of this machine."""
    server = WebServer(address="127.0.0.2")
    yield server
    server.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A certificate of its own making, for localhost: the files of it and of its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost",
         "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True, timeout=DEADLINE,
    )  # fmt: skip
    return cert, key
