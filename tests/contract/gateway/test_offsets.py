"""Offsets over REST: read in any state, altered and reset only when it is stopped."""

from __future__ import annotations

import pytest

from penstock_kit.testing import wait_until

SOURCE = {"connector.class": "verifiable-source", "rows": "50", "topic": "read"}


@pytest.fixture
def read(gateway, made):
    """A source that was read to its end, and stopped."""
    path = made("", "RUNNING", **SOURCE)
    wait_until(lambda: gateway.get(f"{path}/offsets").json()["offsets"], 120, "an offset")
    gateway.put(f"{path}/stop")
    gateway.until(path, "STOPPED")
    wait_until(
        lambda: gateway.patch(f"{path}/offsets", one(gateway, path)).status_code == 200,
        30,
        "its task to have let go",
    )
    return path


def one(gateway, path):
    return gateway.get(f"{path}/offsets").json()


def test_offsets_of_what_never_ran_are_none(gateway, made):
    assert one(gateway, made()) == {"offsets": []}
    assert gateway.get("/connectors/none/offsets").status_code == 404


def test_offsets_are_altered_and_taken_away(gateway, read):
    (found,) = one(gateway, read)["offsets"]
    changed = {"partition": found["partition"], "offset": {**found["offset"], "extra": 1}}
    answer = gateway.patch(f"{read}/offsets", {"offsets": [changed]})
    assert (answer.status_code, set(answer.json())) == (200, {"message"})
    assert one(gateway, read)["offsets"] == [changed]
    gone = {"offsets": [{"partition": found["partition"], "offset": None}]}
    assert gateway.patch(f"{read}/offsets", gone).status_code == 200
    assert one(gateway, read)["offsets"] == []


def test_offsets_are_reset(gateway, read):
    assert gateway.delete(f"{read}/offsets").status_code == 200
    assert one(gateway, read)["offsets"] == []
    assert gateway.delete("/connectors/none/offsets").status_code == 404


def test_what_is_not_stopped_keeps_its_offsets(gateway, made):
    path = made("", "PAUSED")
    body = {"offsets": [{"partition": {"partition": 0}, "offset": None}]}
    for answer in (gateway.patch(f"{path}/offsets", body), gateway.delete(f"{path}/offsets")):
        assert (answer.status_code, answer.json()["code"]) == (400, "offset.not_stopped")


@pytest.mark.parametrize(
    "body", [{}, {"offsets": []}, {"offsets": [{}]}, {"offsets": [{"partition": {}, "offset": 1}]}]
)
def test_nothing_to_alter_is_refused(gateway, made, body):
    assert gateway.patch(f"{made()}/offsets", body).status_code == 400


def test_a_sink_has_kafkas_names(gateway, made, read, tmp_path):
    config = {"connector.class": "file-sink", "file": str(tmp_path / "out"), "topics": "read"}
    path = made("", "RUNNING", **config, format="jsonl")
    wait_until(lambda: one(gateway, path)["offsets"], 120, "an offset of the sink")
    found = one(gateway, path)["offsets"][0]
    assert set(found["partition"]) == {"kafka_topic", "kafka_partition"}
    assert set(found["offset"]) == {"kafka_offset"}
