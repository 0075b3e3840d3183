"""`penstock offsets`, `workers`, `loggers`, and what `connector` has beside files."""

from __future__ import annotations

import json

import pytest

from penstock.cli.__main__ import main
from penstock_kit.testing import wait_until

SOURCE = {"connector.class": "verifiable-source", "topic": "nouns", "rows": "40", "rate": "1000"}


@pytest.fixture
def penstock(gateway, capsys):
    """Run a command; returns what it printed as JSON."""

    def run(*words: str, code: int = 0):
        found = main([*words, "--server", f"http://{gateway.address}", "-o", "json"])
        said = capsys.readouterr()
        assert found == code, said
        return json.loads(said.out) if said.out.strip() else said.err

    return run


def test_events_are_lines_of_their_time_kind_and_words(gateway, capsys):
    assert gateway.post("/connectors", {"name": "told", "config": SOURCE}).status_code == 201
    wait_until(lambda: " first_commit " in events(gateway, capsys, "told"), 120, "a commit")
    kinds = [line.split()[1] for line in events(gateway, capsys, "told").splitlines()]
    assert kinds.index("assigned") < kinds.index("running") < kinds.index("first_commit")
    assert len(events(gateway, capsys, "told", "--tail", "1").splitlines()) == 1
    gateway.delete("/connectors/told")


def events(gateway, capsys, *words):
    """What `penstock events` prints."""
    assert main(["events", *words, "--server", f"http://{gateway.address}"]) == 0
    return capsys.readouterr().out


def test_offsets_are_seen_set_rewound_and_reset(penstock, gateway, tmp_path):
    body = {"name": "nouns", "config": SOURCE}
    assert gateway.post("/connectors", body).status_code == 201
    wait_until(lambda: penstock("offsets", "get", "nouns")["offsets"], 120, "offsets")
    penstock("connector", "stop", "nouns")
    gateway.until("/connectors/nouns", "STOPPED")
    found = penstock("offsets", "get", "nouns")
    (one,) = found["offsets"]
    past = penstock("offsets", "history", "nouns", json.dumps(one["partition"]))["versions"]
    assert past[0]["offset"] == one["offset"]
    file = tmp_path / "offsets.json"
    changed = dict.fromkeys(one["offset"], 3)
    file.write_text(json.dumps({"offsets": [{**one, "offset": changed}]}))
    wait_until(lambda: _set(penstock, str(file)), 120, "the task to have let go")
    assert penstock("offsets", "get", "nouns")["offsets"][0]["offset"] == changed
    asked = ("offsets", "rewind", "nouns", "--to", past[0]["written_at"])
    (change,) = penstock(*asked, "--dry-run")["changes"]
    assert (change["before"], change["after"]) == (changed, one["offset"])
    assert penstock(*asked)["revision"]
    assert penstock("offsets", "get", "nouns")["offsets"] == [one]
    penstock("offsets", "reset", "nouns")
    assert penstock("offsets", "get", "nouns")["offsets"] == []
    penstock("connector", "delete", "nouns")


def _set(penstock, file):
    try:
        penstock("offsets", "set", "nouns", file)
    except AssertionError as error:
        assert "offset.still_held" in str(error)  # noqa: PT017 - it is tried again
        return False
    return True


@pytest.mark.parametrize("text", ["{", "[]", '{"offset": []}', "\x00", "[" * 10_000])
def test_what_is_no_file_of_offsets_is_refused(penstock, tmp_path, text):
    file = tmp_path / "offsets.json"
    file.write_text(text)
    assert "[config.file_malformed]" in penstock("offsets", "set", "nobody", str(file), code=2)


def test_workers_are_listed_and_named(penstock):
    found = penstock("workers", "list")
    assert [one["name"] for one in found["workers"]] == ["standalone"]
    for verb in ("drain", "undrain"):
        assert "[scheduler.not_found]" in penstock("workers", verb, "nobody", code=2)


def test_levels_are_set(penstock):
    assert "penstock.nouns" in penstock("loggers", "set", "penstock.nouns", "WARN")
    assert penstock("loggers", "list")["penstock.nouns"]["level"] == "WARN"
    assert penstock("loggers", "set", "penstock.nouns", "INFO", "--cluster") == ["penstock.nouns"]


def test_a_task_and_the_topics_of_a_connector(penstock, gateway):
    gateway.post("/connectors", {"name": "nouns", "config": SOURCE})
    gateway.until("/connectors/nouns", "RUNNING")
    penstock("connector", "restart", "nouns", "--task", "0")
    wait_until(
        lambda: penstock("connector", "topics", "nouns")["nouns"]["topics"] == ["nouns"], 120, "it"
    )
    penstock("connector", "stop", "nouns")
    gateway.until("/connectors/nouns", "STOPPED")
    penstock("connector", "topics", "nouns", "--reset")
    assert penstock("connector", "topics", "nouns")["nouns"]["topics"] == []
    penstock("connector", "delete", "nouns")


def test_plugins_of_the_workers(penstock):
    assert any(one["class"] == "verifiable-source" for one in penstock("connector", "plugins"))
    keys = {one["name"] for one in penstock("connector", "plugins", "verifiable-source")}
    assert "rows" in keys


def test_a_lag_target_of_a_source_that_knows_no_lag_is_warned_about(penstock, gateway):
    endless = {"rows": "0", "rate": "100", "tasks.max": "2", "lag.target": "5s"}
    body = {"name": "lagless", "config": {**SOURCE, **endless}}
    assert gateway.post("/connectors", body).status_code == 201

    def warning():
        return penstock("connector", "status", "lagless")["connector"].get("trace", "")

    wait_until(lambda: "(at lag.target)" in warning(), 120, "the warning")
    assert "[config.no_effect] `lag.target` has no effect here" in warning()
    assert penstock("connector", "status", "lagless")["connector"]["state"] == "RUNNING"
    (shown,) = gateway.get("/v1/status?connector=lagless").json()["connectors"]
    assert shown["why"] == warning()
    penstock("connector", "delete", "lagless")
