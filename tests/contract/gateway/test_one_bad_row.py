"""One bad row among a thousand (D8): read, transformed, put or written; whatever the policy."""

import json
from collections import Counter

import pytest

from penstock_kit.testing import wait_until
from support.gateway import READY

ROWS, BAD = 1000, 500
KAFKA = {
    "read": "TASK_POLL",
    "transform": "TRANSFORMATION",
    "write": "TASK_PUT",
}
LINE = {
    "read": "{ no json\n",
    "transform": '{"id": 500, "value": "x", "kind": "good"}\n',
    "write": '{"id": 500, "value": "500", "kind": "bad"}\n',
    "prepare": '{"id": 500, "value": "500", "kind": "late"}\n',
}
TOLD = {"prepare": "write"}
"""The stage of a dead letter, where it has another name."""


@pytest.fixture(params=["read", "transform", "write", "prepare"])
def stage(request):
    return request.param


def file_with(folder, bad):
    """A file with a thousand rows, one of which is that line."""
    good = ({"id": n, "value": str(n), "kind": "good"} for n in range(ROWS))
    lines = [json.dumps(row) + "\n" for row in good]
    lines[BAD] = bad
    (folder / "in.jsonl").write_text("".join(lines))


def config(folder, name, bad, **more):
    """A connector over a thousand rows, one of which is that line."""
    file_with(folder, bad)
    return {
        "source.connector.class": "file-source",
        "source.file": str(folder / "in.jsonl"),
        "source.format": "jsonl",
        "source.invalid.rows": "dead-letter",
        "source.block.bytes": "1024",
        "sink.connector.class": "picky-sink",
        "sink.file": str(folder / "out.jsonl"),
        "transforms": "cast",
        "transforms.cast.type": "Cast",
        "transforms.cast.spec": "value:int32",
        "batch.max.rows": "50",
        "errors.deadletterqueue.topic.name": f"one-{name}",
        "errors.deadletterqueue.context.headers.enable": "true",
        **more,
    }


def written(folder):
    """How often each row is in the file."""
    file = folder / "out.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return Counter(json.loads(line)["id"] for line in lines)


def letters(gateway, name):
    """The letters, whole."""
    answer = gateway.get(f"/v1/connectors/{name}/letters")
    _, *found = map(json.loads, answer.text.splitlines())
    if not found:
        return []
    ids = ",".join(one["id"] for one in found)
    answer = gateway.get(f"/v1/connectors/{name}/letters", params={"ids": ids, "whole": "true"})
    return [json.loads(line) for line in answer.text.splitlines()]


def test_it_ends_the_task_before_its_offset_or_is_the_only_letter(gateway, made, tmp_path, stage):
    name = f"one-{stage}"
    path = made(name, "RUNNING", **config(tmp_path, name, LINE[stage]))
    wait_until(lambda: gateway.states(path)[1] == {"FAILED"}, READY, "it to fail")
    status = gateway.get(f"{path}/status").text
    before = written(tmp_path)
    last = max(before, default=-1)  # those before it may go on; a source tells early what it read
    assert before == Counter(range(last + 1))
    assert last < BAD
    assert letters(gateway, name) == []
    gateway.patch(f"{path}/config", {"errors.tolerance": "all"})
    others = Counter(n for n in range(ROWS) if n != BAD)
    wait_until(lambda: sum(written(tmp_path).values()) >= ROWS - 1, READY, "the other rows")
    wait_until(lambda: letters(gateway, name), READY, "a letter")
    assert written(tmp_path) == others, "its neighbours are written once"
    (letter,) = letters(gateway, name)
    assert (letter["stage"], letter["connector"]) == (TOLD.get(stage, stage), name)
    assert letter["code"] in status, "the reason that ended the task"
    assert "in.jsonl" in letter["partition"]
    assert letter["epoch"] >= 1
    assert letter["transaction"] >= 1
    assert json.loads(letter["offset"]), "that of the checkpoint behind it"
    told = headers(letter)
    assert (told["topic"], told["partition"]) == (letter["dataset"], letter["partition"])
    assert told["offset"] == letter["offset"]
    if stage == "read":
        assert letter["raw"] == LINE[stage]
        assert letter["attempt"] is None
    else:
        assert letter["row"] == json.loads(LINE[stage])
        assert letter["attempt"] >= 0


@pytest.mark.parametrize("stage", ["transform", "write", "prepare"])
def test_a_bad_row_of_a_topic_is_told_by_its_numbers_there(gateway, made, tmp_path, stage):
    """Those of exactly this row, in the middle of its batch."""
    topic, name = f"thousand-{stage}", f"reads-thousand-{stage}"
    file_with(tmp_path, LINE[stage])
    file = {"file": str(tmp_path / "in.jsonl"), "format": "jsonl", "tail": "false"}
    made(f"fills-{topic}", "RUNNING", **{"connector.class": "file-source", "topic": topic, **file})
    made(name, "RUNNING", **{
        "connector.class": "picky-sink",
        "topics": topic,
        "file": str(tmp_path / "out.jsonl"),
        "transforms": "cast",
        "transforms.cast.type": "Cast",
        "transforms.cast.spec": "value:int32",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"dead-{topic}",
        "errors.deadletterqueue.context.headers.enable": "true",
    })  # fmt: skip
    wait_until(lambda: letters(gateway, name), READY, "a letter")
    wait_until(lambda: sum(written(tmp_path).values()) == ROWS - 1, READY, "the other rows")
    (letter,) = letters(gateway, name)
    assert letter["row"] == json.loads(LINE[stage])
    assert (letter["dataset"], letter["partition"], letter["offset"]) == (topic, "0", str(BAD))
    assert letter["attempt"] >= 0
    told = headers(letter)
    assert (told["topic"], told["partition"], told["offset"]) == (topic, "0", str(BAD))
    assert (told["connector.name"], told["task.id"]) == (name, letter["task"].rpartition("-")[2])
    assert told["exception.class.name"] == letter["code"]
    assert told["exception.message"] == letter["message"]


def headers(letter):
    """The ten headers of KIP-298, which are all there are."""
    prefix = "__connect.errors."
    told = {key.removeprefix(prefix): value for key, value in letter["headers"].items()}
    assert told.keys() == {
        "topic", "partition", "offset", "connector.name", "task.id", "stage", "class.name",
        "exception.class.name", "exception.message", "exception.stacktrace",
    }  # fmt: skip
    assert all(key.startswith(prefix) for key in letter["headers"])
    assert told["stage"] == KAFKA[letter["stage"]]
    return told


def test_what_may_pass_is_tried_again_and_no_letter(gateway, made, tmp_path):
    failures = tmp_path / "failures"
    failures.write_text("6")  # more often than without a time to try in
    good = json.dumps({"id": BAD, "value": "500", "kind": "good"}) + "\n"
    more = {
        "sink.failures": str(failures),
        "errors.tolerance": "all",
        "errors.retry.timeout": "600000",
        "errors.retry.delay.max.ms": "50",
    }
    path = made("one-retried", "RUNNING", **config(tmp_path, "retried", good, **more))
    wait_until(lambda: sum(written(tmp_path).values()) >= ROWS, READY, "all rows")
    assert failures.read_text() == "0"
    assert written(tmp_path) == Counter(range(ROWS))
    assert letters(gateway, "one-retried") == []
    (status,) = gateway.get("/v1/status", params={"connector": "one-retried"}).json()["connectors"]
    assert [task["restarts"] for task in status["tasks"]] == [0]
    assert gateway.states(path)[0] == "RUNNING"


@pytest.mark.parametrize("tolerance", ["all", "none"])
def test_rows_that_stay_unwritten_are_rejected_after_some_retries(
    gateway, made, tmp_path, tolerance
):
    """They are those of one checkpoint; all others are written once, and nothing is lost."""
    stuck = json.dumps({"id": BAD, "value": "500", "kind": "stuck"}) + "\n"
    more = {"errors.tolerance": tolerance, "errors.retry.max": "2", "batch.max.rows": "1000000"}
    name = f"one-stuck-{tolerance}"
    path = made(name, "RUNNING", **config(tmp_path, name, stuck, **more))
    if tolerance == "none":
        wait_until(lambda: gateway.states(path)[1] == {"FAILED"}, READY, "it to fail")
        assert "picky.stuck" in gateway.get(f"{path}/status").text
        assert letters(gateway, name) == []
        return
    wait_until(lambda: ROWS - 1 in written(tmp_path), READY, "the last row")
    found = [letter["row"]["id"] for letter in letters(gateway, name)]
    assert {(one["stage"], one["code"]) for one in letters(gateway, name)} == {
        ("write", "picky.stuck")
    }
    assert BAD in found
    assert len(found) < 100
    assert written(tmp_path) == Counter(set(range(ROWS)) - set(found))
