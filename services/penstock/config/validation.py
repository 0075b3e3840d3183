"""Checks a configuration without storing it: by our rules, then by a worker that has the plugin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.config import rules
from penstock.model.connector import Connector, ConnectorKind
from penstock.model.errors import ConfigError, Diagnostic, RetriableError


class Findings(Protocol):
    """What a worker says of a configuration."""

    @property
    def diagnostics(self) -> Sequence[Diagnostic]:
        """What is wrong, or worth knowing."""

    @property
    def kind(self) -> ConnectorKind:
        """The kind that the plugin gives it."""

    @property
    def secret_keys(self) -> Sequence[str]:
        """Keys whose values are secrets to the plugins."""


class Validator(Protocol):
    """What is needed of a worker; its client has it."""

    async def validate(self, connector: Connector) -> Findings:
        """Check a configuration against its plugins."""


@dataclass(frozen=True, slots=True)
class Validated:
    """The findings about a configuration; no error among them means valid."""

    diagnostics: Sequence[Diagnostic]
    kind: ConnectorKind
    secret_keys: Sequence[str] = ()


async def validated(connector: Connector, worker: Validator | None) -> Validated:
    """Return all that is known of a configuration. What our rules refuse no worker is asked about.

    Raises:
        RetriableError: `config.no_worker`.
    """
    try:
        rules.check_name(connector.name)
        rules.check_config(connector.name, connector.config)
    except ConfigError as error:
        return Validated([error.diagnostic], connector.kind)
    if worker is None:
        raise RetriableError(
            "config.no_worker",
            "no worker is known that could check the configuration",
            fix="Start a worker that has the connector's plugin.",
        )
    found = await worker.validate(connector)
    return Validated(found.diagnostics, found.kind, found.secret_keys)
