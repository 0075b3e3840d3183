"""Answers of a registry, and of what is none; no answer at all; logins and certificates."""

import base64
import json
import socket
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from penstock_converters import (
    InvalidConverterError,
    RegistryAnswerError,
    RegistryAuthError,
    RegistryUnavailableError,
    SchemaRefusedError,
)
from penstock_converters.registry import create_converter
from penstock_converters.schema_registry.keys import registry_files, registry_hosts
from support.certificates import Authority
from support.processes import free_ports

FIELD = pa.field("value", pa.struct([pa.field("a", pa.string(), nullable=False)]), nullable=False)
QUICK = {"max.retries": "1", "retries.wait.ms": "1", "http.read.timeout.ms": "2000"}


class Server:
    """A server that answers what a test says, and notes what it was asked."""

    def __init__(self, tls=None):
        asked, answers = self.asked, self.answers = [], []
        headers = self.headers = {}

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers.update(self.headers)
                asked.append((self.path, self.headers.get("Authorization"), body))
                status, content = answers.pop(0) if len(answers) > 1 else answers[0]
                self.send_response(status)
                self.send_header("Location", "http://127.0.0.1:1/")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST  # noqa: N815 - the name that the library looks for

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


def write(url, **more):
    """Write no rows: the schema is registered."""
    config = {"schema.registry.url": url, **QUICK, **more}
    return create_converter("avro", config).encode(pa.array([], FIELD.type), FIELD, "a topic/ü")


@pytest.mark.parametrize(
    ("status", "content", "kind", "code"),
    [
        (200, b"<html>Welcome</html>", RegistryAnswerError, "registry.not_a_registry"),
        (200, b"[]", RegistryAnswerError, "registry.not_a_registry"),
        (200, b"{}", RegistryAnswerError, "registry.not_a_registry"),
        (200, b"[" * 100_000, RegistryAnswerError, "registry.not_a_registry"),
        (302, b"", RegistryAnswerError, "registry.not_a_registry"),
        (400, b'{"message": "no"}', RegistryAnswerError, "registry.not_a_registry"),
        (404, b"<html>", RegistryAnswerError, "registry.not_a_registry"),
        (404, b'{"message": "no such path"}', RegistryAnswerError, "registry.not_a_registry"),
        (401, b"<html>", RegistryAuthError, "registry.not_authorized"),
        (403, b"{}", RegistryAuthError, "registry.not_authorized"),
        (409, b'{"error_code": 409, "message": "no"}', SchemaRefusedError, "registry.incompatible"),
        (422, b'{"error_code": 42201}', SchemaRefusedError, "registry.invalid_schema"),
        (500, b'{"error_code": 50001}', RegistryUnavailableError, "registry.unavailable"),
        (503, b"<html>", RegistryUnavailableError, "registry.unavailable"),
        (429, b"", RegistryUnavailableError, "registry.unavailable"),
    ],
)
def test_every_answer_has_its_error(server, status, content, kind, code):
    server.answers.append((status, content))
    with pytest.raises(kind) as caught:
        write(server.url)
    assert caught.value.code == code
    assert caught.value.fix


def test_the_next_url_is_asked_and_then_all_again(server):
    server.answers += [(503, b""), (200, b'{"id": 7}')]
    (dead,) = free_ports(1)
    write(f"http://127.0.0.1:{dead}, {server.url}/")
    assert [path for path, _, _ in server.asked] == [
        "/subjects/a%20topic%2F%C3%BC-value/versions?normalize=false"
    ] * 2


def test_a_registry_that_is_away_is_told_with_its_url():
    (dead,) = free_ports(1)
    with pytest.raises(RegistryUnavailableError, match=f"http://127.0.0.1:{dead}"):
        write(f"http://user:geheim@127.0.0.1:{dead}")


def test_a_registry_that_hangs_is_left_in_time():
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        with pytest.raises(RegistryUnavailableError):
            write(url, **{"http.read.timeout.ms": "50"})


@pytest.mark.parametrize(
    ("user", "more", "header"),
    [
        ("", {}, None),
        ("u%40:p%20w@", {}, "Basic " + base64.b64encode(b"u@:p w").decode()),
        (
            "",
            {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "u:geheim"},
            "Basic " + base64.b64encode(b"u:geheim").decode(),
        ),
        ("", {"bearer.auth.token": "geheim"}, "Bearer geheim"),
    ],
)
def test_logins_are_sent_and_not_told(server, user, more, header):
    server.answers.append((200, b'{"id": 7}'))
    url = server.url.replace("://", f"://{user}")
    write(url, **more)
    assert [login for _, login, _ in server.asked] == [header]
    server.answers[:] = [(500, b"<html>")]
    with pytest.raises(RegistryUnavailableError) as caught:
        write(url, **more)
    for secret in ("geheim", "p w", "p%20w"):
        assert secret not in str(caught.value)


def test_the_schema_is_sent_as_confluent_does(server):
    server.answers.append((200, b'{"id": 258}'))
    config = {"schema.registry.url": server.url, "normalize.schemas": "true"}
    made = create_converter("avro", config).encode(pa.array([{"a": "x"}], FIELD.type), FIELD, "t")
    assert made.column.to_pylist() == [b"\0\0\0\x01\x02\x02x"]
    ((path, _, body),) = server.asked
    assert path == "/subjects/t-value/versions?normalize=true"
    assert list(json.loads(body)) == ["schema"]


@pytest.mark.parametrize("form", ["PEM", "PKCS12", "JKS", "none"])
def test_certificates_of_the_registry_and_ours_are_used(tmp_path, form):
    authority = Authority(tmp_path)
    given = _stores(authority, tmp_path, form)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.sign("registry", address="127.0.0.1"))
    tls.load_verify_locations(authority.ca)
    tls.verify_mode = ssl.CERT_REQUIRED
    server = Server(tls)
    server.answers.append((200, b'{"id": 7}'))
    try:
        if form == "none":
            with pytest.raises(RegistryUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
                write(server.url)
        else:
            write(server.url, **given)
    finally:
        server.close()


def _stores(authority, folder, form):
    prefix = "schema.registry.ssl."
    if form == "none":
        return {}
    certificate, key = authority.sign("me")
    own, trusted = folder / "own.store", folder / "trusted.store"
    if form == "PEM":
        own.write_bytes(key.read_bytes() + certificate.read_bytes())
        trusted.write_bytes(authority.ca.read_bytes())
    else:
        protection = serialization.BestAvailableEncryption(b"geheim")
        private = serialization.load_pem_private_key(key.read_bytes(), None)
        mine = x509.load_pem_x509_certificate(certificate.read_bytes())
        root = x509.load_pem_x509_certificate(authority.ca.read_bytes())
        own.write_bytes(
            pkcs12.serialize_key_and_certificates(b"me", private, mine, [root], protection)
        )
        trusted.write_bytes(
            pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(root, b"r")], protection)
        )
    if form == "JKS":
        own, trusted = _as_jks(own), _as_jks(trusted)
    return {
        f"{prefix}{store}.{name}": value
        for store, file in (("truststore", trusted), ("keystore", own))
        for name, value in (("location", str(file)), ("type", form), ("password", "geheim"))
        if form != "PEM" or name != "password"
    }


def _as_jks(store):
    made = store.with_suffix(".jks")
    passwords = ["-srcstorepass", "geheim", "-deststorepass", "geheim"]
    words = ["-srckeystore", str(store), "-destkeystore", str(made), "-deststoretype", "JKS"]
    subprocess.run(
        ["keytool", "-importkeystore", "-noprompt", *words, *passwords],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return made


def test_the_name_in_a_certificate_is_compared_unless_that_is_turned_off(tmp_path):
    authority = Authority(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.sign("elsewhere"))
    server = Server(tls)
    server.answers.append((200, b'{"id": 7}'))
    given = {
        "schema.registry.ssl.truststore.certificates": authority.ca.read_text(),
        "schema.registry.ssl.endpoint.identification.algorithm": "",
    }
    try:
        write(server.url, **given)
        given.popitem()
        with pytest.raises(RegistryUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
            write(server.url, **given)
    finally:
        server.close()


def test_a_store_that_cannot_be_read_is_told_at_first_use(tmp_path):
    store = {"schema.registry.ssl.truststore.type": "PKCS12"}
    for path in (tmp_path / "none", tmp_path / "text"):
        (tmp_path / "text").write_text("no store")
        more = store | {"schema.registry.ssl.truststore.location": str(path)}
        with pytest.raises(InvalidConverterError) as caught:
            write("https://127.0.0.1:1", **more)
        assert caught.value.config_path == "schema.registry.ssl.truststore.location"


def test_what_a_converter_reaches_is_known_from_its_keys():
    config = {
        "schema.registry.url": "http://a:8081, https://u:p@b/x,,http://[::1]:1",
        "schema.registry.ssl.keystore.location": "/k",
    }
    assert registry_hosts(config) == ("a", "b", "::1")
    assert registry_files(config) == ("schema.registry.ssl.keystore.location",)
    assert registry_hosts({}) == registry_files({}) == ()
