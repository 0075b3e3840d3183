"""A request and its answer, within a time and a size, over a connection that is kept."""

from __future__ import annotations

import base64
import contextlib
import http.client
import re
import socket
import ssl
import threading
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit

from penstock_connector import (
    AuthError,
    ConfigError,
    ConnectorError,
    DataError,
    RetriableError,
    key,
)
from penstock_connector.addresses import AddressPolicy
from penstock_connector.reach import Reaching

_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f]")
_HEADER: Final = re.compile(r"([!#$%&'*+\-.^_`~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e]*)")
_OWN: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "expect"})
"""Headers by which requests are told apart on a connection."""

_PORTS: Final = {"http": 80, "https": 443}
_CHUNK: Final = 1 << 16
_EXCERPT: Final = 300
_GZIP: Final = 31
"""zlib's number for a gzip header."""


@dataclass(frozen=True)
class ConnectKeys(Reaching):
    """Where sockets may lead, and how long is waited."""

    allowed_addresses: tuple[str, ...] = key(
        (),
        doc="Hosts, addresses and networks that may be requested although they are link-local, or "
        "loopback by another name than `localhost`.",
        group="Request",
    )
    request_timeout: float = key(
        10.0,
        doc="Longest time of a request, up to the last byte of its answer.",
        type="duration",
        group="Limits",
    )

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        self.address_policy()
        if self.request_timeout <= 0:
            raise invalid("request.timeout", "must be more than 0")

    def address_policy(self) -> AddressPolicy:
        """Return where sockets may lead."""
        return AddressPolicy(self.allowed_addresses, code="metrics.address_refused")


@dataclass(frozen=True)
class WebKeys(ConnectKeys):
    """Who asks."""

    headers: tuple[str, ...] = key(
        (), doc="Headers that are sent along, each as `Name: value`.", group="Request"
    )
    auth_type: str = key(
        "none",
        doc="How a request is authenticated.",
        choices=("none", "basic", "bearer"),
        group="Login",
    )
    auth_user: str = key("", doc="User, for `basic`.", group="Login")
    auth_password: str = key("", doc="Password, for `basic`.", type="password", group="Login")
    auth_token: str = key("", doc="Token, for `bearer`.", type="password", group="Login")
    tls_ca: str = key(
        "", doc="File of certificates (PEM) to trust instead of the machine's.", group="TLS"
    )
    tls_cert: str = key("", doc="File of a certificate of our own (PEM).", group="TLS")
    tls_key: str = key("", doc="File of its key, when it is not in `tls.cert`.", group="TLS")
    tls_key_password: str = key("", doc="Password of the key.", type="password", group="TLS")

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        self.request_headers()
        needs = {
            "basic": {"auth.user": self.auth_user},
            "bearer": {"auth.token": self.auth_token},
        }.get(self.auth_type, {})
        for name, value in needs.items():
            if not value:
                raise missing(name, f"auth.type={self.auth_type}")

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys of a login that is not made."""
        held = {
            "auth.user": ("basic", self.auth_user),
            "auth.password": ("basic", self.auth_password),
            "auth.token": ("bearer", self.auth_token),
        }
        return {
            name: f"it is for auth.type={kind}; auth.type is {self.auth_type}"
            for name, (kind, value) in held.items()
            if value and kind != self.auth_type
        }

    def require_tls_files(self) -> None:
        """Refuse files for TLS that may not be reached."""
        for path, file in (
            ("tls.ca", self.tls_ca), ("tls.cert", self.tls_cert), ("tls.key", self.tls_key),
        ):  # fmt: skip
            self.reach.require_path(file, path)

    def request_headers(self) -> dict[str, str]:
        """Return the headers of each request, with the login."""
        found = {"User-Agent": "penstock", "Accept-Encoding": "gzip"}
        for text in self.headers:
            match = _HEADER.fullmatch(text)
            if match is None or match[1].lower() in _OWN:
                raise invalid("headers", "has a header that cannot be sent: write `Name: value`")
            found[match[1]] = match[2].strip()
        match self.auth_type:
            case "basic":
                plain = f"{self.auth_user}:{self.auth_password}".encode()
                found["Authorization"] = "Basic " + base64.b64encode(plain).decode()
            case "bearer":
                if not re.fullmatch(r"[\x21-\x7e]+", self.auth_token or "-"):
                    raise invalid("auth.token", "has a character that no header can have")
                found["Authorization"] = f"Bearer {self.auth_token}"
        return found

    def tls_context(self) -> ssl.SSLContext:
        """Return how TLS is spoken.

        Raises:
            ConfigError: `metrics.tls`, for files that are not there or not certificates.
        """
        try:
            context = ssl.create_default_context(cafile=self.tls_ca or None)
            if self.tls_cert:
                context.load_cert_chain(
                    self.tls_cert, self.tls_key or None, self.tls_key_password or ""
                )
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                "metrics.tls",
                f"`tls.ca`, `tls.cert` or `tls.key` cannot be used: {error.strerror or error}",
                fix="Name files in PEM that the worker can read.",
                config_path="tls.ca",
            ) from None
        return context


def address_of(url: str, path: str) -> SplitResult:
    """Return the parts of an address that can be asked.

    Raises:
        ConfigError: `metrics.bad_url`.
    """
    why = ""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        parts, why = urlsplit(""), str(error)
    if not why and parts.scheme not in {"http", "https"}:
        why = "it must begin with http:// or https://"
    elif not why and not parts.hostname:
        why = "it names no host"
    elif not why and "@" in parts.netloc:
        why = "it has credentials in it, and is shown to people: use auth.user and auth.password"
    elif not why and _UNSAFE.search(url):
        why = "it has a space or a control character in it"
    if why:
        raise ConfigError(
            "metrics.bad_url",
            f"`{path}` is no address: {why}",
            fix=f"Write `{path}` as http://host:port/path.",
            config_path=path,
        )
    return parts


def full_urls(targets: Iterable[str], path: str) -> list[str]:
    """Return the addresses of targets, some of which are `host:port`, or have no path."""
    full = (one if "://" in one else f"http://{one}" for one in targets)
    return [url if "/" in url.partition("://")[2] else url + path for url in full]


def instance_of(url: str) -> str:
    """Return host and port of an address."""
    parts = urlsplit(url)
    return parts.netloc if parts.port else f"{parts.netloc}:{_PORTS[parts.scheme]}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, whole: its status, its type, its body, unpacked, and how long to wait."""

    status: int
    content_type: str
    body: bytes
    retry_after: float = 0.0
    location: str = ""


class WebClient:
    """Asks one address. Used by one thread; `cut` is for others.

    Args:
        url: Where.
        keys: Who asks.
        max_bytes: Most bytes of an answer, unpacked.
        path: The key that `url` is of.
    """

    def __init__(self, url: str, keys: WebKeys, max_bytes: int, path: str) -> None:
        self._parts = address_of(url, path)
        self._keys, self._max_bytes, self._path = keys, max_bytes, path
        self._policy = keys.address_policy()
        self._tls = keys.tls_context() if self._parts.scheme == "https" else None
        self._headers = keys.request_headers()
        self._connection: http.client.HTTPConnection | None = None
        self._timed_out = False
        host = self._parts.hostname or ""
        self._host = host
        self._port = self._parts.port or (443 if self._tls else 80)
        self.shown = f"{self._parts.scheme}://{self._parts.netloc}{self._parts.path}"
        self._target = (self._parts.path or "/") + (
            f"?{self._parts.query}" if self._parts.query else ""
        )

    def ask(self, method: str, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        """Return the answer, whatever its status. Redirects are not followed.

        Raises:
            RetriableError: `metrics.unreachable`, `metrics.timeout`.
            ConfigError: `metrics.tls`, `metrics.address_refused`, `reach.host`.
            DataError: `metrics.too_large`, `metrics.not_http`.
        """
        self._timed_out = False
        watch = threading.Timer(self._keys.request_timeout, self._late)
        watch.daemon = True
        watch.start()
        kept = self._connection is not None
        try:
            try:
                return self._exchange(method, headers, body)
            except (ConnectionError, http.client.RemoteDisconnected):
                self.close()
                if not kept or self._timed_out:
                    raise
                return self._exchange(method, headers, body)  # it was closed while it was idle
        except ConnectorError:
            self.close()
            raise
        except (OSError, http.client.HTTPException, zlib.error, ValueError) as error:
            self.close()
            raise self._failure(error) from None
        finally:
            watch.cancel()

    def cut(self) -> None:
        """End a running request now."""
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _late(self) -> None:
        self._timed_out = True
        self.cut()

    def _exchange(self, method: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        connection = self._connected()
        connection.request(method, self._target, body, {**self._headers, **headers})
        answer = connection.getresponse()
        received = self._body_of(answer)
        if self._timed_out:
            raise TimeoutError
        found = Answer(
            answer.status,
            answer.headers.get("Content-Type", ""),
            received,
            _seconds(answer.headers.get("Retry-After", "")),
            answer.headers.get("Location", ""),
        )
        if answer.will_close:
            self.close()
        return found

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            self._keys.reach.require_host(self._host, self._path)
            connection = http.client.HTTPConnection(self._host, self._port)
            timeout = self._keys.request_timeout
            opened = self._policy.connect(self._host, self._port, timeout)
            try:
                if self._tls is not None:
                    opened = self._tls.wrap_socket(opened, server_hostname=self._host)
            except BaseException:
                opened.close()
                raise
            opened.settimeout(timeout)
            connection.sock = opened
            self._connection = connection
        return self._connection

    def _body_of(self, answer: http.client.HTTPResponse) -> bytes:
        encoding = answer.headers.get("Content-Encoding", "").strip().lower()
        if encoding not in {"", "identity", "gzip"}:
            raise DataError(
                "metrics.not_http",
                f"{self.shown}: the answer is packed as {encoding[:40]!r}, not asked for",
                fix="Make the server send gzip, or nothing packed.",
            )
        unpack = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
        parts, size = [], 0
        while chunk := answer.read(_CHUNK):
            room = self._max_bytes - size + 1
            plain = unpack.decompress(chunk, room) if unpack else chunk
            size += len(plain)
            if size > self._max_bytes:
                raise DataError(
                    "metrics.too_large",
                    f"{self.shown}: the answer has more than {self._max_bytes} bytes",
                    fix="Raise `response.max.bytes`, or give an address that answers less.",
                )
            parts.append(plain)
        if answer.length or (unpack is not None and not unpack.eof):
            raise http.client.IncompleteRead(b"")  # reading by parts does not tell
        return b"".join(parts)

    def _failure(self, error: Exception) -> ConnectorError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return ConfigError(
                "metrics.tls",
                f"{self.shown}: its certificate is not trusted: {error.verify_message}",
                fix="Name the authority's certificate in `tls.ca`.",
                config_path="tls.ca",
            )
        if self._timed_out or isinstance(error, TimeoutError):
            return RetriableError(
                "metrics.timeout",
                f"{self.shown}: no whole answer within {self._keys.request_timeout:g} s",
                fix="Look at the server, or raise `request.timeout`.",
            )
        if isinstance(error, OSError | http.client.RemoteDisconnected | http.client.IncompleteRead):
            return RetriableError(
                "metrics.unreachable",
                f"{self.shown}: {getattr(error, 'strerror', '') or error or type(error).__name__}",
                fix=f"Start the server, or correct `{self._path}`.",
            )
        return DataError(
            "metrics.not_http",
            f"{self.shown}: what answers there does not speak HTTP ({type(error).__name__})",
            fix=f"Correct the port of `{self._path}`.",
        )


def status_error(answer: Answer, shown: str, path: str) -> ConnectorError:
    """Return what a status means that is no success; `path` is the key of the address."""
    said = answer.body[:_EXCERPT].decode("utf-8", "replace").strip()
    text = f"{shown} answers {answer.status}: {said or http.client.responses.get(answer.status)}"
    status = answer.status
    if status in {401, 403}:
        return AuthError("metrics.auth", text, fix="Check `auth.type` and its credentials.")
    if 300 <= status < 400:
        return ConfigError(
            "metrics.redirect",
            f"{shown} leads to {answer.location[:_EXCERPT]!r}, which is not followed",
            fix=f"Give in `{path}` the address that is meant.",
            config_path=path,
        )
    if status in {404, 405, 410}:
        return ConfigError("metrics.not_found", text, fix=f"Correct `{path}`.", config_path=path)
    if status >= 500 or status in {408, 425, 429}:
        return RetriableError(
            "metrics.server_error", text, fix="It is tried again.", retry_after=answer.retry_after
        )
    return DataError("metrics.refused", text, fix="The answer says what the server does not take.")


def invalid(path: str, why: str) -> ConfigError:
    """Return the error for a value that cannot mean anything."""
    return ConfigError(
        "config.invalid_value", f"`{path}` {why}", fix=f"Correct `{path}`.", config_path=path
    )


def missing(name: str, by: str) -> ConfigError:
    """Return the error for a key that another one needs."""
    return ConfigError(
        "config.missing", f"`{by}` needs `{name}`", fix=f"Set `{name}`.", config_path=name
    )


def _seconds(text: str) -> float:
    return float(text[:9]) if text.isascii() and text.isdigit() else 0.0
