"""Kafka Connect's OffsetsApiIntegrationTest, by the names of its cases: offsets are read in any
state, altered and reset when nothing runs.

| case | here |
|---|---|
| …_custom_offsets_topic: get, alter, reset | offsets are in the offset service, not in a topic |
| …_different_kafka_cluster_targeted: get, alter, reset, of both | there is no Kafka to target |
| …_overridden_consumer_group_id: get, alter, reset | a sink has no group: its offsets are its own |

Where Kafka answers 500 for a body that it cannot take apart, it is 400 here. A zombie, which Kafka
never gets rid of (500), is killed after its grace: until then it is 400.
"""

from __future__ import annotations

import itertools

import pytest

from penstock_kit.testing import wait_until

ROWS, PARTITIONS = 10, 3
TOPIC = "kafka-offsets"
SOURCE = {"connector.class": "verifiable-source", "partitions": "2", "tasks.max": "2"}
DONE = (
    "The Connect framework-managed offsets for this connector have been {} successfully. However, "
    "if this connector manages offsets externally, they will need to be manually {} in the system "
    "that the connector uses."
)


TOLD = "The offsets for this connector have been {} successfully"


def offsets(gateway, path):
    answer = gateway.get(f"{path}/offsets")
    assert answer.status_code == 200
    return answer.json()["offsets"]


def until_sum(gateway, path, wanted):
    """Wait until the offsets of a connector, of which each has one number, add up."""

    def added():
        numbers = [value for one in offsets(gateway, path) for value in one["offset"].values()]
        return sum(numbers) == wanted

    wait_until(added, 120, f"the offsets of {path} to add up to {wanted}")


def stopped(gateway, path):
    assert gateway.put(f"{path}/stop").status_code == 204
    gateway.until(path, "STOPPED")


def altered(gateway, path, wanted, said=DONE):
    """Alter offsets, as soon as nothing is held any more."""
    answers = []

    def done():
        answers.append(gateway.patch(f"{path}/offsets", {"offsets": wanted}))
        return answers[-1].json().get("code") != "offset.still_held"

    wait_until(done, 120, "the tasks to have let go")
    assert (answers[-1].status_code, answers[-1].json()["message"]) == (
        200,
        said.format("altered", "altered"),
    )


def reset(gateway, path, said=DONE):
    """Reset offsets, as soon as nothing is held any more."""
    answers = []

    def done():
        answers.append(gateway.delete(f"{path}/offsets"))
        return answers[-1].json().get("code") != "offset.still_held"

    wait_until(done, 120, "the tasks to have let go")
    assert (answers[-1].status_code, answers[-1].json()["message"]) == (
        200,
        said.format("reset", "reset"),
    )
    assert offsets(gateway, path) == []


@pytest.fixture(scope="module")
def topic(gateway):
    """Fill a topic with some rows, and more of them; returns how many there are."""
    config = {**SOURCE, "partitions": str(PARTITIONS), "topic.partitions": str(PARTITIONS)}
    rows = itertools.accumulate(itertools.repeat(ROWS))

    def fill():
        count = next(rows)
        wanted = {**config, "topic": TOPIC, "rows": str(count)}
        gateway.put("/connectors/fills-topic/config", wanted)
        until_sum(gateway, "/connectors/fills-topic", count * PARTITIONS)
        return count * PARTITIONS

    yield fill
    gateway.delete("/connectors/fills-topic")


@pytest.fixture
def sink(made, tmp_path):
    """A sink that reads the topic."""
    file = {"connector.class": "file-sink", "format": "jsonl", "file": f"{tmp_path}/out-${{task}}"}
    return made("", "RUNNING", **file, topics=TOPIC, **{"tasks.max": "2"})


@pytest.fixture
def source(made):
    """Make a source of two tasks."""

    def make(**more):
        keys = {key.replace("_", "."): value for key, value in more.items()}
        return made("", "RUNNING", **SOURCE, rows=str(ROWS), topic="read-twice", **keys)

    return make


@pytest.fixture
def zombie(gateway, made, topic, tmp_path):
    """A sink that was told to stop, and hangs instead."""
    total = topic()
    mood = tmp_path / "mood"
    mood.write_text("")
    config = {"connector.class": "moody-sink", "mood": str(mood), "topics": TOPIC}
    path = made("", "RUNNING", **config)
    until_sum(gateway, path, total)
    mood.write_text("hang close")
    assert gateway.put(f"{path}/stop").status_code == 204
    yield path
    mood.write_text("")


def of_sink(partition, offset):
    at = {"kafka_topic": TOPIC, "kafka_partition": partition}
    return {"partition": at, "offset": None if offset is None else {"kafka_offset": offset}}


def test_get_non_existent_connector_offsets(gateway):
    assert gateway.get("/connectors/non-existent-connector/offsets").status_code == 404


def test_get_sink_connector_offsets(gateway, topic, sink):
    until_sum(gateway, sink, topic())
    until_sum(gateway, sink, topic())
    found = offsets(gateway, sink)
    assert {one["partition"]["kafka_topic"] for one in found} == {TOPIC}
    assert {one["partition"]["kafka_partition"] for one in found} <= set(range(PARTITIONS))


def test_get_source_connector_offsets(gateway, source):
    path = source()
    until_sum(gateway, path, 2 * ROWS)
    assert len(offsets(gateway, path)) == 2
    config = gateway.get(f"{path}/config").json()
    gateway.put(f"{path}/config", {**config, "rows": str(2 * ROWS)})
    until_sum(gateway, path, 4 * ROWS)


def test_alter_offsets_non_existent_connector(gateway):
    body = {"offsets": [{"partition": {}, "offset": {}}]}
    answer = gateway.patch("/connectors/non-existent-connector/offsets", body)
    assert answer.status_code == 404


def test_alter_offsets_non_stopped_connector(gateway, source):
    path = source()
    until_sum(gateway, path, 2 * ROWS)
    body = {"offsets": offsets(gateway, path)}
    assert gateway.patch(f"{path}/offsets", body).status_code == 400
    gateway.put(f"{path}/pause")
    gateway.until(path, "PAUSED")
    assert gateway.patch(f"{path}/offsets", body).status_code == 400


def test_alter_sink_connector_offsets(gateway, topic, sink):
    total = topic()
    until_sum(gateway, sink, total)
    stopped(gateway, sink)
    first, *others = (one["partition"]["kafka_partition"] for one in offsets(gateway, sink))
    altered(gateway, sink, [of_sink(first, None), *(of_sink(n, 5) for n in others)])
    assert offsets(gateway, sink) == [of_sink(n, 5) for n in others]
    if others:
        altered(gateway, sink, [of_sink(n, 3) for n in others])
        assert offsets(gateway, sink) == [of_sink(n, 3) for n in others]
    gateway.put(f"{sink}/resume")
    until_sum(gateway, sink, total)


def test_alter_sink_connector_offsets_zombie_sink_tasks(gateway, zombie):
    answer = gateway.patch(f"{zombie}/offsets", {"offsets": [of_sink(0, None)]})
    assert (answer.status_code, answer.json()["code"]) == (400, "offset.still_held")
    assert "is not released yet" in answer.json()["message"]
    altered(gateway, zombie, [of_sink(0, None)], said=TOLD)


NOT_NULL = "The partition for a sink connector offset cannot be null or missing"
KEYS = "The partition for a sink connector offset must contain the keys 'kafka_topic' and"
NEEDED = "Partitions / offsets need to be provided for an alter offsets request"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, NEEDED),
        ({"offsets": []}, NEEDED),
        ({"offsets": [{}]}, NOT_NULL),
        ({"offsets": [{"partition": None, "offset": None}]}, NOT_NULL),
        ({"offsets": [{"partition": {}, "offset": None}]}, KEYS),
        (
            {"offsets": [of_sink("not a number", None)]},
            "Partition values for sink connectors need to be integers",
        ),
        (
            {"offsets": [{**of_sink(1, None), "offset": {}}]},
            "The offset for a sink connector should either be null or contain the key",
        ),
        (
            {"offsets": [of_sink(1, "not a number")]},
            "Offset values for sink connectors need to be integers",
        ),
    ],
)
def test_alter_sink_connector_offsets_invalid_request_body(gateway, made, tmp_path, body, said):
    path = made("", "STOPPED", **{"connector.class": "file-sink", "topics": TOPIC}, file="/tmp/x")
    answer = gateway.patch(f"{path}/offsets", body)
    assert answer.status_code == 400
    assert said in answer.json()["message"]


def alter_and_verify(gateway, path):
    until_sum(gateway, path, 2 * ROWS)
    stopped(gateway, path)
    found = offsets(gateway, path)
    for number in (5, 7):
        wanted = [{**one, "offset": dict.fromkeys(one["offset"], number)} for one in found]
        altered(gateway, path, wanted)
        assert offsets(gateway, path) == wanted
    gateway.put(f"{path}/resume")
    until_sum(gateway, path, 2 * ROWS)


def test_alter_source_connector_offsets(gateway, source):
    alter_and_verify(gateway, source())


def test_alter_source_connector_offsets_exactly_once_support_enabled(gateway, source):
    alter_and_verify(gateway, source(delivery="exactly-once"))


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{}",
        '{"key": []}',
        '{"offsets": []}',
        '{"offsets": {}}',
        '{"offsets": [123]}',
        '{"offsets": [{"key": "val"}]}',
        '{"offsets": [{"partition": []]}]}',
    ],
)
def test_alter_source_connector_offsets_invalid_request_body(gateway, made, content):
    kind = {"Content-Type": "application/json"}
    answer = gateway.client.patch(f"{made()}/offsets", content=content, headers=kind)
    assert answer.status_code == 400
    assert answer.json()["code"]


def test_reset_sink_connector_offsets(gateway, topic, sink):
    total = topic()
    until_sum(gateway, sink, total)
    stopped(gateway, sink)
    reset(gateway, sink)
    reset(gateway, sink)
    gateway.put(f"{sink}/resume")
    until_sum(gateway, sink, total)


def test_reset_sink_connector_offsets_zombie_sink_tasks(gateway, zombie):
    answer = gateway.delete(f"{zombie}/offsets")
    assert (answer.status_code, answer.json()["code"]) == (400, "offset.still_held")
    reset(gateway, zombie, said=TOLD)


def reset_and_verify(gateway, path):
    until_sum(gateway, path, 2 * ROWS)
    stopped(gateway, path)
    reset(gateway, path)
    reset(gateway, path)
    gateway.put(f"{path}/resume")
    until_sum(gateway, path, 2 * ROWS)


def test_reset_source_connector_offsets(gateway, source):
    reset_and_verify(gateway, source())


def test_reset_source_connector_offsets_exactly_once_support_enabled(gateway, source):
    reset_and_verify(gateway, source(delivery="exactly-once"))
