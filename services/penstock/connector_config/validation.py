"""The only entry for a configuration: it is validated, completed with what its plugins declare, and
stored. Files, the REST API and replays use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from penstock.model.admin import ValidatedConnector
from penstock.model.config_def import combine_errors
from penstock.model.connector import Connector, TargetState
from penstock.model.errors import (
    Diagnostic,
    ErrorClass,
    PenstockError,
    Severity,
    error_from_diagnostic,
)

_ERRORS: Final = frozenset({Severity.ERROR, Severity.UNSPECIFIED})
"""A plugin that sends no severity reports an error."""


class Validator(Protocol):
    """The part of a client that validates configurations."""

    async def validate(self, connector: Connector) -> ValidatedConnector:
        """Check a configuration against the rules and its plugins."""


class ConnectorStore(Protocol):
    """The part of a client that stores connectors."""

    async def put(self, connector: Connector, expected_revision: int = 0) -> tuple[Connector, bool]:
        """Create a connector, or change its configuration; return whether it changed."""

    async def set_target_state(self, name: str, state: TargetState) -> Connector:
        """Set whether a connector should run."""


def combine_findings(errors: Sequence[Diagnostic]) -> PenstockError:
    """Return errors of a configuration as one."""
    return combine_errors(
        error_from_diagnostic(replace(one, error_class=ErrorClass.CONFIG)) for one in errors
    )


AsError = Callable[[Sequence[Diagnostic]], PenstockError]


def refuse_errors(findings: Sequence[Diagnostic], as_error: AsError = combine_findings) -> None:
    """Raise the errors among findings as one.

    Raises:
        PenstockError: as `as_error` makes it: a ConfigError, a `CombinedError` of several.
    """
    errors = [found for found in findings if found.severity in _ERRORS]
    if errors:
        raise as_error(errors)


async def validate_connector(
    validator: Validator, connector: Connector, as_error: AsError = combine_findings
) -> tuple[Connector, Sequence[Diagnostic]]:
    """Return a valid connector as it is to be stored, with its kind and the secret keys that its
    plugins declare (invariant 9); and warnings.

    Raises:
        PenstockError: the errors of the configuration, as `as_error` makes one of them; or it
            cannot be validated now.
    """
    found = await validator.validate(connector)
    refuse_errors(found.diagnostics, as_error)
    valid = replace(connector, kind=found.kind, secret_keys=found.secret_keys)
    return valid, found.diagnostics


async def store_connector(
    store: ConnectorStore, connector: Connector, expected_revision: int = 0
) -> Connector:
    """Store a validated connector, in the target state that it has; RUNNING when it has none."""
    stored, _ = await store.put(connector, expected_revision)
    wanted = connector.target_state or TargetState.RUNNING
    if stored.target_state is not wanted:
        stored = await store.set_target_state(stored.name, wanted)
    return stored
