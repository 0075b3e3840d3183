"""Bodies under `/v1`: requests are validated, responses have the fields that are set."""

from __future__ import annotations

import json

import pytest

from penstock.gateway.request_input import parse_json
from penstock.gateway.v1.bodies import (
    ConnectorDetails,
    Replay,
    Rewind,
    Rollback,
    SeverityFinding,
    TaskNumbers,
    Version,
)
from penstock.model.connector import (
    Connector,
    ConnectorKind,
    Revision,
    TargetState,
    TaskState,
    TaskStatus,
)
from penstock.model.errors import ConfigError, Diagnostic
from penstock.model.status import RunState, RunStatus


@pytest.mark.parametrize("version", ["0", '"3"', "3.0", "true", "null", "9223372036854775808"])
def test_a_version_is_a_whole_number_of_a_version(version):
    with pytest.raises(ConfigError, match=r"http\.parameter.*`version`"):
        Rollback.read(parse_json(b'{"version": %s}' % version.encode()))


@pytest.mark.parametrize(
    ("model", "body", "field"),
    [
        (Rewind, '{"to": "2026-01-31T08:00:00Z", "dry_run": 1}', "dry_run"),
        (Rewind, '{"to": "2026-01-31T08:00:00Z", "prefix": null}', "prefix"),
        (Replay, '{"ids": 5}', "ids"),
        (Replay, '{"all": 1}', "all"),
        (Replay, '{"set": []}', "set"),
        (Replay, '{"edits": {"0/3": 5}}', "edits.0/3"),
    ],
)
def test_an_error_names_the_field(model, body, field):
    with pytest.raises(ConfigError, match=rf"http\.parameter.*`{field}`"):
        model.read(parse_json(body.encode()))


@pytest.mark.parametrize("body", ["{}", '{"to": 5}', '{"to": "2026-01-31T08:00:00"}'])
def test_a_rewind_needs_a_time_with_its_zone(body):
    with pytest.raises(ConfigError, match=r"offset\.no_time"):
        Rewind.read(parse_json(body.encode()))


def test_unknown_fields_are_ignored_and_absent_ones_have_defaults():
    replay = Replay.read(parse_json(b'{"all": true, "later": 1, "set": {"a": 1.5}}'))
    assert (replay.all, replay.ids, replay.set, replay.dry_run) == (True, "", {"a": 1.5}, False)


def test_a_body_has_the_fields_that_are_set_in_the_order_of_the_document():
    finding = SeverityFinding.of(Diagnostic("a.b", "it broke", config_path="k"))
    assert list(finding.to_json()) == ["message", "code", "config_path", "severity", "class"]
    task = TaskNumbers.of(RunStatus("g-0", RunState.COMPLETED, "w1", 5)).to_json()
    assert task == {
        "id": 0, "state": "COMPLETED", "worker_id": "w1", "epoch": 5, "restarts": 0,
    }  # fmt: skip
    assert "restored" not in Version.of(Revision(1)).to_json()
    opening = TaskStatus("g-0", "c", 5, TaskState.STARTING)
    for state, word in (("UNASSIGNED", "CONNECTING"), ("RESTARTING", "RESTARTING")):
        assert TaskNumbers.of(RunStatus("g-0", RunState[state], "w1", task=opening)).state == word
    assert TaskNumbers.of(RunStatus("g-0", RunState.UNASSIGNED)).state == "UNASSIGNED"
    assert Version.of(Revision(2, restored=1), {}).to_json()["restored"] == 1


def test_a_response_has_its_headers_and_no_secret():
    stored = Connector(
        "a", {"password": "canary"}, ConnectorKind.SINK, TargetState.RUNNING, "g", 7, version=2
    )
    response = ConnectorDetails.of(stored).respond({"ETag": '"7"'})
    assert response.headers["etag"] == '"7"'
    assert json.loads(response.body)["config"] == {"password": "***"}
