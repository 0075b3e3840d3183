"""A connection to a broker of ActiveMQ: STOMP 1.2, with a deadline for every wait."""

from __future__ import annotations

import contextlib
import re
import secrets
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock_amqp.frames import Frame, FrameDecoder, ProtocolError, encode_frame
from penstock_connector import AuthError, ConfigError, ConnectorError, RetriableError

HEART_BEAT_S: Final = 10.0
"""Seconds between signs of life, of both sides."""

SILENT_S: Final = 30.0
"""Seconds without a sign of life of a broker that promised some."""

_RECEIVE_BYTES: Final = 1 << 18
_GOODBYE_S: Final = 5.0
_MAX_GOODBYE_BYTES: Final = 64 << 20
_OPENWIRE: Final = b"\x01ActiveMQ"
"""What a broker sends first at a port of OpenWire, behind the four bytes of its size."""
_GREETING_S: Final = 2.0
"""Seconds for it, where a broker hung up on a frame of STOMP."""

_SPEAKS_OPENWIRE: Final = "the broker speaks OpenWire at this port"
_UNAVAILABLE: Final = "activemq.unavailable"

_LOGIN_REFUSED: Final = re.compile(r"(?i)password|login|security|credential|authenticat|229031")
_NOT_ALLOWED: Final = re.compile(r"(?i)not authorized|unauthorized|permission|229032|229213")
_FULL: Final = re.compile(r"(?i)is full|resourceallocation|limit reached|229102|229119")
_SELECTOR: Final = re.compile(r"(?i)selector|invalid filter|229020")
_IN_USE: Final = re.compile(
    r"(?i)in use|already connected|already been set|invalidclientid|cannot create a subscriber"
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a broker speaks STOMP."""

    host: str
    port: int
    is_tls: bool

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Dialing:
    """How connections are opened.

    Attributes:
        addresses: The brokers; the first one that answers is taken.
        username: Who we are; empty: nobody.
        password: That one's password.
        client_id: The name of the client, to which durable subscriptions belong; empty: none.
        tls: Makes what TLS needs.
        timeout_s: Seconds of the longest wait for an answer.
    """

    addresses: Sequence[Address]
    username: str
    password: str
    client_id: str
    tls: Callable[[], ssl.SSLContext]
    timeout_s: float

    def __repr__(self) -> str:
        return f"Dialing({', '.join(map(str, self.addresses))})"


class Connection:
    """One connection. All methods are called from one thread; another one sends signs of life."""

    def __init__(self, sock: socket.socket, address: Address, timeout_s: float) -> None:
        self.address = address
        self.is_artemis = False
        self._socket, self._timeout_s = sock, timeout_s
        self._decoder = FrameDecoder()
        self._frames: list[Frame] = []
        self._lock = threading.Lock()
        self._sent_at = time.monotonic()
        self._silent_s = 0.0
        self._is_lively = False
        self._closing = threading.Event()

    @classmethod
    def open(cls, dialing: Dialing) -> Connection:
        """Connect to the first broker that answers.

        Raises:
            RetriableError: `activemq.unavailable`: none does.
            AuthError: `activemq.login`: one refuses the user.
            ConfigError: `activemq.not_stomp`: one speaks something else.
        """
        failures: list[RetriableError] = []
        for address in dialing.addresses:
            try:
                return cls._open(dialing, address)
            except RetriableError as error:
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        raise RetriableError(
            _UNAVAILABLE,
            "; ".join(one.message for one in failures),
            fix="Check `activemq.url`, and that one of the brokers runs.",
        )

    @classmethod
    def _open(cls, dialing: Dialing, address: Address) -> Connection:
        context = dialing.tls() if address.is_tls else None
        try:
            sock = socket.create_connection((address.host, address.port), dialing.timeout_s)
        except OSError as error:
            raise _unavailable(address, error) from error
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if context is not None:
                sock = context.wrap_socket(sock, server_hostname=address.host)
            opened = cls(sock, address, dialing.timeout_s)
            opened._login(dialing)
        except RetriableError as error:
            sock.close()
            if context is None and error.code == _UNAVAILABLE and _greets_in_openwire(address):
                raise _not_stomp(address, _SPEAKS_OPENWIRE) from error
            raise
        except ssl.SSLError as error:
            sock.close()
            raise AuthError(
                "activemq.tls",
                f"TLS with {address}: {error.reason or error}",
                fix="Name the certificate that signed the broker's in `tls.ca`, and the host as "
                "the broker's certificate has it.",
                config_path="tls.ca",
            ) from error
        except OSError as error:
            sock.close()
            raise _unavailable(address, error) from error
        except BaseException:
            sock.close()
            raise
        return opened

    def _login(self, dialing: Dialing) -> None:
        beat = round(HEART_BEAT_S * 1000)
        headers = {"accept-version": "1.2", "host": self.address.host}
        headers["heart-beat"] = f"{beat},{beat}"
        if dialing.username:
            headers |= {"login": dialing.username, "passcode": dialing.password}
        if dialing.client_id:
            headers["client-id"] = dialing.client_id
        self.send(encode_frame("CONNECT", headers))
        answer = self._await(lambda frame: frame.command == "CONNECTED", "the connection", True)
        self.is_artemis = "artemis" in answer.headers.get("server", "").lower()
        mine, _, _ = answer.headers.get("heart-beat", "0,0").partition(",")
        self._is_lively = mine.strip() not in {"", "0"}
        threading.Thread(target=self._beat, name="stomp-heart-beat", daemon=True).start()

    def _beat(self) -> None:
        """Send a sign of life where nothing else was sent: also while the task waits for rows."""
        while not self._closing.wait(HEART_BEAT_S / 4):
            if time.monotonic() - self._sent_at < HEART_BEAT_S / 2:
                continue
            if not self._lock.acquire(blocking=False):
                continue
            try:
                if select.select([], [self._socket], [], 0)[1]:
                    self._socket.sendall(b"\n")
                    self._sent_at = time.monotonic()
            except (OSError, ValueError):  # who uses the connection finds out
                return
            finally:
                self._lock.release()

    def send(self, data: bytes) -> None:
        """Send frames.

        Raises:
            RetriableError: `activemq.no_answer`, `activemq.unavailable`.
        """
        try:
            with self._lock:
                self._socket.sendall(data)
                self._sent_at = time.monotonic()
        except TimeoutError as error:
            raise self._no_answer("the messages") from error
        except OSError as error:
            self._raise_last_words()
            raise _unavailable(self.address, error) from error

    def receive(self, timeout: float) -> list[Frame]:
        """Return the frames that come within some seconds; none, when none does.

        Raises:
            ConnectorError: the broker says that something failed, or is gone.
        """
        if self._frames:
            frames, self._frames = self._frames, []
            return frames
        began = time.monotonic()
        if not self._is_readable(timeout):
            self._silent_s += time.monotonic() - began
            if self._is_lively and self._silent_s > SILENT_S:
                raise self._no_answer("a sign of life")
            return []
        self._silent_s = 0.0
        frames = self._read()
        for at, frame in enumerate(frames):
            if frame.command == "ERROR":
                if at:  # what came before counts
                    self._frames = list(frames[at:])
                    return frames[:at]
                raise _failed(frame, self.address)
        return frames

    def _read(self, *, is_first: bool = False) -> list[Frame]:
        try:
            with self._lock:
                data = self._socket.recv(_RECEIVE_BYTES)
        except TimeoutError:
            return []
        except OSError as error:
            raise _unavailable(self.address, error) from error
        if not data:
            raise _unavailable(self.address, OSError("the broker closed the connection"))
        if is_first and data[4:].startswith(_OPENWIRE):
            raise _not_stomp(self.address, _SPEAKS_OPENWIRE)
        try:
            return self._decoder.feed(data)
        except ProtocolError as error:
            raise _not_stomp(self.address, str(error)) from error

    def _is_readable(self, timeout: float) -> bool:
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        try:
            return bool(select.select([self._socket], [], [], timeout)[0])
        except (OSError, ValueError) as error:
            raise _unavailable(self.address, OSError(str(error))) from error

    def _await(
        self, is_answer: Callable[[Frame], bool], what: str, is_login: bool = False
    ) -> Frame:
        until = time.monotonic() + self._timeout_s
        while (left := until - time.monotonic()) > 0:
            if not self._is_readable(left):
                continue
            for frame in self._read(is_first=is_login):
                if frame.command == "ERROR":
                    raise _failed(frame, self.address, is_login=is_login)
                if is_answer(frame):
                    return frame
        raise self._no_answer(what)

    def call(self, data: bytes, command: str, headers: dict[str, str], what: str) -> None:
        """Send frames and one more, and wait until the broker has done it. Messages that come
        meanwhile are dropped: for connections that only send.

        Raises:
            ConnectorError: as `receive`, and `activemq.no_answer`.
        """
        receipt = secrets.token_hex(8)
        self.send(data + encode_frame(command, {**headers, "receipt": receipt}))
        self._await(
            lambda one: one.command == "RECEIPT" and one.headers.get("receipt-id") == receipt, what
        )

    def _raise_last_words(self) -> None:
        """Say why the broker hung up, where it told."""
        with contextlib.suppress(RetriableError):
            while self._is_readable(0):
                for frame in self._read():
                    if frame.command == "ERROR":
                        raise _failed(frame, self.address)

    def _no_answer(self, what: str) -> RetriableError:
        return RetriableError(
            "activemq.no_answer",
            f"{self.address} has not answered {what} in time",
            fix="Look whether the broker hangs, or has no room: a full queue blocks who sends to "
            "it. `request.timeout` is the longest wait for an answer.",
        )

    def close(self) -> None:
        """Say goodbye, so that what was acknowledged last counts, and hang up."""
        self._closing.set()
        receipt, seen = secrets.token_hex(8), 0
        until = time.monotonic() + _GOODBYE_S
        try:
            self.send(encode_frame("DISCONNECT", {"receipt": receipt}))
            while time.monotonic() < until and seen < _MAX_GOODBYE_BYTES:
                if not self._is_readable(until - time.monotonic()):
                    break
                frames = self._read()
                seen += sum(len(one.body) for one in frames)
                if any(one.command in {"RECEIPT", "ERROR"} for one in frames):
                    break
        except ConnectorError:  # it is gone already
            pass
        finally:
            self._socket.close()


def _greets_in_openwire(address: Address) -> bool:
    """Return whether a broker speaks OpenWire there: it greets, unless a frame of STOMP, which is a
    giant to it, comes before it has.
    """
    try:
        with socket.create_connection((address.host, address.port), _GREETING_S) as sock:
            return sock.recv(_RECEIVE_BYTES)[4:].startswith(_OPENWIRE)
    except OSError:
        return False


def _unavailable(address: Address, error: OSError) -> RetriableError:
    return RetriableError(
        _UNAVAILABLE,
        f"{address}: {error.strerror or error or type(error).__name__}",
        fix="Check `activemq.url`, and that the broker runs and has a connector of STOMP there.",
    )


def _not_stomp(address: Address, why: str) -> ConfigError:
    return ConfigError(
        "activemq.not_stomp",
        f"{address} does not speak STOMP: {why}",
        fix="Name the broker's connector of STOMP, for instance `stomp://broker:61613`; Classic "
        'has one with `<transportConnector uri="stomp://0.0.0.0:61613"/>`.',
        config_path="activemq.url",
    )


def _failed(frame: Frame, address: Address, *, is_login: bool = False) -> ConnectorError:
    """Return what an ERROR of a broker means."""
    body = frame.body.decode(errors="replace").strip()
    said = frame.headers.get("message", "") or body.partition("\n")[0]
    text = f"{said} {body}"
    where = f"{address}: {said.partition(' CoreMessage[')[0][:500]}"  # no message in a log
    if is_login and _LOGIN_REFUSED.search(text):
        return AuthError(
            "activemq.login",
            where,
            fix="Set `activemq.username` and `activemq.password` to a user of the broker.",
            config_path="activemq.password",
        )
    if _NOT_ALLOWED.search(text):
        return AuthError(
            "activemq.not_authorized",
            where,
            fix="Allow the user to use the destination, and to create it if it is not there.",
        )
    if _FULL.search(text):
        return RetriableError(
            "activemq.full", where, fix="Let somebody read the queue, or give the broker more room."
        )
    if _IN_USE.search(text):
        return RetriableError(
            "activemq.in_use",
            where,
            fix="Another connector or client uses this `jms.client.id` or subscription; give each "
            "its own.",
        )
    if _SELECTOR.search(text):
        return ConfigError(
            "activemq.selector",
            where,
            fix="Write a selector of JMS, for instance `colour = 'red' AND size > 3`.",
            config_path="jms.message.selector",
        )
    return RetriableError(
        "activemq.refused", where, fix="Look into the log of the broker: a queue may be full."
    )
