"""Which topics a connector has rows of, known by its rows and forgotten on demand."""

from __future__ import annotations

from penstock_kit.testing import wait_until

SOURCE = {"connector.class": "verifiable-source", "rows": "50", "topic": "noted"}


def topics(gateway, path):
    answer = gateway.get(f"{path}/topics")
    assert answer.status_code == 200
    ((name, found),) = answer.json().items()
    assert name == path.rpartition("/")[2]
    return found["topics"]


def test_topics_are_those_of_rows(gateway, made, tmp_path):
    source = made("", "RUNNING", **SOURCE)
    wait_until(lambda: topics(gateway, source) == ["noted"], 120, "the source's topic")
    file = {"connector.class": "file-sink", "file": str(tmp_path / "out"), "format": "jsonl"}
    sink = made("", "RUNNING", **file, topics="noted,nothing-there")
    wait_until(lambda: topics(gateway, sink) == ["noted"], 120, "the sink's topic")


def test_what_never_ran_has_none(gateway, made):
    assert topics(gateway, made()) == []
    assert gateway.get("/connectors/none/topics").status_code == 404
    assert gateway.put("/connectors/none/topics/reset").status_code == 404


def test_topics_are_forgotten(gateway, made):
    path = made("", "RUNNING", **SOURCE)
    wait_until(lambda: topics(gateway, path) == ["noted"], 120, "the topic")
    assert gateway.put(f"{path}/topics/reset").status_code == 202
    assert topics(gateway, path) == []
