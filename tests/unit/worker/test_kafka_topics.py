"""Topics of Kafka: who uses them, and what the plugin at the topic's end is given."""

import asyncio

import pytest

from penstock.model.connector import Connector, ConnectorKind
from penstock.model.errors import ConfigError
from penstock.secrets.resolution import NO_SECRETS
from penstock.worker.config.kafka_topics import KafkaTopics, read_kafka_topics, topic_role
from penstock.worker.config.reach import ReachRules, read_reach_rules
from penstock.worker.config.resolved_config import resolve_config
from unit.worker.test_resolved_config import NO_HOST

SOURCE, SINK = ConnectorKind.SOURCE, ConnectorKind.SINK
NODE = {
    "bootstrap.servers": "b:9092", "sasl.password": "of-the-node", "sasl.username": "u",
    "value.converter": "json", "value.converter.schemas.enable": "false",
    "offset.storage.topic": "offsets",
}  # fmt: skip


def made(kind, node=NODE, default=True, rules=ReachRules(), **config):  # noqa: B008 - no state
    kafka = KafkaTopics(default, node) if node else None
    given = {"connector.class": "x"} | {k.replace("__", "."): v for k, v in config.items()}
    connector = Connector("c", given, kind)
    return asyncio.run(resolve_config(NO_HOST, NO_SECRETS, connector, rules, kafka))


def test_a_source_is_a_pipeline_into_the_brokers():
    found = made(SOURCE, file="a", topic__partitions="4", connector__plugin__version="7")
    assert (found.reads_plugin, found.writes_plugin) == (True, True)
    target = found.target(topic_role(SOURCE))
    assert (target.connector, target.version) == ("kafka-sink", "latest")
    assert dict(target.secrets) == {"sasl.password": "of-the-node"}
    assert dict(target.config) == {
        "bootstrap.servers": "b:9092", "sasl.username": "u", "topic": "${dataset}",
        "topic.partitions": "4", "offsets.storage.topic": "offsets",
        "value.converter": "json", "value.converter.schemas.enable": "false",
    }  # fmt: skip
    assert dict(found.target("source").config) == {"file": "a"}
    assert found.target("source").version == "7"


def test_a_sink_is_a_pipeline_out_of_them():
    found = made(SINK, topics="a,b", auto__offset__reset="fail", file="x")
    target = found.target(topic_role(SINK))
    assert (target.connector, target.config["topics"]) == ("kafka-source", "a,b")
    assert target.config["auto.offset.reset"] == "none"
    assert "offsets.storage.topic" not in target.config
    assert made(SINK, topics__regex="a.*").target("source").config["topics.regex"] == "a.*"


def test_a_converter_of_the_connector_comes_with_its_own_keys_only():
    config = made(SOURCE, value__converter="string").target("sink").config
    assert config["value.converter"] == "string"
    assert "value.converter.schemas.enable" not in config


@pytest.mark.parametrize(
    ("default", "backend", "used"),
    [(True, "", True), (True, "embedded", False), (False, "", False), (False, "kafka", True)],
)
def test_a_connector_says_otherwise_than_its_node(default, backend, used):
    assert made(SOURCE, default=default, topics__backend=backend).on_kafka is used


def test_a_pipeline_has_no_topics():
    found = made(ConnectorKind.PIPELINE, connector__class="", source__x="1", sink__y="2")
    assert not found.on_kafka


def test_what_only_embedded_topics_have_is_told():
    found = made(SOURCE, topic__retention="1h", value__converter="string")
    assert [one.config_path for one in found.findings] == ["topic.retention"]
    embedded = made(SOURCE, default=False, value__converter="string")
    assert [one.config_path for one in embedded.findings] == ["value.converter"]


@pytest.mark.parametrize(
    ("kind", "node", "code"),
    [(SOURCE, None, "topics.no_brokers"), (ConnectorKind.MIRROR, NODE, "topics.no_mirror")],
)
def test_what_has_no_meaning_is_refused(kind, node, code):
    with pytest.raises(ConfigError, match=code):
        made(kind, node, topics__backend="kafka")


def test_where_rules_bound_topics_kafka_is_refused():
    rules = read_reach_rules(["r"], {"reach.r.connectors": ".*", "reach.r.topics": "a.*"})
    with pytest.raises(ConfigError, match=r"reach\.kafka"):
        made(SOURCE, rules=rules)
    assert not made(SOURCE, rules=rules, topics__backend="embedded").on_kafka


def test_a_node_on_kafka_names_its_brokers():
    assert read_kafka_topics({"topics.backend": "embedded"}, {"value.converter": "json"}) is None
    with pytest.raises(ConfigError, match=r"config\.missing.*bootstrap\.servers"):
        read_kafka_topics({"topics.backend": "kafka"}, {})
