"""Bad rows go to dead letters, in the same transaction as the others, and can be read like rows."""

import base64
import json

import pytest

from penstock_kit.testing import wait_until
from support.gateway import READY

BAD = (3, 7)


@pytest.fixture
def place(tmp_path):
    """Ten rows, two of which are no numbers."""
    lines = [{"id": n, "value": "x" if n in BAD else str(n)} for n in range(10)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "in.jsonl").write_text(text)
    return tmp_path


def pipeline(place, **more):
    return {
        "source.connector.class": "file-source",
        "source.file": str(place / "in.jsonl"),
        "source.format": "jsonl",
        "sink.connector.class": "file-sink",
        "sink.file": str(place / "out.jsonl"),
        "sink.format": "jsonl",
        "transforms": "cast",
        "transforms.cast.type": "Cast",
        "transforms.cast.spec": "value:int32",
        **more,
    }


def rows(file):
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def reading(place, topic):
    """What puts a topic's rows into a file."""
    return {
        "connector.class": "file-sink",
        "topics": topic,
        "file": str(place / "letters.jsonl"),
        "format": "jsonl",
    }


@pytest.mark.parametrize("fused", [True, False])
def test_a_row_is_in_exactly_one_of_the_two_places(gateway, made, place, fused):
    more = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"dead-{fused}",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    if not fused:  # an expression that takes the rows through the JVM
        more |= {
            "transforms": "sql,cast",
            "transforms.sql.type": "Project",
            "transforms.sql.columns": "id, concat(value, '') AS value, sqrt(id) AS root",
        }
    path = made(state="RUNNING", **pipeline(place, **more))
    made(state="RUNNING", **reading(place, f"dead-{fused}"))
    wait_until(lambda: len(rows(place / "letters.jsonl")) == 2, READY, "letters")
    wait_until(lambda: len(rows(place / "out.jsonl")) == 8, READY, "the other rows")
    assert [row["id"] for row in rows(place / "out.jsonl")] == [
        n for n in range(10) if n not in BAD
    ]
    letters = rows(place / "letters.jsonl")
    assert [json.loads(one["row"]) for one in letters] == [{"id": n, "value": "x"} for n in BAD]
    assert {one["stage"] for one in letters} == {"transform"}
    assert {one["config_path"] for one in letters} == {"transforms.cast"}
    assert gateway.states(path)[0] == "RUNNING"


def test_letters_go_to_any_sink(gateway, made, place):
    sink = "errors.deadletterqueue.sink."
    more = {
        "errors.tolerance": "5/10",
        f"{sink}connector.class": "file-sink",
        f"{sink}file": str(place / "letters.jsonl"),
        f"{sink}format": "jsonl",
    }
    made(state="RUNNING", **pipeline(place, **more))
    wait_until(lambda: len(rows(place / "letters.jsonl")) == 2, READY, "letters")
    wait_until(lambda: len(rows(place / "out.jsonl")) == 8, READY, "the other rows")


def test_a_row_that_cannot_be_read_keeps_its_bytes(gateway, made, place):
    with (place / "in.jsonl").open("a") as file:
        file.write("{ no json\n" + json.dumps({"id": 10, "value": "10"}) + "\n")
    more = {
        "source.invalid.rows": "dead-letter",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "dead-unread",
    }
    made(state="RUNNING", **pipeline(place, **more))
    made(state="RUNNING", **reading(place, "dead-unread"))
    wait_until(lambda: len(rows(place / "letters.jsonl")) == 3, READY, "letters")
    wait_until(lambda: len(rows(place / "out.jsonl")) == 9, READY, "the other rows")
    (unread,) = [one for one in rows(place / "letters.jsonl") if one["stage"] == "read"]
    assert base64.b64decode(unread["raw"]) == b"{ no json\n"
    assert unread.get("row") is None


def test_one_too_many_ends_the_task_before_its_offset(gateway, made, place):
    more = {"errors.tolerance": "1/10", "errors.deadletterqueue.topic.name": "dead-window"}
    path = made(state="RUNNING", **pipeline(place, **more))
    wait_until(lambda: "FAILED" in gateway.states(path)[1], READY, "it to fail")
    status = gateway.get(f"{path}/status").text
    assert "1 of 10 are tolerated" in status
    assert rows(place / "out.jsonl") == []


def test_bad_rows_are_skipped_only_when_that_is_said(gateway, made, place):
    config = pipeline(place, **{"errors.tolerance": "all", "errors.skip": "true"})
    made(state="RUNNING", **config)
    wait_until(lambda: len(rows(place / "out.jsonl")) == 8, READY, "the other rows")


def test_bad_rows_for_which_no_place_is_named_have_a_topic(gateway, made, place):
    path = made(state="RUNNING", **pipeline(place, **{"errors.tolerance": "all"}))
    made(state="RUNNING", **reading(place, f"{path.rpartition('/')[2]}.letters"))
    wait_until(lambda: len(rows(place / "letters.jsonl")) == 2, READY, "letters")
    wait_until(lambda: len(rows(place / "out.jsonl")) == 8, READY, "the other rows")


def test_rows_whose_columns_changed_become_letters(gateway, made, place):
    """The place keeps its columns, and rows of its own go on."""
    topic = {"connector.class": "file-source", "format": "jsonl", "topic": "drifting"}
    made(state="RUNNING", **topic, file=str(place / "in.jsonl"), tail="false")
    (place / "other.jsonl").write_text('{"id": 10, "value": "y", "note": "z"}\n')
    config = {**topic, "file": str(place / "other.jsonl"), "schema.evolution": "dead-letter"}
    refused = gateway.post("/connectors", {"name": "strict", "config": config})
    assert "errors.not_tolerated" in refused.text
    more = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "drifted"}
    made("", "RUNNING", **reading(place, "drifting") | {"file": str(place / "rows.jsonl")})
    wait_until(lambda: len(rows(place / "rows.jsonl")) == 10, READY, "the topic's rows")
    made("", "RUNNING", **config, **more)
    made("", "RUNNING", **reading(place, "drifted"))
    wait_until(lambda: len(rows(place / "letters.jsonl")) == 1, READY, "a letter")
    (letter,) = rows(place / "letters.jsonl")
    assert (letter["code"], letter["config_path"]) == ("schema.changed", "schema.evolution")
    assert json.loads(letter["row"]) == {"id": 10, "value": "y", "note": "z"}
    assert len(rows(place / "rows.jsonl")) == 10
