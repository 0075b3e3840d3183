"""What name servers and brokers say of topics: where their queues are, and how far they reach.

Name servers keep nothing: any of them that answers will do, and the one that did is asked first the
next time. What they say is checked: a name server may be another program, or lie.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from penstock_connector import ConnectorError, RetriableError
from penstock_rocketmq.config import ClusterConfig, is_address
from penstock_rocketmq.frames import Answer, ProtocolError, Request, Response, parse_json
from penstock_rocketmq.remoting import (
    Remoting,
    not_rocketmq,
    to_connector_error,
    unavailable,
)

T = TypeVar("T")

NAMESRV_TIMEOUT_S: Final = 5.0
"""Time for an answer of one name server: it has all in memory."""

_APPEAR_TIMEOUT_S: Final = 30.0
"""Time for a new topic to be known to the name servers: brokers tell them at once, and again every
30 s.
"""

AWAY_TIMEOUT_S: Final = 15.0
"""Time for a broker that is away to come back, when a task needs it to begin. The host waits 30 s
for a task to open.
"""

_PAUSE_S: Final = 0.1
_MASTER: Final = "0"
_READ, _WRITE = 4, 2
_MAX_QUEUES: Final = 65_536
_MAX_NAME: Final = 255

TOPIC_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]{1,127}")
"""What RocketMQ takes as the name of a topic."""

_SYSTEM: Final = re.compile(
    r"TBW102|SCHEDULE_TOPIC_XXXX|BenchmarkTest|RMQ_SYS_.*|TRANS_CHECK_MAX_TIME_TOPIC"
    r"|SELF_TEST_TOPIC|OFFSET_MOVED_EVENT|CHECKPOINT_TOPIC|rmq_sys_.*|%(?:RETRY|DLQ|SYS)%.*"
    r"|.*_REPLY_TOPIC"
)
"""Topics that RocketMQ makes for itself. Those named after brokers and clusters are such, too."""

_TEXT_OR_NUMBER_KEY: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|([{,]\s*)(-?\d+)(?=\s*:)')
"""Keys of objects that are numbers without quotes: RocketMQ writes some JSON so."""


@dataclass(frozen=True, slots=True, order=True)
class Queue:
    """A queue of a topic, at one broker."""

    broker: str
    number: int


@dataclass(frozen=True, slots=True)
class Route:
    """Where a topic is.

    Attributes:
        readable: Its queues that can be read, in order.
        writable: Those that can be written, in order.
        masters: The addresses of the brokers' masters.
    """

    readable: tuple[Queue, ...]
    writable: tuple[Queue, ...]
    masters: Mapping[str, str]


class Cluster:
    """The name servers and brokers of a configuration. Used by one thread."""

    def __init__(self, config: ClusterConfig) -> None:
        self._name_servers = config.name_servers
        self.remoting = Remoting(config.dialing())

    def close(self) -> None:
        """Close all connections."""
        self.remoting.close()

    def route(self, topic: str) -> Route | None:
        """Return where a topic is; None when the name servers do not know it."""
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        address, response = self._ask(Request.GET_ROUTEINFO_BY_TOPIC, fields, f"route of {topic}")
        if response.code == Answer.TOPIC_NOT_EXIST:
            return None
        return self._parsed(address, response, f"route of {topic}", parse_route)

    def list_topics(self) -> list[str]:
        """Return the topics that are not RocketMQ's own."""
        request = Request.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
        address, response = self._ask(request, {}, "topics")
        names = self._parsed(address, response, "topics", parse_topics)
        brokers, clusters = self._members()
        own = {*brokers, *clusters}
        return [name for name in names if name not in own and not _SYSTEM.fullmatch(name)]

    def list_masters(self) -> dict[str, str]:
        """Return the addresses of the masters by the names of their brokers."""
        return self._members()[0]

    def _members(self) -> tuple[dict[str, str], list[str]]:
        address, response = self._ask(Request.GET_BROKER_CLUSTER_INFO, {}, "brokers")
        return self._parsed(address, response, "brokers", parse_members)

    def ensure_topic(self, topic: str, queues: int) -> bool:
        """Create a topic at all masters unless one has it, and wait until the name servers know it.
        Return whether it was created.

        Name servers forget topics of brokers that are away, and the request that creates a topic
        changes one that exists: so the brokers are asked.
        """
        if self.route(topic) is not None:
            return False
        stage = f"creation of topic {topic}"
        masters = self._until(self.list_masters, stage, "any broker").values()
        exists = any(self._has_topic(address, topic) for address in masters)
        for address in () if exists else masters:
            fields = topic_fields(topic, queues)
            self.ask(address, Request.UPDATE_AND_CREATE_TOPIC, fields, stage)
        deadline = time.monotonic() + _APPEAR_TIMEOUT_S
        while (route := self.route(topic)) is None or not route.writable:
            if time.monotonic() > deadline:
                raise unavailable(stage, ", ".join(self._name_servers), "it does not appear there")
            time.sleep(_PAUSE_S)
        return not exists

    def _has_topic(self, address: str, topic: str) -> bool:
        stage = f"look for topic {topic}"
        fields = {"topic": topic}
        response = self.remoting.call(address, Request.GET_TOPIC_STATS_INFO, fields, stage)
        if response.code not in {Answer.SUCCESS, Answer.TOPIC_NOT_EXIST}:
            raise to_connector_error(response, address, stage)
        return response.code == Answer.SUCCESS

    def find_master(self, topic: str, broker: str) -> str:
        """Return the address of the master of a broker, and wait for one that is away."""

        def address() -> str | None:
            route = self.route(topic)
            return route.masters.get(broker) if route is not None else None

        return self._until(address, f"route of {topic}", broker)

    @staticmethod
    def _until(ask: Callable[[], T | None], stage: str, broker: str) -> T:
        deadline = time.monotonic() + AWAY_TIMEOUT_S
        while not (found := ask()):
            if time.monotonic() > deadline:
                raise no_master(stage, broker)
            time.sleep(_PAUSE_S)
        return found

    def bounds(self, address: str, topic: str, number: int) -> tuple[int, int]:
        """Return the first offset of a queue, and the one after its last message."""
        fields = {"topic": topic, "queueId": str(number)}
        stage = f"offsets of queue {number} of {topic}"
        low = self.ask_number(address, Request.GET_MIN_OFFSET, fields, stage)
        return max(low, 0), self.ask_number(address, Request.GET_MAX_OFFSET, fields, stage)

    def offset_at(self, address: str, topic: str, number: int, timestamp_ms: int) -> int:
        """Return the offset of the first message that was stored at a time, or later."""
        fields = {"topic": topic, "queueId": str(number), "timestamp": str(timestamp_ms)}
        stage = f"offset of queue {number} of {topic} at a time"
        return self.ask_number(address, Request.SEARCH_OFFSET_BY_TIMESTAMP, fields, stage)

    def ask_number(self, address: str, code: Request, fields: Mapping[str, str], stage: str) -> int:
        """Ask a broker for an offset."""
        response = self.ask(address, code, fields, stage)
        try:
            return response.number("offset")
        except ProtocolError as error:
            raise not_rocketmq(address, error) from error

    def ask(self, address: str, code: Request, fields: Mapping[str, str], stage: str) -> Response:
        """Ask a broker."""
        response = self.remoting.call(address, code, fields, stage)
        if response.code != Answer.SUCCESS:
            raise to_connector_error(response, address, stage)
        return response

    def _ask(self, code: Request, fields: Mapping[str, str], stage: str) -> tuple[str, Response]:
        """Ask the name servers, one after the other, until one answers."""
        failed: ConnectorError | None = None
        for address in list(self._name_servers):
            try:
                response = self.remoting.call(address, code, fields, stage, NAMESRV_TIMEOUT_S)
                if response.code not in {Answer.SUCCESS, Answer.TOPIC_NOT_EXIST}:
                    raise to_connector_error(response, address, stage)
            except RetriableError as error:
                failed = failed or error
                continue
            self._name_servers.remove(address)
            self._name_servers.insert(0, address)
            return address, response
        assert failed is not None  # noqa: S101 - there is at least one name server
        raise failed

    @staticmethod
    def _parsed(address: str, response: Response, stage: str, parse: Callable[[bytes], T]) -> T:
        if response.code != Answer.SUCCESS:
            raise to_connector_error(response, address, stage)
        try:
            return parse(response.body)
        except ProtocolError as error:
            raise not_rocketmq(address, f"{stage}: {error}") from error


def topic_fields(topic: str, queues: int) -> dict[str, str]:
    """Return the fields of a request that creates a topic."""
    return {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queues),
        "writeQueueNums": str(queues), "perm": str(_READ | _WRITE), "order": "false",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0",
        "attributes": "+message.type=NORMAL",
    }  # fmt: skip


def no_master(stage: str, broker: str) -> RetriableError:
    """Return the error of a broker whose master is away."""
    return RetriableError(
        "rocketmq.no_master",
        f"{stage}: the name servers know no master of {broker}",
        fix="Start the broker; `mqadmin clusterList` shows those that the name servers know.",
    )


def _parse_object(body: bytes) -> dict[str, Any]:
    def quoted(found: re.Match[bytes]) -> bytes:
        return found[0] if found[1] is None else found[1] + b'"' + found[2] + b'"'

    value = parse_json(_TEXT_OR_NUMBER_KEY.sub(quoted, body))
    if not isinstance(value, dict):
        raise ProtocolError(f"{body[:60]!r} is not a JSON object")
    return value


def parse_topics(body: bytes) -> list[str]:
    """Return the names of a list of topics."""
    names = _parse_object(body).get("topicList") or []
    if not (isinstance(names, list) and all(map(_is_name, names))):
        raise ProtocolError("the list of topics has something else than names")
    return names


def parse_members(body: bytes) -> tuple[dict[str, str], list[str]]:
    """Return the masters of a cluster by their brokers' names, and the names of the clusters."""
    value = _parse_object(body)
    brokers, clusters = value.get("brokerAddrTable") or {}, value.get("clusterAddrTable") or {}
    if not (isinstance(brokers, dict) and isinstance(clusters, dict)):
        raise ProtocolError("the list of brokers is none")
    return dict(_masters(brokers.values())), list(clusters)


def parse_route(body: bytes) -> Route:
    """Return the route of a topic."""
    value = _parse_object(body)
    queues, brokers = value.get("queueDatas") or [], value.get("brokerDatas") or []
    if not (isinstance(queues, list) and isinstance(brokers, list)):
        raise ProtocolError("the route has no lists")
    masters = dict(_masters(brokers))
    known = {one["brokerName"] for one in brokers}
    return Route(
        tuple(sorted(_queues(queues, known, "readQueueNums", _READ))),
        tuple(sorted(_queues(queues, known, "writeQueueNums", _WRITE))),
        masters,
    )


def _masters(brokers: Any) -> Iterator[tuple[str, str]]:
    for one in brokers:
        addresses = one.get("brokerAddrs") if isinstance(one, dict) else None
        if not (isinstance(addresses, dict) and _is_name(one.get("brokerName"))):
            raise ProtocolError("a broker has no name, or no addresses")
        if (address := addresses.get(_MASTER)) is not None:
            if not (isinstance(address, str) and is_address(address)):
                raise ProtocolError(f"{str(address)[:100]!r} is not the address of a broker")
            yield one["brokerName"], address


def _queues(queues: list[Any], known: set[str], count: str, permission: int) -> Iterator[Queue]:
    for one in queues:
        numbers = (one.get(count), one.get("perm")) if isinstance(one, dict) else (None, None)
        if not all(isinstance(number, int) and 0 <= number <= _MAX_QUEUES for number in numbers):
            raise ProtocolError("the route has queues without numbers")
        if one.get("brokerName") in known and one["perm"] & permission:
            yield from (Queue(one["brokerName"], number) for number in range(one[count]))


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and 0 < len(text) <= _MAX_NAME
