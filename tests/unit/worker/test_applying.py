"""Both plugins of a pipeline change what they own outside; one without Apply owns nothing."""

import asyncio
from types import SimpleNamespace

import pytest

from penstock.model.connector import ApplyAction, Connector, ConnectorKind
from penstock.model.errors import Diagnostic, InternalError, PenstockError, Severity
from penstock.plugin.answers import Applied
from penstock.worker import applying
from penstock.worker.applying import Applier

PIPELINE = Connector("orders", {}, ConnectorKind.PIPELINE)


@pytest.fixture
def answered(monkeypatch):
    """Applies a pipeline whose plugins answer with these, source first; an error is raised."""

    def run(**answers):
        async def taken_apart(*_):
            settings = SimpleNamespace(replay=None)
            return SimpleNamespace(kind=PIPELINE.kind, settings=settings, looked_up=[])

        async def acquired(_host, _design, end):
            async def apply(_target, action):
                assert action is ApplyAction.DELETE
                if isinstance(answers[end], PenstockError):
                    raise answers[end]
                return answers[end]

            return SimpleNamespace(apply=apply), end

        monkeypatch.setattr(applying, "design_of", taken_apart)
        monkeypatch.setattr(applying, "acquire", acquired)
        return asyncio.run(Applier(None).apply(PIPELINE, ApplyAction.DELETE))

    return run


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
