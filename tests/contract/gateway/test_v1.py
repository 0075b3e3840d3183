"""What Kafka Connect's REST API has no words for."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from penstock_kit.testing import wait_until

VERIFIABLE = {"connector.class": "verifiable-source", "rows": "10", "topic": "rows"}


def own(path):
    return f"/v1{path}"


def lines(answer):
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


def test_versions_are_kept_compared_and_taken_again(gateway, made):
    path = made()
    gateway.put(f"{path}/config", {**VERIFIABLE, "rows": "20"})
    found = gateway.get(own(f"{path}/revisions")).json()["revisions"]
    assert [one["version"] for one in found] == [2, 1]
    assert [one["cause"] for one in found] == ["put", "created"]
    first = gateway.get(own(f"{path}/revisions/1")).json()
    assert first["config"]["rows"] == "10"
    differences = gateway.get(own(f"{path}/diff?from=1&to=2")).json()["differences"]
    assert {"key": "rows", "before": "10", "after": "20"} in differences
    back = gateway.post(own(f"{path}/rollback"), {"version": 1})
    assert (back.json()["version"], back.json()["config"]["rows"]) == (3, "10")
    assert back.headers["etag"] == gateway.get(path).headers["etag"]
    whole = gateway.get(own(path)).json()
    assert (whole["kind"], whole["target_state"], whole["version"]) == ("source", "STOPPED", 3)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/connectors/none", None, 404),
        ("GET", "/v1/connectors/none/revisions", None, 404),
        ("GET", "{c}/revisions/99", None, 404),
        ("GET", "{c}/revisions/x", None, 404),
        ("GET", "{c}/diff", None, 400),
        ("GET", "{c}/diff?from=0", None, 400),
        ("POST", "{c}/rollback", {}, 400),
        ("POST", "{c}/rollback", {"version": 0}, 400),
        ("POST", "{c}/rollback", {"version": True}, 400),
        ("POST", "{c}/rollback", {"version": 99}, 404),
        ("GET", "{c}/offsets/history", None, 400),
        ("GET", "{c}/offsets/history?partition=[]", None, 400),
        ("POST", "{c}/offsets/rewind", {}, 400),
        ("POST", "{c}/offsets/rewind", {"to": "yesterday"}, 400),
        ("POST", "{c}/offsets/rewind", {"to": "2026-01-01T00:00:00"}, 400),
        ("GET", "{c}/tasks/0/rows", None, 404),
        ("GET", "{c}/tasks/0/rows?rows=0", None, 400),
        ("PUT", "/v1/workers/none/drain", None, 404),
    ],
)
def test_what_is_not_there_or_wrong_is_refused(gateway, made, method, path, body, status):
    path = path.format(c=own(made()))
    more = {} if body is None else {"json": body}
    answer = gateway.client.request(method, path, **more)
    assert answer.status_code == status, answer.text
    assert answer.json()["code"]


def test_everything_that_is_found_is_told(gateway):
    body = {"name": "x", "config": {**VERIFIABLE, "rowz": "1", "producer.override.acks": "true"}}
    found = gateway.post("/v1/connectors/validate", body).json()
    assert found["kind"] == "source"
    severities = {one["config_path"]: one["severity"] for one in found["findings"]}
    assert severities == {"rowz": "error", "producer.override.acks": "warning"}


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        (("file-sorce", "file-sink"), {"source": "plugin.not_installed"}),
        (("file-source", "file-snk"), {"sink": "plugin.not_installed"}),
        (("x", "y"), {"source": "plugin.not_installed", "sink": "plugin.not_installed"}),
        (
            ("file-sink", "file-source"),
            {"source": "plugin.wrong_kind", "sink": "plugin.wrong_kind"},
        ),
        (("", "file-sink"), {"source": "config.missing"}),
    ],
)
def test_a_wrong_class_of_a_pipeline_is_told_at_its_end(gateway, tmp_path, ends, found):
    source, sink = ends
    config = {
        "source.connector.class": source, "source.file": str(tmp_path / "a"),
        "sink.connector.class": sink, "sink.file": str(tmp_path / "b"),
    }  # fmt: skip
    answer = gateway.post("/connectors", {"name": "wrong-ends", "config": config})
    assert (answer.status_code, answer.json()["code"]) == (400, "config.invalid")
    told = {one["config_path"]: one["code"] for one in answer.json()["errors"]}
    assert told == {f"{end}.connector.class": code for end, code in found.items()}


def test_a_connection_is_checked_step_by_step(gateway, tmp_path):
    file = tmp_path / "in.txt"
    config = {"connector.class": "file-source", "file": str(file), "tail": "false", "topic": "t"}
    body = {"name": "x", "config": config}
    steps = lines(gateway.post("/v1/connectors/check", body))
    assert {step["end"] for step in steps} == {"source"}
    failed = next(step for step in steps if not step["ok"])
    assert failed["findings"][0]["code"]
    file.write_text("a\n")
    assert all(step["ok"] for step in lines(gateway.post("/v1/connectors/check", body)))


def test_datasets_are_listed_up_to_a_limit(gateway, tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("id,at\n1,2026-01-02\n")
    config = {"connector.class": "file-source", "path": f"{tmp_path}/*.csv", "format": "csv"}
    body = {"name": "x", "config": {**config, "dataset": "${file}"}}
    listed = lines(gateway.post("/v1/connectors/datasets", body))
    assert listed[0] == {
        "name": f"{tmp_path}/a.csv",
        "dataset": "a",
        "selected": True,
        "columns": [
            {"name": "id", "type": "int64", "nullable": True, "key": False},
            {"name": "at", "type": "date32[day]", "nullable": True, "key": False},
        ],
        "problem": None,
    }
    assert [one["dataset"] for one in listed] == ["a", "b"]
    listed = lines(gateway.post("/v1/connectors/datasets", {**body, "limit": 1}))
    assert listed[1:] == [{"more": True}]


@pytest.mark.parametrize("limit", [0, 10_001, "1", True, 1.5])
def test_a_limit_of_datasets_that_is_none_is_refused(gateway, limit):
    body = {"name": "x", "config": VERIFIABLE, "limit": limit}
    answer = gateway.post("/v1/connectors/datasets", body)
    assert (answer.status_code, answer.json()["code"]) == (400, "http.parameter")


def test_a_connector_that_cannot_list_datasets_says_so(gateway):
    answer = gateway.post("/v1/connectors/datasets", {"name": "x", "config": VERIFIABLE})
    assert (answer.status_code, answer.json()["code"]) == (400, "plugin.lists_no_datasets")


def test_offsets_go_back_to_a_time(gateway, made):
    path = made("", "RUNNING", **VERIFIABLE)
    wait_until(lambda: gateway.get(f"{path}/offsets").json()["offsets"], 120, "an offset")
    gateway.put(f"{path}/stop")
    gateway.until(path, "STOPPED")
    (found,) = gateway.get(f"{path}/offsets").json()["offsets"]
    key = json.dumps(found["partition"])
    versions = gateway.get(own(f"{path}/offsets/history"), params={"partition": key}).json()
    assert versions["versions"][0]["offset"] == found["offset"]
    before = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    dry = lines(gateway.post(own(f"{path}/offsets/rewind"), {"to": before, "dry_run": True}))
    assert dry[-1].get("changes") or any("changes" in step for step in dry)
    assert gateway.get(f"{path}/offsets").json()["offsets"] == [found]
    done = lines(gateway.post(own(f"{path}/offsets/rewind"), {"to": before}))
    assert done[-1]["revision"]
    assert gateway.get(f"{path}/offsets").json()["offsets"] == []


def test_live_rows_are_shown(gateway, made):
    slow = {**VERIFIABLE, "rows": "100000", "rate": "50", "batch.rows": "10"}
    path = made("", "RUNNING", **slow)
    gateway.until(path, "RUNNING")
    shown = lines(gateway.get(own(f"{path}/tasks/0/rows?rows=5&seconds=30")))
    rows = [line for line in shown if "row" in line]
    assert len(rows) == 5
    assert all("seq" in line["row"] for line in rows)


STAGED = {
    **VERIFIABLE,
    "rows": "100000",
    "rate": "100",
    "batch.rows": "10",
    "transforms": "keep,mark,read,other,drop",
    "transforms.keep.type": "Filter",
    "transforms.keep.condition": "seq % 2 = 0",
    "transforms.mark.type": "InsertField",
    "transforms.mark.static.field": "mark",
    "transforms.mark.static.value": "m",
    "transforms.mark.predicate": "ours",
    "transforms.read.type": "InsertField",
    "transforms.read.static.field": "late",
    "transforms.read.static.value": "l",
    "transforms.other.type": "InsertField",
    "transforms.other.static.field": "other",
    "transforms.other.static.value": "o",
    "transforms.other.predicate": "ours",
    "transforms.other.negate": "true",
    "transforms.drop.type": "Filter",
    "transforms.drop.condition": "seq < 0",
    "predicates": "ours",
    "predicates.ours.type": "TopicNameMatches",
    "predicates.ours.pattern": "rows",
}


def test_live_rows_are_shown_behind_each_transform(gateway, made):
    path = made("", "RUNNING", **STAGED)
    gateway.until(path, "RUNNING")
    where = own(f"{path}/tasks/0/rows")

    def look(stage, **more):
        return lines(gateway.get(where, params={"stage": stage, "rows": 6, "seconds": 60, **more}))

    added = {"read": set(), "keep": set(), "mark": {"mark"}, "transforms.read": {"mark", "late"},
             "other": {"mark", "late"}}  # fmt: skip
    for stage, columns in added.items():
        rows = [line["row"] for line in look(stage) if "row" in line]
        assert len(rows) == 6
        assert all(row.keys() & {"mark", "late", "other"} == columns for row in rows), stage
        assert any(row["seq"] % 2 for row in rows) is (stage == "read")
    for stage in ("drop", "transformed"):
        assert look(stage, seconds=1) == [], "a row that is dropped is no line, nor missed"


def test_a_stage_that_a_chain_does_not_have_is_refused_with_those_that_it_has(gateway, made):
    path = made("", "RUNNING", **STAGED)
    gateway.until(path, "RUNNING")
    for stage in ("kep", "ours", "READ", "seq < 0"):
        answer = gateway.get(own(f"{path}/tasks/0/rows"), params={"stage": stage})
        assert answer.status_code == 400, answer.text
        assert "worker.no_stage" in answer.text
        assert "read, keep, mark, transforms.read, other, drop, transformed" in answer.text
    assert gateway.get(own(f"{path}/tasks/0/rows?stage=")).status_code == 400


def test_a_worker_is_told_to_be_empty_and_not_to_be(gateway):
    (worker,) = gateway.get("/v1/cluster").json()["workers"]
    assert worker["connected"]
    path = f"/v1/workers/{worker['id']}/drain"
    try:
        assert gateway.put(path).json()["tasks_left"] <= worker["tasks"], "it may end one meanwhile"
        assert gateway.get("/v1/cluster").json()["workers"][0]["draining"]
    finally:
        gateway.delete(path)
    assert not gateway.get("/v1/cluster").json()["workers"][0]["draining"]


REHEARSED = {
    "name": "x",
    "config": {
        **VERIFIABLE,
        "transforms": "keep,to",
        "transforms.keep.type": "Filter",
        "transforms.keep.condition": "age >= 18",
        "transforms.to.type": "RegexRouter",
        "transforms.to.regex": "(.*)",
        "transforms.to.replacement": "adult-$1",
    },
    "dataset": "people",
}


def test_rows_that_the_source_could_not_read_are_counted_with_their_reasons(gateway, tmp_path):
    lines = ["id,joined", *(f"{n},{'soon' if n < 25 else '2024-01-04'}" for n in range(30))]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    config = {
        "connector.class": "file-source", "file": str(tmp_path / "in.csv"), "format": "csv",
        "types": "joined:date", "invalid.rows": "dead-letter", "errors.tolerance": "all",
    }  # fmt: skip
    body = {"name": "bad lines", "config": config, "sample": 2}
    found = gateway.post("/v1/connectors/rehearse", body).json()
    assert [row["id"] for row in found["rows"]] == [25, 26]
    assert (found["unread_count"], len(found["unread"])) == (25, 20)
    assert found["unread"][0]["code"] == "file.invalid_csv"
    assert "in.csv, line 2" in found["unread"][0]["message"]


def test_rows_are_rehearsed_before_a_connector_is_stored(gateway):
    rows = [{"name": "Ada", "age": 36}, {"name": "Bob", "age": 3}]
    found = gateway.post("/v1/connectors/rehearse", {**REHEARSED, "rows": rows})
    assert found.json() == {
        "dataset": "adult-people", "rows": rows[:1], "failed": [], "unread_count": 0, "unread": [],
    }  # fmt: skip
    assert gateway.get("/connectors/x").status_code == 404


def test_a_row_that_fails_is_told_with_its_number_and_why(gateway):
    config = {
        **VERIFIABLE,
        "transforms": "cast",
        "transforms.cast.type": "Cast",
        "transforms.cast.spec": "n:int32",
    }
    rows = [{"n": "1"}, {"n": "one"}, {"n": "2"}]
    body = {**REHEARSED, "config": config, "rows": rows}
    found = gateway.post("/v1/connectors/rehearse", body).json()
    assert found["rows"] == [{"n": 1}, {"n": 2}]
    (failed,) = found["failed"]
    assert failed["row"] == 2
    assert failed["finding"]["config_path"] == "transforms.cast"


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"rows": {"a": 1}}, "http.parameter"),
        ({"rows": [1]}, "http.not_an_object"),
        ({"rows": [{"age": 1}, {"age": "x"}]}, "rehearsal.rows"),
        ({"rows": [{"age": 1}] * 1001}, "rehearsal.too_much"),
        ({"rows": [{"name": "Ada"}]}, "transform.unknown_column"),
        ({"rows": [], "columns": {"age": "int65"}}, "transform.bad_columns"),
        ({"rows": [], "config": {}}, "config.missing"),
    ],
)
def test_what_cannot_be_rehearsed_is_refused(gateway, changed, code):
    found = gateway.post("/v1/connectors/rehearse", {**REHEARSED, "rows": [], **changed})
    assert (found.status_code, found.json()["code"]) == (400, code)


def test_the_first_rows_of_a_source_are_rehearsed(gateway, tmp_path):
    (tmp_path / "in.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(1_000)))
    config = {
        "connector.class": "file-source",
        "file": str(tmp_path / "in.jsonl"),
        "format": "jsonl",
        "topic": "numbers",
        "transforms": "odd",
        "transforms.odd.type": "Filter",
        "transforms.odd.condition": "n % 2 = 1",
    }
    body = {"name": "x", "config": config, "sample": 10}
    found = gateway.post("/v1/connectors/rehearse", body).json()
    assert found["dataset"] == "numbers"
    assert [row["n"] for row in found["rows"]][:3] == [1, 3, 5]
    assert 1 <= len(found["rows"]) <= 10
    (tmp_path / "in.jsonl").write_text("")
    empty = gateway.post("/v1/connectors/rehearse", {**body, "config": {**config, "tail": "false"}})
    assert (empty.status_code, empty.json()["code"]) == (503, "rehearsal.no_rows")
    both = gateway.post("/v1/connectors/rehearse", {**body, "rows": []})
    assert (both.status_code, both.json()["code"]) == (400, "http.parameter")


def test_a_source_that_keeps_what_it_was_not_told_about_is_not_opened(gateway):
    config = {
        "connector.class": "postgres-cdc",
        "hostname": "127.0.0.1",
        "database": "x",
        "user": "x",
        "password": "x",
        "topic": "x",
    }
    body = {"name": "x", "config": config, "sample": 10}
    found = gateway.post("/v1/connectors/rehearse", body)
    assert (found.status_code, found.json()["code"]) == (400, "rehearsal.source_keeps")


@pytest.fixture
def failing(gateway, made, tmp_path):
    mood = tmp_path / "mood"
    mood.write_text("task 0")
    path = made("", "RUNNING", **{"connector.class": "moody-source", "mood": str(mood)})
    wait_until(lambda: gateway.states(path)[1] == {"FAILED"}, 120, "the task to fail")
    return path


def test_what_is_logged_about_a_connector_is_shown(gateway, failing):
    name = failing.rpartition("/")[2]
    (found,) = lines(gateway.get(own(f"{failing}/logs"), params={"tail": 1, "level": "WARN"}))
    assert (found["connector"], found["level"]) == (name, "ERROR")
    assert "moody.task" in found["message"]
    assert gateway.get("/v1/connectors/nobody/logs").status_code == 404
    assert gateway.get("/v1/logs", params={"level": "LOUD"}).status_code == 404


def test_what_happened_to_a_connector_is_shown_and_followed(gateway, failing):
    def events(**params):
        return lines(gateway.get(own(f"{failing}/events"), params=params))

    wait_until(lambda: "failed" in {event["kind"] for event in events()}, 60, "the failure")
    name = failing.rpartition("/")[2]
    assert {event["connector"] for event in events()} == {name}
    assert "assigned" in {event["kind"] for event in events()}
    (last,) = events(tail=1)
    assert last in lines(gateway.get("/v1/events"))
    with gateway.client.stream(
        "GET", own(f"{failing}/events"), params={"follow": True, "tail": 1}
    ) as answer:
        following = answer.iter_lines()
        assert json.loads(next(following)) == last
        gateway.post(f"{failing}/restart", params={"includeTasks": True})
        assert json.loads(next(following))["number"] > last["number"]
    assert gateway.get("/v1/connectors/nobody/events").status_code == 404


def test_lines_that_come_are_shown(gateway, failing):
    params = {"follow": True, "tail": 1, "level": "ERROR"}
    with gateway.client.stream("GET", own(f"{failing}/logs"), params=params) as answer:
        following = answer.iter_lines()
        first = json.loads(next(following))
        gateway.post(f"{failing}/restart", params={"includeTasks": True})
        second = json.loads(next(following))
    assert first["at_us"] < second["at_us"]
    assert first["task"] == second["task"]
