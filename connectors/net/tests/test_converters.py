"""Rows of answers that a converter reads, and bodies that it writes."""

import json

import pyarrow as pa
import pytest

from penstock_connector import ConfigError
from penstock_connector._config import parse_config
from penstock_connector.testing import RemoteError, sink_task, source_task
from penstock_net import HttpSink, HttpSource
from support.web import Reply

JSON = "org.apache.kafka.connect.json.JsonConverter"
SCHEMA = {
    "type": "struct", "optional": False, "fields": [
        {"field": "n", "type": "int8", "optional": False},
        {"field": "d", "type": "bytes", "optional": True, "version": 1,
         "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
    ],
}  # fmt: skip
GOOD = {"schema": SCHEMA, "payload": {"n": 1, "d": "AN4="}}


def keys_of(web, **more):
    keys = {"url": web.url, "tail": "false"}
    return keys | {name.replace("_", "."): str(value) for name, value in more.items()}


def read(web, body, **more):
    web.answer = lambda asked: Reply(body)
    with source_task(HttpSource, keys_of(web, **more)) as task:
        rows = task.all_rows()
        bad = [frame.bad_row for frame in task.seen if frame.HasField("bad_row")]
    return rows, [(one.raw, one.reason.code) for one in bad]


@pytest.mark.parametrize(
    ("body", "more"),
    [
        ({"items": [GOOD, GOOD]}, {"rows_pointer": "/items"}),
        ("\n".join([json.dumps(GOOD)] * 2), {"format": "jsonl"}),
    ],
)
def test_each_element_or_line_is_a_message(web, body, more):
    rows, bad = read(web, body, value_converter=JSON, **more)
    assert [(row["n"], str(row["d"])) for row in rows] == [(1, "2.22")] * 2
    assert bad == []


def test_a_whole_answer_is_a_message(web):
    assert read(web, "a\nb", value_converter="string", format="body") == ([{"value": "a\nb"}], [])
    assert read(web, "\x00\x00\x00\x07", value_converter="integer", format="body")[0] == [
        {"value": 7}
    ]


def test_a_message_that_is_none_is_a_dead_letter_with_its_stage_and_its_bytes(web):
    broken = {"schema": SCHEMA, "payload": {"n": 1000, "d": None}}
    lines = f"{json.dumps(GOOD)}\n{json.dumps(broken)}\n{{\n"
    more = {"format": "jsonl", "value_converter": JSON}
    rows, bad = read(web, lines, invalid_rows="dead-letter", **more)
    assert [row["n"] for row in rows] == [1]
    assert bad == [
        (json.dumps(broken).encode(), "converter.value"), (b"{", "converter.not_json"),
    ]  # fmt: skip
    with pytest.raises(RemoteError, match="VALUE_CONVERTER"):
        read(web, lines, **more)


def test_a_page_that_grows_gives_only_new_messages(web):
    web.answer = lambda asked: Reply("[1]" if len(web.asked) < 2 else "[1, 2]")
    keys = keys_of(web, value_converter="json", mode="page", position_param="p", page_size=9)
    keys |= {"value.converter.schemas.enable": "false", "tail": "true", "poll.interval": "1ms"}
    with source_task(HttpSource, keys) as task:
        assert task.rows(2) == [{"value": 1}, {"value": 2}]


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"value_converter": "missing"}, "value.converter"),
        ({"value_converter": "json", "value_converter_schemas_enable": "so"},
         "value.converter.schemas.enable"),
        ({"value_converter_schemas_enable": "true"}, "value.converter"),
        ({"format": "body"}, "value.converter"),
        ({"value_converter": "json", "format": "csv"}, "format"),
        ({"value_converter": "json", "columns": "a:int"}, "columns"),
        ({"value_converter": "json", "mode": "cursor", "cursor_field": "a",
          "position_param": "p"}, "mode"),
    ],
)  # fmt: skip
def test_keys_that_mean_nothing_beside_a_converter_are_refused(web, more, path):
    with pytest.raises(ConfigError) as caught:
        parse_config(HttpSource.config_type, keys_of(web, **more))
    assert caught.value.config_path == path


def send(web, rows, **more):
    web.answer = lambda asked: Reply(status=202)
    keys = {"url": web.url + "/rows"} | {k.replace("_", "."): str(v) for k, v in more.items()}
    with sink_task(HttpSink, keys) as task:
        task.write(rows, dataset="d")
    return [(asked.body, asked.headers["Content-Type"]) for asked in web.asked]


def test_a_body_is_the_message_of_a_row(web):
    ((body, kind),) = send(web, [{"n": 7}], value_converter=JSON)
    assert json.loads(body)["payload"] == {"n": 7}
    assert kind == "application/json"
    web.asked.clear()
    ((body, kind),) = send(web, [{"n": 7}], value_converter="cloudevents",
                           value_converter_json_schemas_enable="false")  # fmt: skip
    assert json.loads(body)["data"] == {"n": 7}
    assert kind == "application/cloudevents+json"
    web.asked.clear()
    found = send(web, [{"value": 7}, {"value": 8}], value_converter="long")
    assert found == [(bytes(7) + bytes([n]), "application/octet-stream") for n in (7, 8)]


def test_a_row_without_a_message_is_rejected_and_not_sent(web):
    web.answer = lambda asked: Reply(status=202)
    with sink_task(HttpSink, {"url": web.url, "value.converter": "short"}) as task:
        txn = task.next_txn()
        (result,) = task.put([{"value": 1}, {"value": 70000}, {"value": 3}], txn_id=txn)
        assert [(f.row, f.reason.code) for f in result.failed] == [(1, "converter.type")]
        task.prepare(txn, [(0, 0, 2)])
    assert [asked.body for asked in web.asked] == [b"\x00\x01", b"\x00\x03"]


def test_a_delete_has_no_body(web):
    web.answer = lambda asked: Reply(status=202)
    rows = pa.table({"id": [1, 2], "__op": pa.array([1, 3], pa.int8())})
    keys = {"value.converter": "json", "method": "DELETE", "url": web.url + "/${id}"}
    with sink_task(HttpSink, keys) as task:
        task.write(rows, dataset="d")
    assert [(asked.path, bool(asked.body)) for asked in web.asked] == [("/1", True), ("/2", False)]


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"value.converter": "missing"}, "value.converter"),
        ({"value.converter": "json", "batch.rows": "2"}, "batch.rows"),
        ({"value.converter": "json", "format": "jsonl"}, "format"),
        ({"value.converter": "json", "reserved.columns": "true"}, "reserved.columns"),
    ],
)
def test_keys_of_a_body_are_refused_beside_a_converter(web, more, path):
    with pytest.raises(ConfigError) as caught:
        parse_config(HttpSink.config_type, {"url": web.url} | more)
    assert caught.value.config_path == path
