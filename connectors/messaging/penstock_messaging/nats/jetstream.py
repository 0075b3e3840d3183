"""Requests of JetStream: streams, and consumers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock_connector import ConfigError, ConnectorError, RetriableError
from penstock_messaging.nats.config import NatsConfig
from penstock_messaging.nats.connection import Connection
from penstock_messaging.nats.protocol import ProtocolError, encode_publish, parse_object

_NO_STREAM: Final = 10059
_NO_CONSUMER: Final = 10014
_NOT_ENABLED: Final = frozenset({10039, 10076})
_INVALID: Final = 400


@dataclass(frozen=True, slots=True)
class Stream:
    """What a stream is, and what it has.

    Attributes:
        subjects: Filters of the subjects that it takes.
        retention: `limits`, `interest` or `workqueue`.
        created: When it was created, in the server's words.
        first: Number of its first message; of an empty one, that of the next.
        last: Number of its last message, which may be removed; 0: it never had one.
        max_message_bytes: Bytes of the largest message; -1: any.
    """

    subjects: Sequence[str]
    retention: str
    created: str
    first: int
    last: int
    max_message_bytes: int


@dataclass(frozen=True, slots=True)
class Consumer:
    """What a consumer has done.

    Attributes:
        delivered: Number of the last message that it gave, or passed over.
        deliveries: How often it gave one.
        pending: Messages that it has not given.
    """

    delivered: int
    deliveries: int
    pending: int


class JetStream:
    """Requests about one stream, over one connection."""

    def __init__(self, config: NatsConfig, connection: Connection) -> None:
        self._name, self._api, self._connection = config.nats_stream, config.api, connection

    def stream(self) -> Stream:
        """Return what the stream is.

        Raises:
            ConfigError: `nats.no_stream`.
        """
        found = self._request(f"STREAM.INFO.{self._name}", {}, "for the stream")
        given, state = found["config"], found["state"]
        first, last = int(state["first_seq"]), int(state["last_seq"])
        return Stream(
            given.get("subjects") or [],
            str(given.get("retention", "limits")),
            str(found.get("created", "")),
            first if state.get("messages") else last + 1,
            last,
            int(given.get("max_msg_size", -1)),
        )

    def create_consumer(self, name: str, settings: Mapping[str, Any]) -> Consumer:
        """Create a durable consumer."""
        body = {"stream_name": self._name, "config": {"durable_name": name, **settings}}
        what = f"to create the consumer {name!r}"
        return _consumer(self._request(f"CONSUMER.DURABLE.CREATE.{self._name}.{name}", body, what))

    def consumer(self, name: str) -> Consumer | None:
        """Return what a consumer has done; None: there is none."""
        found = self._request(
            f"CONSUMER.INFO.{self._name}.{name}", {}, "for the consumer", allowed=_NO_CONSUMER
        )
        return _consumer(found) if found else None

    def delete_consumer(self, name: str) -> bool:
        """Delete a consumer; return whether there was one."""
        what = f"to delete the consumer {name!r}"
        found = self._request(
            f"CONSUMER.DELETE.{self._name}.{name}", {}, what, allowed=_NO_CONSUMER
        )
        return bool(found)

    def pull(self, name: str, reply: str, count: int, size: int, expires_s: float) -> None:
        """Ask for messages of a consumer, up to some bytes. They come to `reply`."""
        order = {"batch": count, "max_bytes": size, "expires": round(expires_s * 1e9)}
        subject = f"{self._api}.CONSUMER.MSG.NEXT.{self._name}.{name}"
        self._connection.send(encode_publish(subject, json.dumps(order).encode(), reply))

    def _request(
        self, verb: str, body: Mapping[str, Any], what: str, *, allowed: int = 0
    ) -> Mapping[str, Any]:
        """Return an answer; none for an error that is allowed."""
        payload = json.dumps(body).encode() if body else b""
        answer = self._connection.request(f"{self._api}.{verb}", payload, what=f"a request {what}")
        found = parse_answer(answer.payload)
        error = found.get("error")
        if not error:
            return found
        if allowed and int(error.get("err_code", 0)) == allowed:
            return {}
        raise failed(error, self._name, what)


def require_stream(config: NatsConfig) -> None:
    """Connect, and look for the stream.

    Raises:
        ConnectorError: no server takes the connection, or there is no such stream.
    """
    connection = Connection.open(config.dialing())
    try:
        JetStream(config, connection).stream()
    finally:
        connection.close()


def parse_answer(data: bytes) -> Mapping[str, Any]:
    """Return an answer.

    Raises:
        RetriableError: `nats.refused`: it is none of JetStream.
    """
    try:
        return parse_object(data)
    except ProtocolError as error:
        fix = "Look who else answers to the subjects of JetStream, `$JS.API.>`."
        raise RetriableError("nats.refused", f"JetStream: {error}", fix=fix) from error


def failed(error: Mapping[str, Any], stream: str, what: str) -> ConnectorError:
    """Return what an error of JetStream means."""
    number, said = int(error.get("err_code", 0)), str(error.get("description", ""))[:500]
    if number == _NO_STREAM:
        return ConfigError(
            "nats.no_stream",
            f"there is no stream {stream!r}",
            fix=f"Create it: nats stream add {stream} --subjects '{stream}.>' --defaults; or "
            "correct `nats.stream`.",
            config_path="nats.stream",
        )
    if number in _NOT_ENABLED:
        return ConfigError(
            "nats.no_jetstream",
            f"JetStream is not enabled: {said}",
            fix="Start the server with `-js`, and enable JetStream for the account.",
            config_path="nats.servers",
        )
    message = f"JetStream refuses a request {what}: {said} ({number})"
    if int(error.get("code", 0)) == _INVALID:
        return ConfigError(
            "nats.request_refused",
            message,
            fix="Change the keys of the connector, or the stream, as the server says.",
            config_path="nats.stream",
        )
    return RetriableError(
        "nats.refused", message, fix="Look into the log of the server, and at its disk."
    )


def _consumer(found: Mapping[str, Any]) -> Consumer:
    delivered = found["delivered"]
    return Consumer(
        int(delivered["stream_seq"]),
        int(delivered["consumer_seq"]),
        int(found.get("num_pending", 0)),
    )
