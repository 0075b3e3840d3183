"""How sources make embedded topics: partitions, retention, Kafka Connect's `topic.creation.…`."""

import pytest

from penstock.model.connector import ConnectorKind
from penstock.model.topic import NewTopic, Retention
from unit.worker.test_broker_topics import NODE, SINK, SOURCE, made

CREATION = {
    "topic.creation.groups": "short", "topic.creation.short.include": "log-.*",
    "topic.creation.default.partitions": "6", "topic.creation.short.retention.ms": "60000",
    "topic.creation.short.retention.bytes": "-1",
}  # fmt: skip


def embedded(kind=SOURCE, **config):
    return made(kind, node={}, **config)


def told(found):
    return {one.config_path: one.code for one in found.findings}


def test_a_new_topic_is_as_its_group_says():
    found = embedded(**CREATION, topic__partitions="2")
    assert told(found) == {}
    rules = found.topic_rules
    assert rules.new_topic("log-a") == NewTopic(6, Retention(60.0, 0))
    assert rules.new_topic("orders") == NewTopic(6, None)
    assert rules.least_partitions("orders") == 1, "`topic.creation.…` says how many it has"
    plain = embedded(topic__partitions="3").topic_rules
    assert plain.new_topic("orders") == NewTopic(3)
    assert plain.least_partitions("orders") == 3, "topics that exist get as many"
    assert embedded().topic_rules.least_partitions("orders") == 1


def test_a_topic_with_fewer_partitions_on_purpose_keeps_them():
    one = {"topic.creation.groups": "one", "topic.creation.one.include": "log-.*"}
    found = embedded(**one, **{"topic.creation.one.partitions": "1"}, topic__partitions="8")
    rules = found.topic_rules
    assert (rules.new_topic("log-a"), rules.least_partitions("log-a")) == (NewTopic(1), 1)
    assert (rules.new_topic("orders"), rules.least_partitions("orders")) == (NewTopic(8), 8)


def test_names_of_groups_may_have_dots():
    groups = {
        "topic.creation.groups": "a,a.b", "topic.creation.a.include": "x",
        "topic.creation.a.b.include": "y", "topic.creation.a.b.partitions": "3",
    }  # fmt: skip
    found = embedded(**groups)
    assert told(found) == {}
    assert found.topic_rules.new_topic("y") == NewTopic(3)
    assert found.topic_rules.new_topic("x") == NewTopic(1)


def test_a_retention_of_the_connector_is_that_of_all_its_topics():
    found = embedded(**CREATION, topic__retention="1h")
    assert found.topic_rules.retention == Retention(3600.0, 0)
    assert told(found) == {
        "topic.creation.short.retention.ms": "config.no_effect",
        "topic.creation.short.retention.bytes": "config.no_effect",
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("topic.creation.default.replication.factor", "3"),
        ("topic.creation.default.cleanup.policy", "compact"),
        ("topic.creation.default.min.insync.replicas", "2"),
        ("topic.creation.enable", "true"),
    ],
)
def test_a_setting_that_embedded_topics_do_not_have_is_told(key, value):
    found = embedded(**{key: value})
    assert told(found) == {key: "config.no_effect"}
    assert told(embedded(**{"topic.creation.default.cleanup.policy": "delete"})) == {}


@pytest.mark.parametrize(
    ("config", "path", "code"),
    [
        ({"groups": "a,a"}, "groups", "config.invalid_value"),
        ({"groups": "a"}, "a.include", "config.missing"),
        ({"other.partitions": "2"}, "other.partitions", "config.unknown_key"),
        ({"default.retention.ms": "soon"}, "default.retention.ms", "config.invalid_value"),
        ({"default.retention.bytes": "0"}, "default.retention.bytes", "config.invalid_value"),
        ({"default.retention.ms": "9" * 400}, "default.retention.ms", "config.invalid_value"),
        (
            {"groups": "g", "g.include": "x", "g.retention.ms": "soon"},
            "g.retention.ms",
            "config.invalid_value",
        ),
    ],
)
def test_what_means_nothing_is_refused_by_its_key(config, path, code):
    found = embedded(**{f"topic.creation.{key}": value for key, value in config.items()})
    assert told(found) == {f"topic.creation.{path}": code}


@pytest.mark.parametrize("kind", [SINK, ConnectorKind.PIPELINE])
def test_connectors_that_make_no_topics_say_so(kind):
    key = "topic.creation.default.partitions"
    assert told(embedded(kind, **{key: "2"})).get(key) == "config.not_here_yet"


def test_topics_of_rocketmq_are_made_by_another_key():
    key = "topic.creation.default.partitions"
    found = made(SOURCE, {"namesrv.addr": "n:9876"}, **{key: "2"})
    assert told(found) == {key: "config.not_here_yet"}
    assert told(made(SOURCE, NODE, **{key: "2"})) == {}
