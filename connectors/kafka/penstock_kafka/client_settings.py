"""Settings of Kafka's clients in Java as those of librdkafka. Pure.

    translate("producer", {"linger.ms": "5", "max.block.ms": "1"})

`linger.ms` is in force, and a warning says why `max.block.ms` is not.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from penstock_connector import ConfigError

ClientKind = Literal["producer", "consumer", "admin"]

LOGIN_PREFIXES: Final = ("bootstrap.servers", "security.protocol", "sasl.", "ssl.")
"""Keys of a client that are those of the connection (`penstock_kafka.login`)."""

_JAVA: Final = "it names a class of Java"
_BY_BROKERS: Final = "the brokers check tokens; a client reads only their expiry and their user"
_OF_BROKERS: Final = "it is a key of brokers, which check tokens"

LOGIN_UNUSED: Final[Mapping[str, str]] = {
    "ssl.protocol": "OpenSSL chooses the newest version that both sides have",
    "ssl.enabled.protocols": "OpenSSL chooses the newest version that both sides have",
    "ssl.cipher.suites": "Java's names of ciphers are not those of OpenSSL",
    "ssl.provider": _JAVA,
    "ssl.keymanager.algorithm": _JAVA,
    "ssl.trustmanager.algorithm": _JAVA,
    "ssl.secure.random.implementation": _JAVA,
    "ssl.engine.factory.class": _JAVA,
    "ssl.client.auth": "it is a key of servers",
    "sasl.login.class": _JAVA,
    "sasl.login.callback.handler.class": _JAVA,
    "sasl.client.callback.handler.class": _JAVA,
    "sasl.login.connect.timeout.ms": "librdkafka has its own",
    "sasl.login.read.timeout.ms": "librdkafka has its own",
    "sasl.login.retry.backoff.ms": "librdkafka has its own",
    "sasl.login.retry.backoff.max.ms": "librdkafka has its own",
    "sasl.login.refresh.window.factor": "tokens are renewed at 80 % of their life",
    "sasl.login.refresh.window.jitter": "tokens are renewed at 80 % of their life",
    "sasl.login.refresh.min.period.seconds": "tokens are renewed at 80 % of their life",
    "sasl.login.refresh.buffer.seconds": "tokens are renewed at 80 % of their life",
    "sasl.oauthbearer.jwt.validator.class": _BY_BROKERS,
    "sasl.oauthbearer.scope.claim.name": _BY_BROKERS,
    "sasl.oauthbearer.jwks.endpoint.url": _OF_BROKERS,
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": _OF_BROKERS,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": _OF_BROKERS,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": _OF_BROKERS,
    "sasl.oauthbearer.clock.skew.seconds": _OF_BROKERS,
    "sasl.oauthbearer.expected.audience": _OF_BROKERS,
    "sasl.oauthbearer.expected.issuer": _OF_BROKERS,
    "sasl.kerberos.kinit.cmd": "there is no login by Kerberos",
    "sasl.kerberos.service.name": "there is no login by Kerberos",
    "sasl.kerberos.min.time.before.relogin": "there is no login by Kerberos",
    "sasl.kerberos.ticket.renew.jitter": "there is no login by Kerberos",
    "sasl.kerberos.ticket.renew.window.factor": "there is no login by Kerberos",
}
"""Keys of a connection that do nothing here, and why."""

_MAX_IN_FLIGHT: Final = 5
"""More requests in flight could come out of order, and Kafka's producer refuses them, too."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """What a client is created with, and the keys that have no effect, with the reason."""

    settings: Mapping[str, Any]
    unused: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _InForce:
    """A key with an effect.

    Attributes:
        name: The name of librdkafka; empty: the connector itself reads the key.
        parse: Returns the value, or raises ValueError.
        expected: What `parse` takes.
    """

    name: str
    parse: Callable[[str], Any] = int
    expected: str = "a whole number"


def _choice(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return parse


def _text(name: str) -> _InForce:
    return _InForce(name, str, "a text")


def _of(name: str, *choices: str) -> _InForce:
    return _InForce(name, _choice(*choices), f"one of {', '.join(choices)}")


def _kib(text: str) -> int:
    return max(int(text) // 1024, 1)


def _above_zero(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _in_flight(text: str) -> int:
    number = _above_zero(text)
    if number > _MAX_IN_FLIGHT:
        raise ValueError(text)
    return number


_TRANSACTIONS: Final = "rows are written in transactions, and those need it to be as it is"
_NO_GROUP: Final = "partitions are assigned by Penstock, and not by a consumer group"
_CONVERTERS: Final = "the converters make bytes of rows, and rows of bytes"
_DEADLINES: Final = "requests have deadlines of their own"

_Table = Mapping[str, _InForce | str]

_COMMON: Final[_Table] = {
    "client.id": _text("client.id"),
    "client.rack": _text("client.rack"),
    "client.dns.lookup": _of(
        "client.dns.lookup", "use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"
    ),
    "metadata.max.age.ms": _InForce("topic.metadata.refresh.interval.ms"),
    "metadata.recovery.strategy": _of("metadata.recovery.strategy", "none", "rebootstrap"),
    "metadata.recovery.rebootstrap.trigger.ms": _InForce(
        "metadata.recovery.rebootstrap.trigger.ms"
    ),
    "connections.max.idle.ms": _InForce("connections.max.idle.ms"),
    "reconnect.backoff.ms": _InForce("reconnect.backoff.ms"),
    "reconnect.backoff.max.ms": _InForce("reconnect.backoff.max.ms"),
    "retry.backoff.ms": _InForce("retry.backoff.ms"),
    "retry.backoff.max.ms": _InForce("retry.backoff.max.ms"),
    "request.timeout.ms": _InForce("socket.timeout.ms"),
    "send.buffer.bytes": _InForce("socket.send.buffer.bytes"),
    "receive.buffer.bytes": _InForce("socket.receive.buffer.bytes"),
    "socket.connection.setup.timeout.ms": _InForce("socket.connection.setup.timeout.ms"),
    "enable.metrics.push": _of("enable.metrics.push", "true", "false"),
    "socket.connection.setup.timeout.max.ms": "the time of the first try counts for each",
    "default.api.timeout.ms": _DEADLINES,
    "interceptor.classes": _JAVA,
    "metric.reporters": _JAVA,
    "metrics.num.samples": "the figures are those of Penstock",
    "metrics.recording.level": "the figures are those of Penstock",
    "metrics.sample.window.ms": "the figures are those of Penstock",
    "auto.include.jmx.reporter": "the figures are those of Penstock",
    "config.providers": "references are resolved by the worker",
    "security.providers": _JAVA,
}

_PRODUCER: Final[_Table] = {
    **_COMMON,
    "batch.size": _InForce("batch.size", _above_zero, "a number above 0"),
    "linger.ms": _InForce("linger.ms"),
    "compression.type": _of("compression.type", "none", "gzip", "snappy", "lz4", "zstd"),
    "compression.gzip.level": _InForce("compression.level"),
    "compression.lz4.level": _InForce("compression.level"),
    "compression.zstd.level": _InForce("compression.level"),
    "max.request.size": _InForce("message.max.bytes"),
    "buffer.memory": _InForce("queue.buffering.max.kbytes", _kib),
    "delivery.timeout.ms": _InForce("delivery.timeout.ms"),
    "retries": _InForce("message.send.max.retries", _above_zero, "a number above 0"),
    "max.in.flight.requests.per.connection": _InForce(
        "max.in.flight", _in_flight, f"a number from 1 to {_MAX_IN_FLIGHT}"
    ),
    "transaction.timeout.ms": _InForce("transaction.timeout.ms"),
    "acks": _TRANSACTIONS,
    "enable.idempotence": _TRANSACTIONS,
    "transactional.id": "each task has its own (`transactional.id.prefix`)",
    "transaction.two.phase.commit.enable": _TRANSACTIONS,
    "max.block.ms": _DEADLINES,
    "metadata.max.idle.ms": "a client forgets topics when its task ends",
    "key.serializer": _CONVERTERS,
    "value.serializer": _CONVERTERS,
    "partitioner.adaptive.partitioning.enable": "messages without keys go to any partition",
    "partitioner.availability.timeout.ms": "messages without keys go to any partition",
}

_CONSUMER: Final[_Table] = {
    **_COMMON,
    "max.poll.records": _InForce("", _above_zero, "a number above 0"),
    "isolation.level": _of("isolation.level", "read_committed", "read_uncommitted"),
    "fetch.min.bytes": _InForce("fetch.min.bytes"),
    "fetch.max.wait.ms": _InForce("fetch.wait.max.ms"),
    "fetch.max.bytes": _InForce("fetch.max.bytes"),
    "max.partition.fetch.bytes": _InForce("fetch.message.max.bytes"),
    "check.crcs": _of("check.crcs", "true", "false"),
    "exclude.internal.topics": _of("", "true", "false"),
    "group.id": _text(""),
    "group.instance.id": _NO_GROUP,
    "group.protocol": _NO_GROUP,
    "group.remote.assignor": _NO_GROUP,
    "heartbeat.interval.ms": _NO_GROUP,
    "session.timeout.ms": _NO_GROUP,
    "max.poll.interval.ms": _NO_GROUP,
    "partition.assignment.strategy": _NO_GROUP,
    "internal.leave.group.on.close": _NO_GROUP,
    "enable.auto.commit": "offsets are kept by Penstock",
    "auto.commit.interval.ms": "offsets are kept by Penstock",
    "auto.offset.reset": "`auto.offset.reset` of the connector says it",
    "allow.auto.create.topics": "reading never creates a topic",
    "key.deserializer": _CONVERTERS,
    "value.deserializer": _CONVERTERS,
}

_ADMIN: Final[_Table] = {
    **_COMMON,
    "retries": "questions are asked again until their deadline",
    "bootstrap.controllers": "the brokers are asked",
}

_TABLES: Final[Mapping[ClientKind, _Table]] = {
    "producer": _PRODUCER,
    "consumer": _CONSUMER,
    "admin": _ADMIN,
}

_PARTITIONERS: Final[Mapping[str, str]] = {
    "": "murmur2_random",
    "DefaultPartitioner": "murmur2_random",
    "UniformStickyPartitioner": "random",
    "RoundRobinPartitioner": "random",
}
"""Kafka's own partitioners; those without keys spread rows evenly."""


def translate(kind: ClientKind, keys: Mapping[str, str]) -> ClientSettings:
    """Return the settings of a client. `keys` have no prefix; those of the connection are left
    out.

    Raises:
        ConfigError: `config.invalid_value`, with the prefix `producer.`, ….
    """
    table = _TABLES[kind]
    settings: dict[str, Any] = {}
    unused: dict[str, str] = {}
    for name, text in keys.items():
        path = f"{kind}.{name}"
        if name.startswith(LOGIN_PREFIXES):
            continue
        if kind == "producer" and name in {"partitioner.class", "partitioner.ignore.keys"}:
            settings["partitioner"] = _partitioner(keys, path)
            continue
        known = table.get(name)
        if known is None:
            unused[path] = unknown_key(name, table)
            continue
        if isinstance(known, str):
            unused[path] = known
            continue
        value = _parse(known, text.strip(), path)
        if known.name:
            settings[known.name] = value
    return ClientSettings(settings, unused)


def _partitioner(keys: Mapping[str, str], path: str) -> str:
    if keys.get("partitioner.ignore.keys", "").lower() == "true":
        return "random"
    name = keys.get("partitioner.class", "").rpartition(".")[2]
    if name not in _PARTITIONERS:
        raise ConfigError(
            "config.invalid_value",
            f"`{path}` names {keys['partitioner.class'][:200]!r}, a class of Java",
            fix="Use RoundRobinPartitioner, or remove the key: rows of one key go to one "
            "partition.",
            config_path=path,
        )
    return _PARTITIONERS[name]


def _parse(known: _InForce, text: str, path: str) -> Any:
    try:
        return known.parse(text)
    except ValueError:
        raise ConfigError(
            "config.invalid_value",
            f"`{path}` is {text[:100]!r}",
            fix=f"Use {known.expected}.",
            config_path=path,
        ) from None


def unknown_key(name: str, known: Iterable[str]) -> str:
    """Return why a key has no effect that Kafka's clients do not have. They ignore it, too."""
    like = difflib.get_close_matches(name, known, n=1)
    return "Kafka's client has no such key" + (f"; did you mean `{like[0]}`?" if like else "")
