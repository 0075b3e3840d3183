"""Connections to name servers and brokers: requests in flight, and answers as they come.

A broker answers in its own order, and a pull that waits for messages delays no other: so one
connection to an address is enough for a task. All waits have a deadline, and errors name the stage.
One thread uses a `Remoting`.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock_connector import AuthError, ConnectorError, DataError, RetriableError
from penstock_rocketmq.frames import (
    Answer,
    FrameReader,
    ProtocolError,
    Request,
    Response,
    Signer,
    encode_request,
)

CONNECT_TIMEOUT_S: Final = 5.0
"""Time for a connection, its TLS included."""

REQUEST_TIMEOUT_S: Final = 15.0
"""Time for an answer to one question, and for a request to be taken."""

_READ_BYTES: Final = 256 << 10

_IDLE_S: Final = 30.0
"""Brokers close a connection after two minutes without a frame, and networks may do so before."""

_STALE_S: Final = 1.0
"""A connection that fails sooner was closed before: brokers close those that are idle."""


@dataclass(frozen=True, slots=True)
class Dialing:
    """How connections are opened.

    Attributes:
        signer: Signs requests; None where no user logs in.
        tls: TLS of the connections; None for none.
        check_address: Raises for an address that must not be reached.
    """

    signer: Signer | None
    tls: ssl.SSLContext | None
    check_address: Callable[[str], None]


class Channel:
    """A connection to one address.

    Attributes:
        address: The address.
        used_at: When the last request was sent, by the monotonic clock.
    """

    def __init__(self, address: str, dialing: Dialing) -> None:
        self.address = address
        self._signer, self._reader = dialing.signer, FrameReader()
        self._kept: list[Response] = []
        self._opaque = 0
        self.used_at = time.monotonic()
        dialing.check_address(address)
        host, _, port = address.rpartition(":")
        try:
            self._socket = socket.create_connection(
                (host.strip("[]"), int(port)), CONNECT_TIMEOUT_S
            )
        except OSError as error:
            raise unavailable("connect", address, error) from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if dialing.tls is not None:
                self._socket = dialing.tls.wrap_socket(
                    self._socket, server_hostname=host.strip("[]")
                )
        except OSError as error:
            self._socket.close()
            raise _tls_failed(address, error) from error

    def fileno(self) -> int:
        """Return what can be waited for."""
        return self._socket.fileno()

    def send(self, code: Request, fields: Mapping[str, str], body: bytes = b"") -> int:
        """Send a request, and return the number of its answer."""
        self._opaque += 1
        self.used_at = time.monotonic()
        frame = encode_request(code, self._opaque, fields, body, self._signer)
        try:
            self._socket.settimeout(REQUEST_TIMEOUT_S)
            self._socket.sendall(frame)
        except OSError as error:
            raise unavailable(f"send {code.name}", self.address, error) from error
        return self._opaque

    def receive(self) -> list[Response]:
        """Return the answers that are there, without waiting."""
        found, self._kept = self._kept, []
        try:
            self._socket.settimeout(0.0)
            while True:
                data = self._socket.recv(_READ_BYTES)
                if not data:
                    raise unavailable("receive", self.address, "the connection was closed")
                found += self._reader.feed(data)
                if len(data) < _READ_BYTES and not isinstance(self._socket, ssl.SSLSocket):
                    return found
        except (BlockingIOError, ssl.SSLWantReadError):
            return found
        except ProtocolError as error:
            raise not_rocketmq(self.address, error) from error
        except OSError as error:
            raise unavailable("receive", self.address, error) from error

    def call(
        self,
        code: Request,
        fields: Mapping[str, str],
        stage: str,
        timeout_s: float = REQUEST_TIMEOUT_S,
        body: bytes = b"",
    ) -> Response:
        """Send a request and return its answer. Other answers that come are kept for `receive`."""
        wanted, deadline = self.send(code, fields, body), time.monotonic() + timeout_s
        others: list[Response] = []
        while (left := deadline - time.monotonic()) > 0:
            answers = self.receive()
            for position, answer in enumerate(answers):
                if answer.opaque == wanted:
                    self._kept = others + answers[:position] + answers[position + 1 :]
                    return answer
            others += answers
            wait_for([self], left)
        raise unavailable(stage, self.address, f"no answer within {timeout_s:g} s")

    @property
    def has_kept(self) -> bool:
        """Whether answers are there that nothing need be waited for."""
        return bool(self._kept)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def wait_for(channels: Iterable[Channel], timeout_s: float) -> list[Channel]:
    """Wait until some of the channels have something to receive, and return these."""
    by_fd = {channel.fileno(): channel for channel in channels}
    if kept := [channel for channel in by_fd.values() if channel.has_kept]:
        return kept
    poll = select.poll()
    for fd in by_fd:
        poll.register(fd, select.POLLIN)
    return [by_fd[fd] for fd, _ in poll.poll(max(timeout_s, 0.0) * 1000)]


class Remoting:
    """Connections by address, opened when they are needed."""

    def __init__(self, dialing: Dialing) -> None:
        self._dialing = dialing
        self._channels: dict[str, Channel] = {}

    def channel(self, address: str) -> Channel:
        """Return the connection to an address."""
        found = self._channels.get(address)
        if found is None:
            found = self._channels[address] = Channel(address, self._dialing)
        return found

    def drop(self, address: str) -> None:
        """Close a connection that has failed."""
        if (channel := self._channels.pop(address, None)) is not None:
            channel.close()

    def call(
        self,
        address: str,
        code: Request,
        fields: Mapping[str, str],
        stage: str,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> Response:
        """Ask an address. A connection that was closed while it was not used is opened again."""
        known = address in self._channels
        began = time.monotonic()
        try:
            return self.channel(address).call(code, fields, stage, timeout_s)
        except RetriableError:
            self.drop(address)
            if not known or time.monotonic() - began > _STALE_S:
                raise
        try:
            return self.channel(address).call(code, fields, stage, timeout_s)
        except RetriableError:
            self.drop(address)
            raise

    def drop_stale(self) -> None:
        """Close connections that were not used for a while, or that were closed by the other side.
        Nothing may be in flight.
        """
        for address, channel in list(self._channels.items()):
            try:
                channel.receive()
            except ConnectorError:
                self.drop(address)
            else:
                if time.monotonic() - channel.used_at > _IDLE_S:
                    self.drop(address)

    def close(self) -> None:
        """Close all connections."""
        for address in list(self._channels):
            self.drop(address)


def unavailable(stage: str, address: str, reason: object) -> RetriableError:
    """Return the error of an address that does not answer."""
    return RetriableError(
        "rocketmq.unavailable",
        f"{stage}: {address}: {reason}",
        fix="Check that the name servers of `namesrv.addr` and the brokers that they name run, and "
        "can be reached from here.",
    )


def not_rocketmq(address: str, reason: object) -> RetriableError:
    """Return the error of bytes that are not RocketMQ's."""
    return RetriableError(
        "rocketmq.protocol",
        f"{address}: {reason}",
        fix="Name the remoting port of a name server (9876) in `namesrv.addr`, not a proxy's. "
        "Brokers that want TLS need `tls.enable=true`.",
    )


def _tls_failed(address: str, error: OSError) -> ConnectorError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthError(
            "rocketmq.tls",
            f"{address}: {error.verify_message}",
            fix="Set `tls.trust.cert.path` to the certificates that sign the brokers', or "
            "`tls.check.hostname=false` where these name no addresses.",
        )
    return unavailable("TLS", address, error)


def to_connector_error(response: Response, address: str, stage: str) -> ConnectorError:
    """Return an answer that is not a success as an error of ours."""
    name = Answer(response.code).name if response.code in set(Answer) else str(response.code)
    text = f"{stage}: {address}: {response.remark or 'no reason was given'} ({name})"
    match response.code:
        case Answer.NO_PERMISSION:
            return AuthError(
                "rocketmq.not_authorized",
                text,
                fix="Check `access.key`, `secret.key`, the user's rights at the brokers, and the "
                "permissions of the topic and the group.",
            )
        case Answer.MESSAGE_ILLEGAL:
            return DataError(
                "rocketmq.too_large",
                text,
                fix="Lower `max.message.size` to `maxMessageSize` of the brokers.",
            )
        case Answer.FLUSH_DISK_TIMEOUT | Answer.FLUSH_SLAVE_TIMEOUT | Answer.SLAVE_NOT_AVAILABLE:
            return RetriableError(
                "rocketmq.not_durable",
                text,
                fix="Check the broker's disk and its slave: the message is there, and not yet as "
                "safe as the broker is configured to keep it.",
            )
        case Answer.SUBSCRIPTION_GROUP_NOT_EXIST:
            return RetriableError(
                "rocketmq.no_group",
                text,
                fix="Set `consumer.group` to a group that the brokers have.",
            )
    return RetriableError("rocketmq.refused", text, fix="Look into the log of the broker.")
