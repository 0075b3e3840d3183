"""A connection to a server of NATS, used by one thread.

It has one subscription, to its inbox: answers, acknowledgements and messages of consumers come
there. There is no thread beside it: a server's PINGs are answered when something is read or sent.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock_connector import AuthError, ConfigError, ConnectorError, RetriableError
from penstock_messaging.nats.credentials import UserKey
from penstock_messaging.nats.protocol import (
    Frame,
    FrameDecoder,
    ProtocolError,
    encode_publish,
    parse_object,
    status_of,
)

_RECEIVE_BYTES: Final = 1 << 18
_GOODBYE_S: Final = 2.0
_MAX_PAYLOAD: Final = 1 << 20
"""Bytes that a server takes, where it says nothing: its default."""

_NO_RESPONDERS: Final = 503
_REFUSED_LOGIN: Final = re.compile(r"(?i)authorization violation|authentication")
_REFUSED_SUBJECT: Final = re.compile(r"(?i)permissions violation")
_FULL: Final = re.compile(r"(?i)maximum connections|maximum account")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens."""

    host: str
    port: int
    is_tls: bool

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Login:
    """Who we are: one of the ways, or none.

    Attributes:
        key: Reads the key of the user, where there is one.
    """

    username: str
    password: str = field(repr=False)
    token: str = field(repr=False)
    key: Callable[[], UserKey | None]


@dataclass(frozen=True, slots=True)
class Dialing:
    """How connections are opened.

    Attributes:
        addresses: The servers; the first one that answers is taken.
        login: Who we are.
        tls: Makes what TLS needs.
        inbox_prefix: What the subjects of answers begin with.
        timeout_s: Seconds of the longest wait for an answer.
    """

    addresses: Sequence[Address]
    login: Login
    tls: Callable[[], ssl.SSLContext]
    inbox_prefix: str
    timeout_s: float


class Connection:
    """One connection.

    Attributes:
        address: The server's.
        inbox: What the subjects begin with at which we are answered.
        max_payload: Bytes of the largest message, with its headers.
        version: That of the server.
    """

    def __init__(self, sock: socket.socket, address: Address, dialing: Dialing) -> None:
        self.address = address
        self.inbox = f"{dialing.inbox_prefix}.{secrets.token_hex(11)}"
        self.max_payload, self.version = _MAX_PAYLOAD, ""
        self._socket, self._timeout_s = sock, dialing.timeout_s
        self._decoder = FrameDecoder()
        self._frames: deque[Frame] = deque()
        self._waiting: deque[Frame] = deque()
        self._requests = 0
        self._heard_at = time.monotonic()

    @classmethod
    def open(cls, dialing: Dialing) -> Connection:
        """Connect to the first server that answers.

        Raises:
            RetriableError: `nats.unavailable`: none does.
            AuthError: `nats.login`, `nats.tls`: one refuses us, or is not trusted.
            ConfigError: `nats.not_nats`: one speaks something else.
        """
        failures: list[RetriableError] = []
        for address in dialing.addresses:
            try:
                return cls._open(dialing, address)
            except RetriableError as error:
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        text = "; ".join(one.message for one in failures)
        raise _unavailable(text)

    @classmethod
    def _open(cls, dialing: Dialing, address: Address) -> Connection:
        try:
            sock = socket.create_connection((address.host, address.port), dialing.timeout_s)
        except OSError as error:
            raise _gone(address, error) from error
        opened = cls(sock, address, dialing)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            opened._login(dialing)
        except ssl.SSLError as error:
            opened._socket.close()
            raise _not_trusted(address, getattr(error, "verify_message", "") or error) from error
        except OSError as error:
            opened._socket.close()
            raise _gone(address, error) from error
        except BaseException:
            opened._socket.close()
            raise
        return opened

    def _login(self, dialing: Dialing) -> None:
        info = self._parse_info(self._await_frame("INFO"))
        if self.address.is_tls or info.get("tls_required"):
            if not (info.get("tls_required") or info.get("tls_available")):
                raise _not_trusted(self.address, "the server offers no TLS")
            # whatever came before TLS is not trusted: nobody may add to what comes in it
            self._decoder = FrameDecoder()
            self._frames.clear()
            self._socket.settimeout(self._timeout_s)
            self._socket = dialing.tls().wrap_socket(
                self._socket, server_hostname=self.address.host
            )
        self.max_payload = int(info.get("max_payload", _MAX_PAYLOAD))
        self.version = str(info.get("version", ""))
        told = _greeting(dialing.login, str(info.get("nonce", "")))
        told |= {"tls_required": isinstance(self._socket, ssl.SSLSocket)}
        self.send(b"CONNECT %s\r\nPING\r\n" % json.dumps(told).encode())
        self._await_frame("PONG")
        self.send(b"SUB %s.> 1\r\nPING\r\n" % self.inbox.encode())
        self._await_frame("PONG")

    def _await_frame(self, kind: str) -> Frame:
        until = time.monotonic() + self._timeout_s
        while time.monotonic() < until:
            self._fill(until - time.monotonic())
            while self._frames:
                frame = self._frames.popleft()
                if frame.kind == kind:
                    return frame
                if frame.kind == "-ERR":
                    raise _failed(self.address, frame.payload)
        raise self.no_answer("the connection")

    def send(self, data: bytes) -> None:
        """Send frames.

        Raises:
            RetriableError: `nats.unavailable`.
        """
        try:
            self._socket.settimeout(self._timeout_s)
            self._socket.sendall(data)
        except OSError as error:
            self._raise_last_words()
            raise _gone(self.address, error) from error

    def receive(self, timeout: float) -> list[Frame]:
        """Return the messages that come within some seconds; none, when none does.

        Raises:
            ConnectorError: the server says that something failed, or is gone.
        """
        if self._waiting:
            found = list(self._waiting)
            self._waiting.clear()
            return found
        self._fill(timeout)
        found = []
        while self._frames:
            frame = self._frames.popleft()
            if frame.kind == "MSG":
                found.append(frame)
            elif frame.kind == "PING":
                self.send(b"PONG\r\n")
            elif frame.kind == "-ERR":
                raise _failed(self.address, frame.payload)
            elif frame.kind == "INFO":
                info = self._parse_info(frame)
                self.max_payload = int(info.get("max_payload", self.max_payload))
        return found

    def request(self, subject: str, payload: bytes = b"", *, what: str) -> Frame:
        """Return the answer to a message. What comes meanwhile waits for `receive`.

        Args:
            subject: Where it is sent.
            payload: What is sent.
            what: What is asked for, in words.

        Raises:
            RetriableError: `nats.no_responders`, `nats.no_answer`, and as `receive`.
        """
        self._requests += 1
        reply = f"{self.inbox}.r{self._requests}"
        self.send(encode_publish(subject, payload, reply))
        until = time.monotonic() + self._timeout_s
        others: list[Frame] = []
        try:
            while (left := until - time.monotonic()) > 0:
                answer = None
                for frame in self.receive(left):
                    if frame.subject == reply:
                        answer = frame
                    elif not frame.subject.startswith(f"{self.inbox}.r"):
                        others.append(frame)
                if answer is not None:
                    if status_of(answer.headers)[0] == _NO_RESPONDERS:
                        raise no_responders(self.address, what)
                    return answer
        finally:
            self._waiting.extend(others)
        raise self.no_answer(what)

    def require_life(self, silent_s: float) -> None:
        """Refuse a server of which nothing came for some seconds.

        Raises:
            RetriableError: `nats.no_answer`.
        """
        if time.monotonic() - self._heard_at > silent_s:
            raise self.no_answer("a request")

    def _fill(self, timeout: float) -> None:
        """Read what comes within some seconds."""
        try:
            self._socket.settimeout(max(timeout, 0.0))
            data = self._socket.recv(_RECEIVE_BYTES)
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            return
        except OSError as error:
            raise _gone(self.address, error) from error
        if not data:
            raise _gone(self.address, OSError("the server closed the connection"))
        self._heard_at = time.monotonic()
        try:
            self._frames.extend(self._decoder.feed(data))
        except ProtocolError as error:
            raise _not_nats(self.address, error) from error

    def _parse_info(self, frame: Frame) -> Mapping[str, Any]:
        try:
            return parse_object(frame.payload)
        except ProtocolError as error:
            raise _not_nats(self.address, error) from error

    def _raise_last_words(self) -> None:
        """Say why the server hung up, where it told."""
        with contextlib.suppress(RetriableError):
            self._fill(0)
        for frame in self._frames:
            if frame.kind == "-ERR":
                raise _failed(self.address, frame.payload)

    def no_answer(self, what: str) -> RetriableError:
        """Return what is said of a server that does not answer."""
        return RetriableError(
            "nats.no_answer",
            f"{self.address} has not answered {what} within {self._timeout_s:g} s",
            fix="Look whether the server hangs, or raise `nats.request.timeout`.",
            config_path="nats.request.timeout",
        )

    def close(self) -> None:
        """Hang up, when the server has what was sent."""
        try:
            self._timeout_s = min(self._timeout_s, _GOODBYE_S)
            self.send(b"PING\r\n")
            until = time.monotonic() + _GOODBYE_S
            while time.monotonic() < until:
                self._fill(until - time.monotonic())
                if any(frame.kind == "PONG" for frame in self._frames):
                    break
                self._frames.clear()
        except ConnectorError:  # it is gone already
            pass
        finally:
            self._socket.close()

    def drop(self) -> None:
        """Hang up at once: it is broken."""
        self._socket.close()


def _greeting(login: Login, nonce: str) -> dict[str, Any]:
    """Return what a client says of itself."""
    told: dict[str, Any] = {
        "verbose": False, "pedantic": False, "headers": True, "no_responders": True,
        "protocol": 1, "echo": False, "lang": "python", "name": "penstock", "version": "1",
    }  # fmt: skip
    if login.username:
        told |= {"user": login.username, "pass": login.password}
    if login.token:
        told["auth_token"] = login.token
    if (key := login.key()) is not None:
        told["sig"] = key.sign(nonce)
        told |= {"jwt": key.token} if key.token else {"nkey": key.public}
    return told


def no_responders(address: Address, what: str) -> RetriableError:
    """Return what is said where nobody answers."""
    return RetriableError(
        "nats.no_responders",
        f"{address}: nobody answers {what}: JetStream is not enabled, or is choosing a leader",
        fix="Start the server with `-js`, or enable JetStream for the account; of a leaf node set "
        "`nats.jetstream.domain`.",
    )


def _unavailable(text: str) -> RetriableError:
    return RetriableError(
        "nats.unavailable",
        text,
        fix="Start the server, or correct `nats.servers`.",
        config_path="nats.servers",
    )


def _gone(address: Address, error: OSError) -> RetriableError:
    return _unavailable(f"{address}: {error.strerror or error or type(error).__name__}")


def _not_nats(address: Address, error: ProtocolError) -> ConfigError:
    return ConfigError(
        "nats.not_nats",
        f"{address} does not speak NATS: {error}",
        fix="Name the port for clients of a NATS server, for instance nats://host:4222.",
        config_path="nats.servers",
    )


def _not_trusted(address: Address, why: object) -> AuthError:
    return AuthError(
        "nats.tls",
        f"TLS with {address}: {why}",
        fix="Set `nats.tls.ca.file` to the certificates that sign the server's, name the host as "
        "its certificate has it, and give a certificate of the client where it wants one.",
        config_path="nats.tls.ca.file",
    )


def _failed(address: Address, text: bytes) -> ConnectorError:
    """Return what an error of a server means."""
    said = text.decode(errors="replace").strip().strip("'")
    where = f"{address}: {said[:500]}"
    if _FULL.search(said):
        fix = "Raise the connections that the server allows, or end others."
        return RetriableError("nats.refused", where, fix=fix)
    if _REFUSED_LOGIN.search(said):
        return AuthError(
            "nats.login",
            where,
            fix="Correct the login of the connector: `nats.username` and `nats.password`, "
            "`nats.token`, `nats.nkey.file` or `nats.credentials.file`.",
            config_path="nats.username",
        )
    if _REFUSED_SUBJECT.search(said):
        return AuthError(
            "nats.not_authorized",
            where,
            fix="Allow the user to publish to and subscribe to this subject.",
        )
    return RetriableError("nats.refused", where, fix="Look into the log of the server.")
