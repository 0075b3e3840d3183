"""Which settings of Kafka's clients a connector may bring (`producer.override.…`). Pure.

Such a setting reaches for what is the worker's: its brokers, its credentials, its files, its
classes. So a policy says which ones are allowed (Kafka Connect's
`connector.client.config.override.policy`); nothing but tuning, when nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from penstock.model.errors import ConfigError, Diagnostic, ErrorClass, Severity, nearest

PREFIXES: Final = ("producer.override.", "consumer.override.", "admin.override.")
"""Begin the settings of each kind of client."""

POLICY: Final = "connector.client.config.override.policy"
ALLOWLIST: Final = "connector.client.config.override.allowlist"

TUNING: Final = (
    "acks", "auto.offset.reset", "batch.size", "buffer.memory", "client.id", "compression.type",
    "default.api.timeout.ms", "delivery.timeout.ms", "enable.idempotence", "fetch.max.bytes",
    "fetch.max.wait.ms", "fetch.min.bytes", "heartbeat.interval.ms", "isolation.level",
    "linger.ms", "max.block.ms", "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records", "max.request.size",
    "receive.buffer.bytes", "request.timeout.ms", "retries", "retry.backoff.ms",
    "send.buffer.bytes", "session.timeout.ms",
)  # fmt: skip
"""What the list allows by itself: speed, sizes and times. No address, identity, file or class."""

_PRINCIPAL: Final = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})
_NAMES: Final = ("Allowlist", "None", "All", "Principal")
_CLASS: Final = "org.apache.kafka.connect.connector.policy.{}ConnectorClientConfigOverridePolicy"
_OURS: Final = {
    "auto.offset.reset": "auto.offset.reset",
    "max.poll.records": "batch.max.rows",
    "fetch.max.bytes": "batch.max.bytes",
}
"""Keys of a connector that do here what a client's setting does there."""


@dataclass(frozen=True, slots=True)
class OverridePolicy:
    """A policy by its name in Kafka Connect; `allowed` are settings of clients, None for any."""

    name: str = "Allowlist"
    allowed: frozenset[str] | None = frozenset(TUNING)

    def findings(self, keys: Iterable[str]) -> list[Diagnostic]:
        """Return an error for each key that is refused, a warning for each other one."""
        return [self._finding(key) for key in keys]

    def _finding(self, key: str) -> Diagnostic:
        setting = key.split(".override.", 1)[1]
        if self.allowed is None or setting in self.allowed:
            return _without_effect(key, setting)
        return ConfigError(
            "config.override_refused",
            f"The '{self.name}' policy does not allow '{setting}' to be overridden in the "
            "connector configuration.",
            fix=f"Remove it; or have it allowed by `{ALLOWLIST}` of the workers.",
            config_path=key,
        ).diagnostic


def override_policy(name: str, allowlist: Iterable[str]) -> OverridePolicy:
    """Return the policy of a worker's keys; `name` may be that of Kafka Connect's class.

    Raises:
        ConfigError: `config.bad_choice`.
    """
    for known in _NAMES:
        if name in {known, _CLASS.format(known)}:
            allowed = {"All": None, "None": frozenset[str](), "Principal": _PRINCIPAL}
            return OverridePolicy(known, allowed.get(known, frozenset(allowlist)))
    near = nearest(name, _NAMES)
    raise ConfigError(
        "config.bad_choice",
        f"`{POLICY}` cannot be {name[:200]!r}",
        fix=f"Valid: {', '.join(_NAMES)}.",
        config_path=POLICY,
        suggestion=near[0] if near else "",
    )


def _without_effect(key: str, setting: str) -> Diagnostic:
    ours = _OURS.get(setting)
    return Diagnostic(
        "config.not_here_yet",
        f"`{key}` is for a client of Kafka, and topics are not Kafka's here: it has no effect",
        ErrorClass.CONFIG,
        Severity.WARNING,
        fix=f"Set `{ours}` instead." if ours else "Remove it, or leave it: it does no harm.",
        config_path=key,
    )
