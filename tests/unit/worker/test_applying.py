"""Both plugins of a pipeline change what they own outside; one without Apply owns nothing."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from penstock.model.connector import ApplyAction, Connector, ConnectorKind, Target
from penstock.model.errors import ConfigError, Diagnostic, InternalError, PenstockError, Severity
from penstock.plugin.answers import Applied
from penstock.worker.admin import external_state
from penstock.worker.admin.external_state import Applier

PIPELINE = Connector("orders", {}, ConnectorKind.PIPELINE)


@pytest.fixture
def answered(monkeypatch):
    """Applies a pipeline whose plugins answer with these, source first; an error is raised."""

    def run(**answers):
        async def acquired(_host, _design, end):
            async def apply(_target, action, *, last_applied):
                assert (action, last_applied) == (ApplyAction.DELETE, None)
                if isinstance(answers[end], PenstockError):
                    raise answers[end]
                return answers[end]

            return SimpleNamespace(apply=apply), end

        async def taken_apart(*_):
            return design(PIPELINE)

        monkeypatch.setattr(external_state, "design_of", taken_apart)
        monkeypatch.setattr(external_state, "acquire", acquired)
        return asyncio.run(Applier(None).apply(PIPELINE, ApplyAction.DELETE))

    return run


def design(connector):
    """A connector taken apart whose ends are the plugins that its keys name."""

    def target(end):
        return Target(connector.config[end], connector.name, connector.config)

    settings, reach = SimpleNamespace(replay=None), SimpleNamespace(told=lambda _, told: told)
    return SimpleNamespace(
        kind=connector.kind, settings=settings, looked_up=[], target=target, reach=reach
    )


@pytest.fixture
def told(monkeypatch):
    """Applies a new configuration; returns what was said of the last one to each end, and the codes
    of the warnings.
    """
    said = {}

    async def taken_apart(_host, _secrets, connector, _rules):
        if "gone" in connector.config:
            raise ConfigError("secrets.not_found", "there is no such secret", config_path="gone")
        return design(connector)

    async def acquired(_host, taken, end):
        async def apply(_target, action, *, last_applied):
            assert action is ApplyAction.UPDATE
            said[end] = last_applied and last_applied.config["slot"]
            return Applied()

        spec = SimpleNamespace(name=taken.target(end).connector, aliases=("alias",))
        return SimpleNamespace(apply=apply, spec=spec), end

    monkeypatch.setattr(external_state, "design_of", taken_apart)
    monkeypatch.setattr(external_state, "acquire", acquired)

    def run(last):
        new = replace(PIPELINE, config={"source": "a", "sink": "b", "slot": "new"})
        applied = asyncio.run(Applier(None).apply(new, ApplyAction.UPDATE, last))
        return said, [(found.code, found.severity) for found in applied.diagnostics]

    return run


def last(**config):
    return replace(PIPELINE, config={"source": "a", "sink": "b", "slot": "old", **config})


def test_a_plugin_hears_what_was_applied_last(told):
    assert told(last()) == ({"source": "old", "sink": "old"}, [])
    assert told(None) == ({"source": None, "sink": None}, [])


def test_a_plugin_hears_nothing_of_what_another_one_had(told):
    assert told(last(source="other", sink="alias")) == ({"source": None, "sink": "old"}, [])
    assert told(replace(last(), kind=ConnectorKind.SOURCE))[0] == {"source": None, "sink": None}


def test_what_cannot_be_taken_apart_any_more_is_warned_about(told):
    said, found = told(last(gone="${env:X}"))
    assert said == {"source": None, "sink": None}
    assert found == [("worker.last_applied", Severity.WARNING)]


def test_a_plugin_without_apply_is_passed_over(answered):
    missing = InternalError("plugin.unimplemented", "no such method")
    applied = answered(source=missing, sink=Applied(("drop the table",)))
    assert applied.actions == ("drop the table",)


def test_warnings_are_returned_and_an_error_is_the_calls(answered):
    warning = Diagnostic("a.warning", "kept a file", severity=Severity.WARNING)
    applied = answered(source=Applied((), (warning,)), sink=Applied())
    assert [found.code for found in applied.diagnostics] == ["a.warning"]
    error = Diagnostic("an.error", "the slot is in use", severity=Severity.ERROR)
    with pytest.raises(PenstockError, match="the slot is in use"):
        answered(source=Applied((), (error,)), sink=Applied())
