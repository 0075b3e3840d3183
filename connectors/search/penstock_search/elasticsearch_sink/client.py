"""Requests to the servers of a cluster, within a time and a size, over kept connections."""

from __future__ import annotations

import base64
import gzip
import secrets
import ssl
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import httpcore
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from penstock_connector import ConfigError, ConnectorError, RetriableError
from penstock_connector.addresses import AddressPolicy
from penstock_search.elasticsearch_sink.answers import (
    Answer,
    network_error,
    not_json,
    status_error,
    timed_out,
)
from penstock_search.elasticsearch_sink.connection_config import SSL, Address, ConnectionConfig
from penstock_search.elasticsearch_sink.json_library import load_json
from penstock_values.security_stores import SecurityStoreError

_MAX_ANSWER_BYTES: Final = 64 << 20
"""Bytes of an answer. That of a bulk request has some hundred for each document."""

_MAX_ANSWER_S: Final = 60.0
"""Seconds of an answer from its first byte to its last. A server that sends a byte now and then is
left after them."""

_JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"


class SearchClient:
    """Asks the servers of a cluster: one until it cannot be reached, then the next. May be used by
    several threads at once; each request has a connection of its own.
    """

    def __init__(self, config: ConnectionConfig, connections: int = 1) -> None:
        self._addresses, self._current = config.addresses(), 0
        self._lock = threading.Lock()
        self._compresses = config.connection_compression
        self._headers = [(b"Accept", b"application/json"), (b"User-Agent", b"penstock")]
        if config.connection_username:
            login = f"{config.connection_username}:{config.connection_password}".encode()
            self._headers.append((b"Authorization", b"Basic " + base64.b64encode(login)))
        self._timeouts = {
            "connect": config.connection_timeout_ms,
            "read": config.read_timeout_ms,
            "write": config.read_timeout_ms,
            "pool": config.read_timeout_ms,
        }
        policy = AddressPolicy(config.allowed_addresses, code="elasticsearch.address_refused")
        proxy = config.proxy()
        self._pool = httpcore.ConnectionPool(
            ssl_context=_tls_context(config),
            max_connections=connections,
            max_keepalive_connections=connections,
            keepalive_expiry=config.max_connection_idle_time_ms,
            network_backend=_Network(policy),
            proxy=None
            if proxy is None
            else httpcore.Proxy(
                httpcore.URL(
                    scheme=b"http", host=proxy.host.encode(), port=proxy.port, target=b"/"
                ),
                auth=(proxy.user.encode(), proxy.password.encode()) if proxy.user else None,
            ),
        )

    def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        content_type: str = _JSON,
        until: float | None = None,
    ) -> Answer:
        """Return the answer, whatever its status. A server that cannot be reached is passed over
        until all of them were asked.

        Args:
            method: How.
            path: Path and query, quoted.
            body: What is sent.
            content_type: What it is.
            until: A time of `time.monotonic` at which no further server is asked.

        Raises:
            ConnectorError: there was no whole answer.
        """
        headers = list(self._headers)
        if body:
            headers.append((b"Content-Type", content_type.encode()))
            if self._compresses:
                body = gzip.compress(body, 1)
                headers.append((b"Content-Encoding", b"gzip"))
        failure: ConnectorError | None = None
        for _ in self._addresses:
            if failure is not None and until is not None and time.monotonic() > until:
                break
            number = self._current
            address = self._addresses[number]
            try:
                return self._exchange(method, address, path, headers, body)
            except RetriableError as error:
                failure = error
                with self._lock:  # another thread may have moved on already
                    if self._current == number:
                        self._current = (number + 1) % len(self._addresses)
        assert failure is not None  # noqa: S101 - there is at least one server
        raise failure

    def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        fine: Iterable[int] = (),
    ) -> tuple[int, Any]:
        """Return a status that is a success or one of `fine`, and the JSON of its answer; None when
        there is none.

        Raises:
            ConnectorError: another status, no JSON, or no answer.
        """
        answer = self.send(method, path, body)
        expected = 200 <= answer.status < 300 or answer.status in set(fine)
        parsed = _parsed(answer, required=expected and method != "HEAD")
        if not expected:
            raise status_error(answer, error_of(parsed))
        return answer.status, parsed

    def close(self) -> None:
        """End all connections."""
        self._pool.close()

    def _exchange(
        self,
        method: str,
        address: Address,
        path: str,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
    ) -> Answer:
        where = str(address)
        host = f"[{address.host}]" if ":" in address.host else address.host
        url = httpcore.URL(
            scheme=b"https" if address.tls else b"http",
            host=host.encode(),
            port=address.port,
            target=f"{address.path}{path}".encode(),
        )
        usual = address.port == (443 if address.tls else 80)
        authority = host if usual else f"{host}:{address.port}"
        own = [(b"Host", authority.encode()), *headers]
        if body or method in {"PUT", "POST"}:
            own.append((b"Content-Length", str(len(body)).encode()))
        extensions = {"timeout": self._timeouts}
        try:
            with self._pool.stream(
                method, url, headers=own, content=body or None, extensions=extensions
            ) as answer:
                return Answer(answer.status, answer.headers, _read(answer, where), where)
        except (
            OSError, httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProxyError,
            httpcore.ProtocolError, httpcore.UnsupportedProtocol,
        ) as error:  # fmt: skip
            raise network_error(error, where) from None


def error_of(parsed: Any) -> Mapping[str, Any] | None:
    """Return what a server says is wrong; None where it is not in its words."""
    error = parsed.get("error") if isinstance(parsed, Mapping) else None
    if isinstance(error, str):
        return {"type": "error", "reason": error}
    return error if isinstance(error, Mapping) else None


def _parsed(answer: Answer, *, required: bool) -> Any:
    try:
        return load_json(answer.body)
    except ValueError:
        if required:
            raise not_json(answer) from None
        return None


def _read(answer: httpcore.Response, where: str) -> bytes:
    parts: list[bytes] = []
    size = 0
    until = time.monotonic() + _MAX_ANSWER_S
    for chunk in answer.iter_stream():
        size += len(chunk)
        if size > _MAX_ANSWER_BYTES:
            raise ConfigError(
                "elasticsearch.answer_too_large",
                f"{where}: the answer has more than {_MAX_ANSWER_BYTES} bytes",
                fix="Lower `batch.size`.",
                config_path="batch.size",
            )
        if time.monotonic() > until:
            raise timed_out(where)
        parts.append(chunk)
    return b"".join(parts)


class _Network(httpcore.NetworkBackend):
    """Opens the very address that was looked at."""

    def __init__(self, policy: AddressPolicy) -> None:
        self._policy, self._sockets = policy, httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Return a connection to the first address of a host that takes one.

        Raises:
            ConfigError: `elasticsearch.address_refused`.
        """
        failure: Exception = OSError(f"{host} has no address")
        for address in self._policy.addresses(host.strip("[]"), port):
            try:
                return self._sockets.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


def _tls_context(config: ConnectionConfig) -> ssl.SSLContext:
    """Return how TLS is spoken.

    Raises:
        ConfigError: `config.invalid_value`: a store cannot be used.
    """
    if not config.has_tls_keys:
        return ssl.create_default_context()
    path = f"{SSL}truststore.location"
    try:
        context = ssl.create_default_context(cadata=config.trust_store().read() or None)
        context.check_hostname = config.endpoint_identification_algorithm == "https"
        path = f"{SSL}keystore.location"
        if pair := config.key_store().read():
            _load_own(context, *pair)
    except SecurityStoreError as error:
        raise ConfigError(
            "config.invalid_value", f"`{error.key}`: {error.why}", fix=error.fix,
            config_path=error.key,
        ) from None  # fmt: skip
    except (ValueError, OSError) as error:
        raise ConfigError(
            "config.invalid_value",
            f"`{path}`: its certificates cannot be used: {error}",
            fix="Check them: PEM begins with -----BEGIN CERTIFICATE-----.",
            config_path=path,
        ) from None
    return context


def _load_own(context: ssl.SSLContext, chain: str, key: str) -> None:
    """Load a certificate and its key. The library wants a file: it is this user's alone, and the
    key in it is encrypted.
    """
    secret = secrets.token_bytes(24)
    private = load_pem_private_key(key.encode(), None)
    locked = private.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(secret)
    )
    with tempfile.NamedTemporaryFile() as made:
        made.write(locked + chain.encode())
        made.flush()
        context.load_cert_chain(made.name, password=secret)
