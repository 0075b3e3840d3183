"""There is one way in for a configuration: it is valid, complete and stored in its target state."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import pytest

from penstock.connector_config.validation import (
    refuse_errors,
    store_connector,
    validate_connector,
)
from penstock.gateway.errors import InvalidConfigError
from penstock.model.config_def import CombinedError
from penstock.model.connector import Connector, ConnectorKind, TargetState
from penstock.model.errors import ConfigError, Diagnostic, ErrorClass, RetriableError, Severity

WRITTEN = Connector("orders", {"sink.pin": "1234"}, target_state=TargetState.PAUSED)
WARNING = Diagnostic("a.warning", "harmless", severity=Severity.WARNING)
NOTE = Diagnostic("a.note", "harmless", severity=Severity.INFO)
ERRORS = (Diagnostic("a.one", "one"), Diagnostic("a.two", "two", config_path="k"))


@dataclass
class Answer:
    diagnostics: tuple[Diagnostic, ...] = (WARNING, NOTE)
    kind: ConnectorKind = ConnectorKind.PIPELINE
    secret_keys: tuple[str, ...] = ("sink.pin",)


class Validator:
    def __init__(self, answer: Answer | Exception) -> None:
        self.answer = answer

    async def validate(self, connector: Connector) -> Answer:
        assert connector == WRITTEN
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Store:
    """Remembers what is stored, as the config service does: a put keeps the target state."""

    def __init__(self, state: TargetState | None = None) -> None:
        self.stored = None if state is None else replace(WRITTEN, config={}, target_state=state)
        self.revisions: list[int] = []

    async def put(self, connector: Connector, expected_revision: int = 0) -> tuple[Connector, bool]:
        state = self.stored.target_state if self.stored else TargetState.RUNNING
        self.stored = replace(connector, target_state=state)
        self.revisions.append(expected_revision)
        return self.stored, True

    async def set_target_state(self, name: str, state: TargetState) -> Connector:
        assert self.stored is not None
        assert name == self.stored.name
        self.stored = replace(self.stored, target_state=state)
        return self.stored


def test_a_valid_connector_has_its_kind_and_the_keys_that_its_plugins_keep_secret():
    found, findings = asyncio.run(validate_connector(Validator(Answer()), WRITTEN))
    assert found == replace(WRITTEN, kind=ConnectorKind.PIPELINE, secret_keys=("sink.pin",))
    assert findings == (WARNING, NOTE)


def test_errors_are_raised_together_as_the_caller_shows_them():
    validator = Validator(Answer((WARNING, *ERRORS)))
    with pytest.raises(CombinedError) as combined:
        asyncio.run(validate_connector(validator, WRITTEN))
    assert [one.code for one in combined.value.errors] == ["a.one", "a.two"]
    with pytest.raises(InvalidConfigError) as invalid:
        asyncio.run(validate_connector(validator, WRITTEN, InvalidConfigError))
    assert "2 error(s)" in invalid.value.diagnostic.message
    assert invalid.value.findings == ERRORS


def test_a_finding_without_a_severity_is_an_error_and_every_error_is_one_of_the_configuration():
    refuse_errors([WARNING, NOTE])
    unknown = Diagnostic("a.b", "odd", ErrorClass.INTERNAL, severity=Severity.UNSPECIFIED)
    with pytest.raises(ConfigError, match="odd"):
        refuse_errors([WARNING, unknown])


def test_a_validator_that_is_away_is_no_error_of_the_configuration():
    validator = Validator(RetriableError("config.no_worker", "none"))
    with pytest.raises(RetriableError):
        asyncio.run(validate_connector(validator, WRITTEN, InvalidConfigError))


@pytest.mark.parametrize("before", [None, TargetState.RUNNING, TargetState.STOPPED])
@pytest.mark.parametrize(
    ("wanted", "state"),
    [
        (TargetState.UNSPECIFIED, TargetState.RUNNING),
        (TargetState.RUNNING, TargetState.RUNNING),
        (TargetState.STOPPED, TargetState.STOPPED),
    ],
)
def test_a_connector_is_stored_in_its_target_state_whatever_it_was_before(before, wanted, state):
    store = Store(before)
    new = replace(WRITTEN, target_state=wanted)
    found = asyncio.run(store_connector(store, new, 7))
    assert store.revisions == [7]
    assert found == store.stored == replace(WRITTEN, target_state=state)
