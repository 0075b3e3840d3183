"""The kit can fail: for each case there is a plugin that breaks just that, and goes red."""

import asyncio
import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.plugin.catalog.manifest import Manifest
from penstock_kit.conformance import (
    Outcome,
    RunObserver,
    Spec,
    Subject,
    load_spec,
    read_declaration,
    run_cases,
    sink_task,
)
from penstock_kit.conformance.results import shared_failures
from support import http2

PLUGINS = Path(__file__).parent / "plugins"
DECLARATION = read_declaration(PLUGINS / "conformance.toml")
CONNECTORS = {"read.end": "book", "recover.token": "till", "replay.harmless": "keyed"}
"""The connector of a case; of a source it is the queue, of a sink the shelf, else the queue."""
SHORT = 2.0
"""Seconds that a rude plugin is given where a good one has more: it takes all of them."""


def connector_of(case):
    return CONNECTORS.get(case.id, "shelf" if case.kind == "sink" else "queue")


def result_of(case, *words):
    """Run one case against a plugin of this folder."""
    command = (sys.executable, str(PLUGINS / words[0]), *words[1:])
    manifest = Manifest("good", "1.0.0", command, PLUGINS, ())
    subject = Subject(manifest, DECLARATION, False, (connector_of(case),), SHORT)
    results = asyncio.run(run_cases(subject, Spec("1", (case,))))
    (found,) = [one for one in results if one.case == case.id]
    return found


@pytest.mark.parametrize("case", load_spec().cases, ids=lambda case: case.id)
def test_a_plugin_that_breaks_a_case_is_found(case):
    shorter = replace(case, seconds=min(case.seconds, SHORT))
    result = result_of(shorter, "rude.py", case.id)
    assert result.outcome is Outcome.FAIL, f"{case.id} did not see it: {result}"
    assert result.reason


def test_a_server_that_resets_calls_is_one_cause_of_all_cases_of_the_process():
    command = (sys.executable, http2.__file__, "refuse")
    subject = Subject(Manifest("strict", "1", command, PLUGINS, ()), DECLARATION, False)
    results = asyncio.run(run_cases(subject, load_spec().select(["start", "describe"])))
    (why,) = shared_failures(results)
    assert "HTTP/2 server reset the call" in why
    assert len(shared_failures(results)[why]) >= 4


def test_a_sink_that_never_prepares_is_told_case_by_case_and_as_one_cause(monkeypatch):
    monkeypatch.setattr(sink_task, "TIMEOUT_S", 5.0)  # all other frames come within it
    command = (sys.executable, str(PLUGINS / "rude.py"), "deaf.to_prepare")
    subject = Subject(Manifest("good", "1", command, PLUGINS, ()), DECLARATION, False, ("shelf",))
    spec = load_spec().select(["prepare.state", "prepare.attempts", "commit.visible"])
    seen = []
    watch = RunObserver(lambda name, case: seen.append((name, case.id)), seen.append)
    results = asyncio.run(run_cases(subject, spec, watch))
    assert shared_failures(results) == {"no prepared frame came within 5 s": results}
    assert seen[0] == ("shelf", "prepare.state")
    assert seen[1] == results[0]
    assert len(seen) == 6


def test_a_large_row_that_was_compressed_into_one_message_is_no_failure():
    (case,) = load_spec().select(["limits.big_row"]).cases
    result = result_of(case, "rude.py", "compresses.rows")
    assert result.outcome is Outcome.NOT_APPLICABLE
    assert "fit into one message" in result.reason


def test_what_a_task_holds_until_it_has_ended_is_no_leak():
    (case,) = load_spec().select(["host.lost_read"]).cases
    result = result_of(case, "rude.py", "late.to_let_go")
    assert result.outcome is Outcome.PASS, result.reason


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("hides.required", "folder is hidden, and reported as missing"),
        ("drops.keys", "no value of"),
    ],
)
def test_a_form_that_hides_or_leaves_out_what_it_needs_is_found(words, why):
    (case,) = load_spec().select(["config.form"]).cases
    result = result_of(case, "rude.py", words)
    assert (result.outcome, why in result.reason) == (Outcome.FAIL, True), result


def test_a_good_plugin_breaks_nothing():
    """All cases at once, with all of its connectors."""
    command = (sys.executable, str(PLUGINS / "good.py"))
    subject = Subject(Manifest("good", "1.0.0", command, PLUGINS, ()), DECLARATION, False)
    results = asyncio.run(run_cases(subject, load_spec()))
    assert [one for one in results if one.outcome is Outcome.FAIL] == []
    passed = {one.case for one in results if one.outcome is Outcome.PASS}
    assert passed == {case.id for case in load_spec().cases}, "a case that nothing here passes"


def test_there_is_a_rude_plugin_for_each_case_and_no_other():
    source = (PLUGINS / "rude.py").read_text(encoding="utf-8")
    assert importlib.util.find_spec("penstock_kit.conformance.checks")
    assert [
        case.id for case in load_spec().cases if case.id.replace(".", "_", 1) not in source
    ] == []
