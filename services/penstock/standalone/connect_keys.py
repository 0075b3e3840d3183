"""Keys of worker files of others: those of Kafka Connect (4.3.1) that load without effect, and why;
those of RocketMQ Connect by the names that they have here. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from penstock.gateway.listeners import NO_LISTENER
from penstock.model.errors import Diagnostic, ErrorClass, Severity

_GRPC: Final = "services authenticate each other by certificates (`tls.…`)"
_LEASE: Final = "`lease.ttl` is the time after which a silent worker counts as lost"
_NO_CLIENT: Final = "only connectors have clients of Kafka (`producer.…`, `consumer.…`, `admin.…`)"
_METRICS: Final = "metrics are exported by OpenTelemetry"
_LISTENER_TLS: Final = "`listener.tls.certificate` and `listener.tls.key` are TLS of listeners"
_EMBEDDED: Final = (
    "rows of embedded topics are columns; set `bootstrap.servers` for topics of Kafka"
)

_EXACT: Final = "exactly.once.source.support"

UNUSED: Final = {
    "workerId": "the name of a cluster's instance is `instance.name`",
    "clusterName": "topics are created at all brokers",
    "autoCreateGroupEnable": "no group of consumers is needed",
    "accessKey": "`aclEnable` is not true, or `rocketmq.access.key` is set",
    "secretKey": "`aclEnable` is not true, or `rocketmq.secret.key` is set",
    "httpPort": "`listeners.rocketmq` is set",
    "namesrvAddr": "`namesrv.addr` is set",
    "storePathRootDir": "`state.dir` is set",
    "pluginPaths": "`plugin.path` is set",
    "group.id": "one process needs no group",
    "config.storage.": "connectors are stored by the config service",
    "status.storage.": "the scheduler knows the states of tasks",
    "offset.storage.": "offsets are stored by the offset service",
    "offset.flush.": "offsets are stored with every micro-batch",
    _EXACT: "a source is as exact as its topics (`exactly.once.support` of a connector)",
    "session.timeout.ms": _LEASE,
    "heartbeat.interval.ms": _LEASE,
    "rebalance.timeout.ms": _LEASE,
    "scheduled.rebalance.max.delay.ms": "one process has no others to wait for",
    "task.shutdown.graceful.timeout.ms": "`drain.timeout` of a cluster's worker is the time for it",
    "connect.protocol": _GRPC,
    "worker.sync.timeout.ms": _GRPC,
    "worker.unsync.backoff.ms": _GRPC,
    "inter.worker.": _GRPC,
    "rest.advertised.": "any gateway answers for the whole cluster",
    "rest.": "`listeners` has the addresses of the REST API",
    "response.http.headers.config": "headers of answers are fixed",
    "plugin.discovery": "plugins are found by their manifests",
    "internal.": "it is a key of older versions",
    "metric.reporters": _METRICS,
    "metrics.": _METRICS,
    "auto.include.jmx.reporter": _METRICS,
    "bootstrap.servers": "`topics.backend` names other topics",
    "namesrv.addr": "`topics.backend` names other topics",
    "rocketmq.": "`topics.backend` names other topics",
    "key.converter": _EMBEDDED,
    "value.converter": _EMBEDDED,
    "header.converter": "only on topics of Kafka, values of headers are bytes to convert",
    "producer.": _EMBEDDED,
    "consumer.": _EMBEDDED,
    "admin.listeners.https.": _LISTENER_TLS,
    "admin.": _EMBEDDED,
    "topic.creation.enable": _EMBEDDED,
    "security.protocol": _EMBEDDED,
    "sasl.": _EMBEDDED,
    "ssl.": f"brokers are reached without TLS (`security.protocol`), and {_LISTENER_TLS}",
    "listeners.https.": _LISTENER_TLS,
    "client.": _NO_CLIENT,
    "metadata.": _NO_CLIENT,
    "request.timeout.ms": _NO_CLIENT,
    "retry.backoff.": _NO_CLIENT,
    "reconnect.backoff.": _NO_CLIENT,
    "connections.max.idle.ms": _NO_CLIENT,
    "send.buffer.bytes": _NO_CLIENT,
    "receive.buffer.bytes": _NO_CLIENT,
    "socket.connection.": _NO_CLIENT,
    "security.providers": "it names classes of Java",
}
"""Prefixes of keys, each with the reason; the first that fits counts."""

_PREFIXES: Final = tuple(UNUSED)

_ROCKETMQ: Final = {
    "namesrvAddr": "namesrv.addr",
    "storePathRootDir": "state.dir",
    "pluginPaths": "plugin.path",
}
"""RocketMQ Connect's keys that have another name here."""

_ROCKETMQ_LOGIN: Final = {
    "accessKey": "rocketmq.access.key",
    "secretKey": "rocketmq.secret.key",
}
"""Those of its login, which count with `aclEnable=true`."""

_ROCKETMQ_PORT: Final = "httpPort"
_ROCKETMQ_LISTENERS: Final = "listeners.rocketmq"


def with_own_names(config: Mapping[str, str]) -> dict[str, str]:
    """Return a worker's file with our names for RocketMQ Connect's keys. Those that have no effect
    keep their names. The REST API of `httpPort` is reached from this machine only, and is the
    only one where `listeners` is not set.
    """
    names = dict(_ROCKETMQ)
    if config.get("aclEnable", "").lower() == "true":
        names |= _ROCKETMQ_LOGIN
    taken = {theirs for theirs, ours in names.items() if ours in config}
    found = {
        key if key in taken else names.get(key, key): value
        for key, value in config.items()
        if key != "aclEnable"
    }
    if _ROCKETMQ_PORT in found and _ROCKETMQ_LISTENERS not in found:
        found[_ROCKETMQ_LISTENERS] = f"http://127.0.0.1:{found.pop(_ROCKETMQ_PORT)}"
        found.setdefault("listeners", NO_LISTENER)  # it is the only port of such a worker
    return found


def is_connect_key(key: str) -> bool:
    """Return whether a key is one of others that may be without effect."""
    return key.startswith(_PREFIXES)


def is_met(key: str, value: str, backend: str) -> bool:
    """Return whether a key says what is so anyway: rows get into topics exactly once wherever the
    topics of `backend` have transactions.
    """
    return key == _EXACT and value.lower() != "disabled" and backend != "rocketmq"


def unused_keys(keys: Iterable[str], used: Collection[str]) -> list[Diagnostic]:
    """Return a warning for each key of others that is not among the used ones."""
    return [_warning(key) for key in sorted(keys) if is_connect_key(key) and key not in used]


def _warning(key: str) -> Diagnostic:
    why = next(reason for start, reason in UNUSED.items() if key.startswith(start))
    return Diagnostic(
        "config.not_here_yet",
        f"`{key}` has no effect here: {why}",
        ErrorClass.CONFIG,
        Severity.WARNING,
        fix="Remove it, or keep it: it is ignored.",
        config_path=key,
    )
