"""Clients of the brokers, and Kafka's errors as ours."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from penstock_connector import (
    AuthError,
    ConfigError,
    ConnectorError,
    DataError,
    FencedError,
    OffsetLostError,
    RetriableError,
)
from penstock_connector.converter_keys import ConverterKeys
from penstock_kafka.client_settings import ClientKind, translate
from penstock_kafka.login import LoginConfig

T = TypeVar("T")

NO_KEYS: Final[Mapping[str, str]] = {}

REQUEST_TIMEOUT_S: Final = 20.0
"""Time for an answer of a broker to one question; a new cluster needs some seconds for its first
transaction. The host gives up on an opening after 30 s, and could not say what it waited for.
"""

_LOG: Final = logging.getLogger("penstock_kafka.client")
_LOG.setLevel(logging.CRITICAL)

REACH_TIMEOUT_S: Final = 10.0
"""Time for the first answer: brokers that are there need less."""

_FENCED: Final = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001 - the library's names of its own errors
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
    }
)
_AUTH: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
NO_GROUP: Final = KafkaError.GROUP_AUTHORIZATION_FAILED
"""Reported by a consumer whose user has no right to its group. The client requests the group's
coordinator also where it is assigned its partitions, and reads them without it.
"""

OFFSET_LOST: Final = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
        KafkaError.OFFSET_OUT_OF_RANGE,
    }
)
_MOVING: Final = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)
"""Of a topic that was just created, or whose leader changes; of a group's coordinator, too."""

UNANSWERED: Final = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    }
)
"""Of a broker that is away, or did not answer in time."""

_NO_ROOM: Final = "thread local storage"
"""What the client says when the process has no more of it: each client takes one of 1,024 keys."""

_OF_TOPIC: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_EXCEPTION})
"""Of one topic among those that were asked for: it has no right, or such a name cannot be."""

_PAUSE_S: Final = 0.1
_LOOK_S: Final = 1.0
"""Time after which a call that has no answer is asked whether its login was refused."""

_TOO_LARGE: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE})
_CORRUPT: Final = frozenset(
    {
        KafkaError._BAD_MSG,  # noqa: SLF001
        KafkaError._BAD_COMPRESSION,  # noqa: SLF001
        KafkaError.INVALID_MSG,
    }
)
_INVALID: Final = frozenset(
    {
        KafkaError.INVALID_RECORD,
        KafkaError._INVALID_DIFFERENT_RECORD,  # noqa: SLF001
        KafkaError.INVALID_TIMESTAMP,
    }
)


@dataclass(frozen=True)
class MessageConfig(ConverterKeys, LoginConfig):
    """How messages are made of rows, and rows of messages."""

    def __post_init__(self) -> None:
        """Refuse what cannot mean anything."""
        super().__post_init__()
        self.check_converters()

    def unused_keys(self) -> Mapping[str, str]:
        """Return the keys that are set and do nothing, and why."""
        return {**super().unused_keys(), **self.unused_converter_keys()}


class Broker:
    """The brokers of a configuration, as one kind of client sees them.

    A client tells of its connections beside its calls: a call that had no answer fails with that,
    and only what was told before says that a login was refused.
    """

    def __init__(
        self, config: LoginConfig, kind: ClientKind, keys: Mapping[str, str] = NO_KEYS
    ) -> None:
        self._login = config.login(kind, keys)
        self._client = translate(kind, keys).settings
        self._refused: KafkaError | None = None

    def settings(self, **more: Any) -> dict[str, Any]:
        """Return the settings of a client: those of `more`, and over them those of the user. Keys
        of `more` have `_` for the dots of their names.
        """
        names = {name.replace("_", "."): value for name, value in more.items()}
        own = {"error_cb": self._note, "logger": _LOG}
        return self._login.settings() | own | names | dict(self._client)

    def for_offsets(self) -> Broker:
        """Return the same brokers for clients with no settings of a user."""
        return Broker(self._login, "consumer")

    def _note(self, error: KafkaError) -> None:
        if error.code() in _AUTH:
            self._refused = error

    @contextmanager
    def errors(self, stage: str, client: Any = None) -> Iterator[None]:
        """Raise Kafka's errors in the body as ours. `stage` is what was done; `client` is polled
        for what it has to tell, and must not be one that reads.
        """
        try:
            yield
        except KafkaException as failure:
            error = failure.args[0]
            if client is not None:
                with suppress(KafkaException):  # a fatal error is raised again, and is this one
                    client.poll(0)
            if self._refused is not None and error.code() in UNANSWERED:
                error = self._refused
            if error.code() in UNANSWERED:
                stage = f"{stage} at {', '.join(self._login.bootstrap_servers)}"
            raise to_connector_error(error, stage) from failure
        except RuntimeError as failure:
            if _NO_ROOM not in str(failure):
                raise
            raise RetriableError(
                "kafka.too_many_clients",
                f"{stage}: this process has as many clients of Kafka as its C library allows, some "
                "1,000",
                fix="Start more workers: each has about 1,000 tasks on topics of Kafka at most.",
            ) from failure

    def open(self, kind: Callable[[dict[str, Any]], T], settings: dict[str, Any]) -> T:
        """Return a new client: an `AdminClient`, a `Consumer` or a `Producer`.

        Raises:
            ConfigError: `kafka.setting`.
            RetriableError: `kafka.too_many_clients`.
        """
        with self.errors("settings of the client"):
            return kind(settings)

    def admin(self) -> AdminClient:
        """Return a new client for topics."""
        return self.open(AdminClient, self.settings())

    def describe(
        self, admin: AdminClient, topics: Sequence[str], stage: str
    ) -> dict[str, list[int]]:
        """Return the partitions of those of some topics that exist. A refused login is an error at
        once.
        """
        if not topics:
            return {}
        found: dict[str, list[int]] = {}
        with self.errors(stage, admin):
            names = TopicCollection(list(dict.fromkeys(topics)))
            asked = admin.describe_topics(names, request_timeout=REACH_TIMEOUT_S)
            for topic, answer in asked.items():
                try:
                    described = self._wait_for_answer(admin, answer)
                except KafkaException as failure:
                    error = failure.args[0]
                    if error.code() in _OF_TOPIC:
                        raise to_connector_error(error, f"topic {topic}") from failure
                    if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
                else:
                    found[topic] = sorted(one.id for one in described.partitions)
        return found

    def _wait_for_answer(self, admin: AdminClient, answer: Future[T]) -> T:
        deadline = time.monotonic() + 2 * REACH_TIMEOUT_S  # the client ends it earlier
        while True:
            try:
                return answer.result(_LOOK_S)
            except TimeoutError:
                admin.poll(0)
                if self._refused is not None:
                    raise KafkaException(self._refused) from None
                if time.monotonic() > deadline:
                    raise

    def topics(self, client: Any, stage: str) -> Mapping[str, Any]:
        """Return the topics that the brokers have, by name. A refused login is an error at once."""
        deadline = time.monotonic() + REACH_TIMEOUT_S
        while True:
            left = deadline - time.monotonic()
            with self.errors(stage, client):
                try:
                    return dict(client.list_topics(timeout=min(left, _LOOK_S)).topics)
                except KafkaException as failure:
                    client.poll(0)
                    answered = failure.args[0].code() not in UNANSWERED
                    if answered or self._refused is not None or left <= _LOOK_S:
                        raise

    def ask(self, stage: str, question: Callable[[], T]) -> T:
        """Return the answer to a question, which is asked again while a topic moves or is new."""
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        while True:
            with self.errors(stage):
                try:
                    return question()
                except KafkaException as failure:
                    if failure.args[0].code() not in _MOVING or time.monotonic() > deadline:
                        raise
            time.sleep(_PAUSE_S)


def to_connector_error(error: KafkaError, stage: str) -> ConnectorError:
    """Return an error of Kafka as ours."""
    code, text = error.code(), f"{stage}: {error.str()} ({error.name()})"
    if code in _FENCED:
        return FencedError(
            "kafka.fenced",
            text,
            fix="No action is needed: a newer run of the task writes, and this one ends.",
        )
    if code in _AUTH:
        return AuthError(
            "kafka.not_authorized",
            text,
            fix="Check the user, its password or certificate, and its rights at the brokers.",
        )
    if code in OFFSET_LOST:
        return OffsetLostError(
            "kafka.offset_lost",
            text,
            fix="Raise the topic's retention; set `auto.offset.reset` to go on with what is there.",
        )
    if code == KafkaError._INVALID_ARG:  # noqa: SLF001 - a setting that librdkafka refuses
        return ConfigError(
            "kafka.setting",
            text,
            fix="Correct the key of `producer.…`, `consumer.…` or `admin.…` that has this value.",
        )
    if code in _TOO_LARGE:
        return DataError(
            "kafka.too_large",
            text,
            fix="Raise `max.message.bytes` of the topic and `producer.max.request.size`.",
        )
    if code in _CORRUPT:
        return DataError(
            "kafka.corrupt_record",
            text,
            fix="Restore the partition from another replica, or stop the connector and let it go "
            "on behind the batch (`penstock offsets`). `errors.tolerance` does not leave it out.",
        )
    if code in _INVALID:
        return DataError(
            "kafka.invalid_record",
            text,
            fix="Give messages of a compacted topic keys; check `message.timestamp.before.max.ms` "
            "and `….after.max.ms` of the topic.",
        )
    return RetriableError(
        "kafka.unavailable",
        text,
        fix="Check that the brokers of `bootstrap.servers` run and can be reached from here.",
    )
