"""Connectors have a say in offsets that people set, as with Kafka Connect's `alterOffsets`."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from penstock_kit.testing import wait_until

TOLD = "The offsets for this connector have been {} successfully"


def offsets(gateway, path):
    return gateway.get(f"{path}/offsets").json()["offsets"]


def patched(gateway, path, *wanted):
    """Alter offsets, as soon as its tasks have let go."""
    answers = []

    def done():
        answers.append(gateway.patch(f"{path}/offsets", {"offsets": list(wanted)}))
        return answers[-1].json().get("code") != "offset.still_held"

    wait_until(done, 120, "the tasks to have let go")
    return answers[-1]


@pytest.fixture
def read(gateway, made, tmp_path):
    """The path of a file that was read to its end, and that of its stopped connector."""
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\n")
    path = made("", "RUNNING", **{"connector.class": "FileStreamSource"}, file=str(file), topic="l")
    wait_until(lambda: offsets(gateway, path), 120, "an offset")
    assert gateway.put(f"{path}/stop").status_code == 204
    gateway.until(path, "STOPPED")
    return str(file), path


def test_what_a_connector_can_go_on_from_is_stored(gateway, read):
    file, path = read
    at = {"partition": {"file": file}, "offset": {"position": 4}}
    answer = patched(gateway, path, at)
    assert (answer.status_code, answer.json()) == (200, {"message": TOLD.format("altered")})
    assert at in offsets(gateway, path)
    answer = gateway.delete(f"{path}/offsets")
    assert (answer.status_code, answer.json()) == (200, {"message": TOLD.format("reset")})
    assert offsets(gateway, path) == []


@pytest.mark.parametrize(
    ("partition", "offset", "said"),
    [
        ({"path": "FILE"}, {"position": 4}, "is no file"),
        ({"filename": "FILE"}, {"position": -1}, "`position` of FILE is -1"),
        ({"file": "FILE"}, {"position": -1}, "`position` of FILE is -1"),
        ({"file": "FILE"}, {"position": "4"}, "`position` of FILE is '4'"),
        ({"file": "FILE"}, {"line": 4}, "the offset of FILE has no `position`"),
        ({"file": "FILE"}, {"row": 4}, "the offset of FILE has no `position`"),
    ],
)
def test_what_it_cannot_go_on_from_is_refused_and_nothing_changes(
    gateway, read, partition, offset, said
):
    file, path = read
    before = offsets(gateway, path)
    right = {"partition": {"file": "/another.txt"}, "offset": {"position": 1}}
    named = {key: value.replace("FILE", file) for key, value in partition.items()}
    answer = patched(gateway, path, right, {"partition": named, "offset": offset})
    assert (answer.status_code, answer.json()["code"]) == (400, "file.bad_offset")
    assert said.replace("FILE", file) in answer.json()["message"]
    assert "It is" in answer.json()["fix"] or "A file is" in answer.json()["fix"]
    assert offsets(gateway, path) == before


def test_the_partition_of_kafka_connects_file_stream_source_is_taken_as_ours(gateway, read):
    """kcctl and scripts send what Kafka Connect showed."""
    file, path = read
    theirs = {"partition": {"filename": file}, "offset": {"position": 4}}
    answer = patched(gateway, path, theirs)
    assert (answer.status_code, answer.json()) == (200, {"message": TOLD.format("altered")})
    found = [one for one in offsets(gateway, path) if one["partition"] != {"find": file}]
    assert found == [{"partition": {"file": file}, "offset": {"position": 4}}]
    twice = patched(gateway, path, theirs, {"partition": {"file": file}, "offset": {"position": 0}})
    assert (twice.status_code, twice.json()["code"]) == (400, "file.bad_offset")
    assert "is named twice" in twice.json()["message"]
    assert patched(gateway, path, {**theirs, "offset": None}).status_code == 200
    assert all("file" not in one["partition"] for one in offsets(gateway, path))


def test_a_plugin_hears_of_a_new_a_changed_a_reset_and_a_deleted_connector(gateway, made, tmp_path):
    mood = tmp_path / "mood"
    mood.write_text("")
    applied = tmp_path / "mood.applied"

    def heard(*actions):
        wait_until(
            lambda: applied.exists() and applied.read_text().splitlines() == list(actions),
            60,
            f"the plugin to hear {actions}",
        )

    config = {"connector.class": "moody-source", "mood": str(mood), "topic": "moods"}
    path = made("", "RUNNING", **config)
    heard("CREATE")
    assert gateway.put(f"{path}/config", {**config, "partitions": "2"}).status_code == 200
    heard("CREATE", "UPDATE after 1")
    assert gateway.put(f"{path}/stop").status_code == 204
    gateway.until(path, "STOPPED")
    # refused as long as the task that was changed a moment ago has not ended
    wait_until(lambda: gateway.delete(f"{path}/offsets").status_code == 200, 120, "the reset")
    heard("CREATE", "UPDATE after 1", "RESET")
    assert gateway.delete(path).status_code == 204
    heard("CREATE", "UPDATE after 1", "RESET", "DELETE")


@pytest.fixture
def moody(gateway, made, tmp_path):
    """A stopped sink whose mood says what it thinks of offsets."""
    mood = tmp_path / "mood"
    mood.write_text("")
    path = made("", "STOPPED", **{"connector.class": "moody-sink"}, mood=str(mood), topics="none")
    return path, mood


def of_sink(partition, offset):
    at = {"kafka_topic": "none", "kafka_partition": partition}
    return {"partition": at, "offset": None if offset is None else {"kafka_offset": offset}}


def test_a_sink_says_what_is_stored_and_changes_what_is_outside(gateway, moody, tmp_path):
    path, mood = moody
    outside = tmp_path / "outside"
    mood.write_text(f"alter to {outside}")
    assert patched(gateway, path, of_sink(0, 17), of_sink(1, None)).status_code == 200
    assert offsets(gateway, path) == [of_sink(0, 10)], "it rounds to tens"
    at = [{"topic": "none", "partition": number} for number in (0, 1)]
    assert json.loads(outside.read_text()) == [[at[0], {"offset": 10}], [at[1], None]]
    assert gateway.delete(f"{path}/offsets").status_code == 200
    assert json.loads(outside.read_text()) == [[at[0], None]]


def test_a_sink_that_refuses_keeps_its_offsets(gateway, moody):
    path, mood = moody
    before = datetime.now(UTC).isoformat()
    assert patched(gateway, path, of_sink(0, 20)).status_code == 200
    mood.write_text("alter")
    rewound = gateway.post(f"/v1{path}/offsets/rewind", {"to": before})
    for answer in (
        gateway.patch(f"{path}/offsets", {"offsets": [of_sink(0, 30)]}),
        gateway.delete(f"{path}/offsets"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (400, "moody.alter")
        assert "the mood forbids" in answer.json()["message"]
    assert "moody.alter" in rewound.text
    assert offsets(gateway, path) == [of_sink(0, 20)]


def test_offsets_that_are_deleted_with_a_connector_are_taken_away_outside_too(
    gateway, moody, tmp_path
):
    path, mood = moody
    outside = tmp_path / "outside"
    assert patched(gateway, path, of_sink(0, 20)).status_code == 200
    mood.write_text("alter")
    refused = gateway.delete(f"{path}?offsets=delete")
    assert (refused.status_code, refused.json()["code"]) == (400, "moody.alter")
    assert offsets(gateway, path) == [of_sink(0, 20)]
    mood.write_text(f"alter to {outside}")
    assert gateway.delete(f"{path}?offsets=delete").status_code == 204
    assert json.loads(outside.read_text()) == [[{"topic": "none", "partition": 0}, None]]
    assert gateway.get(path).status_code == 404


def test_it_is_not_asked_while_it_may_run(gateway, made, tmp_path):
    mood = tmp_path / "mood"
    mood.write_text("alter")
    config = {"connector.class": "moody-sink", "mood": str(mood), "topics": "none"}
    path = made("", "PAUSED", **config)
    answer = gateway.patch(f"{path}/offsets", {"offsets": [of_sink(0, 30)]})
    assert (answer.status_code, answer.json()["code"]) == (400, "offset.not_stopped")
