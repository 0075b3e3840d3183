"""Both plugins of a pipeline change their external state; a plugin without Apply has none."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from penstock.model.connector import ApplyAction, Connector, ConnectorKind, Target
from penstock.model.errors import ConfigError, Diagnostic, InternalError, PenstockError, Severity
from penstock.plugin.responses import ApplyResult
from penstock.worker.admin import external_state
from penstock.worker.admin.external_state import OffsetAlterer, StateApplier

PIPELINE = Connector("orders", {}, ConnectorKind.PIPELINE)


@pytest.fixture
def answered(monkeypatch):
    """Applies a pipeline whose plugins return these results, source first; an error is raised."""

    def run(**answers):
        async def acquired(_host, _resolve, end):
            async def apply(_target, action, *, last_applied):
                assert (action, last_applied) == (ApplyAction.DELETE, None)
                if isinstance(answers[end], PenstockError):
                    raise answers[end]
                return answers[end]

            return SimpleNamespace(apply=apply), end

        async def resolve(_):
            return resolved(PIPELINE)

        monkeypatch.setattr(external_state, "acquire_plugin", acquired)
        context = SimpleNamespace(host=None, resolve=resolve)
        return asyncio.run(StateApplier(context).apply(PIPELINE, ApplyAction.DELETE))

    return run


def resolved(connector):
    """A resolved connector whose plugins are named by its keys."""

    def target(end):
        return Target(connector.config[end], connector.name, connector.config)

    settings, reach = (
        SimpleNamespace(replay=None),
        SimpleNamespace(with_reach_keys=lambda _, told: told),
    )
    return SimpleNamespace(
        kind=connector.kind,
        settings=settings,
        secret_texts=[],
        target=target,
        reach=reach,
        without_unknown=lambda _, told: told,
    )


def alter(monkeypatch, offsets, *, on_broker, resolves=True):
    """Alter offsets of a sink; returns them, whether a plugin was called, and who was asked."""
    asked = []

    async def acquired(_host, _resolved, role):
        async def alter_offsets(_target, wanted, *, dry_run):
            asked.append(role)
            return [replace(one, offset={"offset": 7}) for one in wanted]

        spec = SimpleNamespace(alters_offsets=resolves and role == "source", name="s")
        return SimpleNamespace(spec=spec, alter_offsets=alter_offsets), None

    async def resolve(connector):
        return SimpleNamespace(
            kind=connector.kind, settings=SimpleNamespace(replay=None), secret_texts=[],
            on_broker=on_broker, is_of_node=lambda role: role == "source",
        )  # fmt: skip

    monkeypatch.setattr(external_state, "acquire_plugin", acquired)
    context = SimpleNamespace(host=None, resolve=resolve)
    sink = Connector("orders", {}, ConnectorKind.SINK)
    found = asyncio.run(OffsetAlterer(context).alter(sink, offsets, dry_run=False))
    return found.offsets, found.plugin_called, asked


def test_the_end_at_the_brokers_makes_offsets_of_times(monkeypatch):
    wanted = {'{"partition":0,"topic":"t"}': {"timestamp": "2026-01-31T12:00:00Z"}}
    found, called, asked = alter(monkeypatch, wanted, on_broker=True)
    assert found == {id_: {"offset": 7} for id_ in wanted}
    assert (called, asked) == (False, ["source"]), "no plugin of the connector was asked"


def test_a_time_in_an_embedded_topic_is_refused(monkeypatch):
    wanted = {'{"partition":0,"topic":"t"}': {"timestamp": "2026-01-31T12:00:00Z"}}
    for where in ({"on_broker": False}, {"on_broker": True, "resolves": False}):
        with pytest.raises(ConfigError) as caught:
            alter(monkeypatch, wanted, **where)
        assert caught.value.code == "offset.no_time"


@pytest.fixture
def told(monkeypatch):
    """Applies a new configuration. Returns the last configuration that each role got, and the codes
    of the warnings.
    """
    said = {}

    async def resolve(connector):
        if "gone" in connector.config:
            raise ConfigError("secrets.not_found", "there is no such secret", config_path="gone")
        return resolved(connector)

    async def acquired(_host, taken, end):
        async def apply(_target, action, *, last_applied):
            assert action is ApplyAction.UPDATE
            said[end] = last_applied and last_applied.config["slot"]
            return ApplyResult()

        spec = SimpleNamespace(name=taken.target(end).connector, aliases=("alias",))
        return SimpleNamespace(apply=apply, spec=spec), end

    monkeypatch.setattr(external_state, "acquire_plugin", acquired)
    context = SimpleNamespace(host=None, resolve=resolve)

    def run(last):
        new = replace(PIPELINE, config={"source": "a", "sink": "b", "slot": "new"})
        applied = asyncio.run(StateApplier(context).apply(new, ApplyAction.UPDATE, last))
        return said, [(found.code, found.severity) for found in applied.diagnostics]

    return run


def last(**config):
    return replace(PIPELINE, config={"source": "a", "sink": "b", "slot": "old", **config})


def test_a_plugin_gets_the_configuration_that_was_applied_last(told):
    assert told(last()) == ({"source": "old", "sink": "old"}, [])
    assert told(None) == ({"source": None, "sink": None}, [])


def test_a_plugin_does_not_get_the_configuration_of_another_plugin(told):
    assert told(last(source="other", sink="alias")) == ({"source": None, "sink": "old"}, [])
    assert told(replace(last(), kind=ConnectorKind.SOURCE))[0] == {"source": None, "sink": None}


def test_an_unresolvable_last_configuration_is_a_warning(told):
    said, found = told(last(gone="${env:X}"))
    assert said == {"source": None, "sink": None}
    assert found == [("worker.last_applied", Severity.WARNING)]


def test_a_plugin_without_apply_is_skipped(answered, caplog):
    caplog.set_level("INFO")
    missing = InternalError("plugin.unimplemented", "no such method")
    answered(source=missing, sink=ApplyResult(("drop the table",)))
    assert [record.getMessage() for record in caplog.records] == [
        "connector orders: drop the table"
    ]


def test_warnings_are_returned_and_an_error_is_raised(answered):
    warning = Diagnostic("a.warning", "kept a file", severity=Severity.WARNING)
    applied = answered(source=ApplyResult((), (warning,)), sink=ApplyResult())
    assert [found.code for found in applied.diagnostics] == ["a.warning"]
    error = Diagnostic("an.error", "the slot is in use", severity=Severity.ERROR)
    with pytest.raises(PenstockError, match="the slot is in use"):
        answered(source=ApplyResult((), (error,)), sink=ApplyResult())
