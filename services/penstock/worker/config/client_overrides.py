"""Which settings of Kafka's clients a connector may set (`producer.override.…`), as Kafka Connect's
`connector.client.config.override.policy` decides. Pure.

Such a setting could reach brokers, credentials, files and classes of the worker, so only tuning is
allowed by default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.connector_config.keys import OVERRIDE_PREFIXES
from penstock.model.errors import ConfigError, Diagnostic, ErrorClass, Severity, nearest_names

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
"""The default allowlist: speed, sizes and times. No address, identity, file or class."""

_PRINCIPAL: Final = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})
_NAMES: Final = ("Allowlist", "None", "All", "Principal")
_CLASS: Final = "org.apache.kafka.connect.connector.policy.{}ConnectorClientConfigOverridePolicy"
_EQUIVALENTS: Final = {
    "auto.offset.reset": "auto.offset.reset",
    "max.poll.records": "batch.max.rows",
    "fetch.max.bytes": "batch.max.bytes",
}
"""Keys of a connector with the effect of a client's setting."""


@dataclass(frozen=True, slots=True)
class OverridePolicy:
    """A policy by its name in Kafka Connect. `allowed` are settings of clients, None for any."""

    name: str = "Allowlist"
    allowed: frozenset[str] | None = frozenset(TUNING)

    def check(self, keys: Iterable[str]) -> list[Diagnostic]:
        """Return an error for each key of a connector that is refused."""
        return [self._refusal(key) for key in keys if not self.allows(key)]

    def without_refused(self, config: Mapping[str, str]) -> dict[str, str]:
        """Return a connector's configuration without the settings of clients that are refused: no
        client must be given them, not even for a check.
        """
        return {
            key: value
            for key, value in config.items()
            if not key.startswith(OVERRIDE_PREFIXES) or self.allows(key)
        }

    def allows(self, key: str) -> bool:
        """Return whether a connector may set a key such as `producer.override.linger.ms`."""
        return self.allowed is None or key.split(".override.", 1)[1] in self.allowed

    def _refusal(self, key: str) -> Diagnostic:
        setting = key.split(".override.", 1)[1]
        return ConfigError(
            "config.override_refused",
            f"The '{self.name}' policy does not allow '{setting}' to be overridden in the "
            "connector configuration.",
            fix=f"Remove it, or have it allowed by `{ALLOWLIST}` of the workers.",
            config_path=key,
        ).diagnostic


def override_policy(name: str, allowlist: Iterable[str]) -> OverridePolicy:
    """Return the policy of a worker. `name` may be that of Kafka Connect's class.

    Raises:
        ConfigError: `config.bad_choice`.
    """
    for known in _NAMES:
        if name in {known, _CLASS.format(known)}:
            allowed = {"All": None, "None": frozenset[str](), "Principal": _PRINCIPAL}
            return OverridePolicy(known, allowed.get(known, frozenset(allowlist)))
    near = nearest_names(name, _NAMES)
    raise ConfigError(
        "config.bad_choice",
        f"`{POLICY}` cannot be {name[:200]!r}",
        fix=f"Valid: {', '.join(_NAMES)}.",
        config_path=POLICY,
        suggestion=near[0] if near else "",
    )


def unused_override(key: str) -> Diagnostic:
    """Return the warning about a key of a client that a connector does not have."""
    ours = _EQUIVALENTS.get(key.split(".override.", 1)[1])
    return Diagnostic(
        "config.not_here_yet",
        f"`{key}` configures a client of Kafka that this connector does not have: it has no effect",
        ErrorClass.CONFIG,
        Severity.WARNING,
        fix=f"Set `{ours}` instead." if ours else "Remove it, or keep it: it is ignored.",
        config_path=key,
    )
