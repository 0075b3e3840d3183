"""Offsets as Kafka Connect shows them: those of topics under its names, all others as they are."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from penstock.gateway.routes import offsets
from penstock.model.connector import ConnectorKind
from penstock.model.errors import ConfigError
from penstock_values.identity import partition_id

SINK, SOURCE = ConnectorKind.SINK, ConnectorKind.SOURCE


def asked(kind, *listed):
    return offsets.parse_offsets(kind, {"offsets": list(listed)})


def test_a_sink_has_kafkas_names():
    shown = offsets.offset_body(SINK, {"topic": "t", "partition": 1}, {"offset": 5}).to_json()
    assert shown == {
        "partition": {"kafka_topic": "t", "kafka_partition": 1},
        "offset": {"kafka_offset": 5},
    }
    assert asked(SINK, shown) == {partition_id({"topic": "t", "partition": 1}): {"offset": 5}}


def test_a_queue_has_its_own_names():
    key, offset = {"topic": "t", "broker": "b", "queue": 1}, {"offset": 5}
    shown = offsets.offset_body(SINK, key, offset).to_json()
    assert shown == {"partition": key, "offset": offset}
    assert asked(SINK, shown) == {partition_id(key): offset}


def test_an_offset_may_be_a_time():
    one = {"partition": {"kafka_topic": "t", "kafka_partition": 1}, "offset": {"timestamp": "2026"}}
    id_ = partition_id({"topic": "t", "partition": 1})
    assert asked(SINK, one) == {id_: {"timestamp": "2026"}}


@pytest.mark.parametrize(
    ("key", "offset"),
    [
        ({"path": "/a"}, {"position": 5}),
        ({"id": Decimal("1.20")}, {"at": datetime(2026, 1, 1, tzinfo=UTC), "raw": b"\x00\xff"}),
    ],
)
def test_a_source_gets_back_what_it_was_shown(key, offset):
    shown = json.loads(offsets.offset_body(SOURCE, key, offset).respond().body)
    assert asked(SOURCE, shown) == {partition_id(key): offset}


def test_null_takes_an_offset_away():
    assert asked(SOURCE, {"partition": {"a": 1}, "offset": None}) == {'{"a":1}': None}
    sink = {"partition": {"kafka_topic": "t", "kafka_partition": "0"}, "offset": None}
    assert asked(SINK, sink) == {partition_id({"topic": "t", "partition": 0}): None}


@pytest.mark.parametrize(
    ("kind", "body", "code"),
    [
        (SOURCE, {}, "offset.nothing_to_alter"),
        (SOURCE, {"offsets": []}, "offset.nothing_to_alter"),
        (SOURCE, {"offsets": {}}, "offset.nothing_to_alter"),
        (SOURCE, [], "http.not_an_object"),
        (SOURCE, {"offsets": [1]}, "http.not_an_object"),
        (SOURCE, {"offsets": [{"offset": {}}]}, "http.not_an_object"),
        (SOURCE, {"offsets": [{"partition": {"a": 1}, "offset": 5}]}, "http.not_an_object"),
        (SOURCE, {"offsets": [{"partition": {"a": 1}}] * 2}, "offset.repeated"),
        (SINK, {"offsets": [{"partition": {"topic": "t"}}]}, "offset.not_a_partition"),
        (
            SINK,
            {"offsets": [{"partition": {"kafka_topic": "t", "kafka_partition": -1}}]},
            "offset.not_a_partition",
        ),
        (
            SINK,
            {
                "offsets": [
                    {
                        "partition": {"kafka_topic": "t", "kafka_partition": 0},
                        "offset": {"kafka_offset": "five"},
                    }
                ]
            },
            "offset.not_a_partition",
        ),
    ],
)
def test_what_is_no_offset_is_named(kind, body, code):
    with pytest.raises(ConfigError) as caught:
        offsets.parse_offsets(kind, body)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "value",
    [
        {"$date": "x"},
        {"$date": "2026-01-01"},
        {"a": {"$decimal": "x"}},
        {"a": {"$bytes": 5}},
        {"a": {"$timestamp": None}},
    ],
)
def test_a_value_that_is_not_what_its_tag_says_is_refused(value):
    with pytest.raises(ConfigError, match=r"offset\.not_a_value"):
        offsets.parse_fields(value, "offsets[0].offset")
