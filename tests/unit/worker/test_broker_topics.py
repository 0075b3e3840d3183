"""Topics of brokers: who uses them, and what the plugin at the topic's end is given."""

import asyncio

import pytest

from penstock.model.connector import Connector, ConnectorKind
from penstock.model.errors import ConfigError
from penstock.plugin.catalog.manifest import ConnectorEntry, Kind
from penstock.secrets.resolution import NO_SECRETS
from penstock.worker.config.broker_topics import BrokerTopics, read_broker_topics, topic_role
from penstock.worker.config.client_overrides import OverridePolicy
from penstock.worker.config.reach import ConnectorBounds, ReachRules, read_reach_rules
from penstock.worker.config.resolved_config import resolve_config
from unit.worker.test_resolved_config import NO_HOST

SOURCE, SINK = ConnectorKind.SOURCE, ConnectorKind.SINK
NODE = {
    "bootstrap.servers": "b:9092", "sasl.password": "of-the-node", "sasl.username": "u",
    "value.converter": "json", "value.converter.schemas.enable": "false",
    "offset.storage.topic": "offsets",
}  # fmt: skip


ROCKETMQ = {
    "namesrv.addr": "n:9876", "rocketmq.access.key": "u", "rocketmq.secret.key": "of-the-node",
    "rocketmq.topic.queues": "8", "rocketmq.tags.column": "status", "rocketmq.tags": "a",
    "rocketmq.batch.rows": "9", "value.converter": "string", "bootstrap.servers": "b:9092",
}  # fmt: skip


ANY = OverridePolicy("All", None)


def made(kind, node=NODE, default=True, rules=ReachRules(), overrides=ANY, host=NO_HOST, **config):  # noqa: B008
    system = "rocketmq" if "namesrv.addr" in node else "kafka"
    brokers = BrokerTopics(system if default and node else "embedded", node)
    bounds = ConnectorBounds(overrides, rules)
    given = {"connector.class": "x"} | {k.replace("__", "."): v for k, v in config.items()}
    connector = Connector("c", given, kind)
    return asyncio.run(resolve_config(host, NO_SECRETS, connector, bounds, brokers))


def test_a_source_is_a_pipeline_into_the_brokers():
    found = made(SOURCE, file="a", topic__partitions="4", connector__plugin__version="7")
    assert (found.reads_plugin, found.writes_plugin) == (True, True)
    target = found.target(topic_role(SOURCE))
    assert (target.connector, target.version) == ("kafka-sink", "latest")
    assert dict(target.secrets) == {"sasl.password": "of-the-node"}
    assert dict(target.config) == {
        "bootstrap.servers": "b:9092", "sasl.username": "u", "topic": "${dataset}",
        "topic.creation.default.partitions": "4", "offsets.storage.topic": "offsets",
        "value.converter": "json", "value.converter.schemas.enable": "false", "positions": "true",
    }  # fmt: skip
    assert dict(found.target("source").config) == {"file": "a"}
    assert found.target("source").version == "7"


class Brokers:
    """A host with a connector of another system's topics."""

    def __init__(self, kind):
        self.kind = kind

    def find(self, name, version=""):
        own = ("topics", "auto.offset.reset", "value.converter", "value.converter.*")
        sink = ("topic", "topic.creation.*", "value.converter", "value.converter.*")
        return None, ConnectorEntry(name, self.kind, own_keys=sink if self.kind == "sink" else own)


@pytest.mark.parametrize("node", [{}, NODE, ROCKETMQ])
def test_a_source_of_topics_has_its_own_and_its_own_converters(node):
    mine = {"topics": "a", "auto.offset.reset": "none", "value.converter": "avro",
            "value.converter.schema.registry.url": "http://r"}  # fmt: skip
    found = made(SOURCE, node, host=Brokers(Kind.SOURCE), **mine)
    assert dict(found.target("source").config) == mine
    assert not found.findings
    if node:
        assert found.target("sink").config["value.converter"] == node["value.converter"]
        assert "value.converter.schema.registry.url" not in found.target("sink").config


@pytest.mark.parametrize("node", [{}, NODE, ROCKETMQ])
def test_a_sink_of_topics_reads_those_of_the_node(node):
    mine = {"topic": "b", "topic.creation.default.partitions": "3", "value.converter": "string"}
    found = made(SINK, node, host=Brokers(Kind.SINK), topics="a", **mine)
    assert dict(found.target("sink").config) == mine
    assert not found.findings
    assert found.settings.topics.names == ("a",)
    if node:
        assert found.target("source").config["value.converter"] == node["value.converter"]


class Mirrors:
    """A host with the sources of a mirror."""

    def find(self, name, version=""):
        own = ("topics",) if name == "mirror-source" else ()
        return None, ConnectorEntry(name, Kind.SOURCE, own_keys=own)


def test_a_mirror_is_a_pipeline_of_bytes_in_their_partitions():
    clusters = {"source__cluster__alias": "A", "topics": "orders.*"}
    found = made(SOURCE, host=Mirrors(), connector__class="mirror-source", **clusters)
    assert found.findings == (), "its topics are its own"
    assert found.target("source").config == {"source.cluster.alias": "A", "topics": "orders.*"}
    sink = found.target("sink").config
    assert sink["positions"] == "true"
    assert sink["value.converter"].endswith("ByteArrayConverter")
    assert "value.converter.schemas.enable" not in sink
    assert (sink["offset.syncs.topic"], sink["offset.syncs.prefix"]) == (
        "mm2-offset-syncs.A.internal",
        "A.",
    )
    beats = made(SOURCE, host=Mirrors(), connector__class="mirror-heartbeat-source")
    assert beats.target("sink").config["topic.creation.default.cleanup.policy"] == "compact"
    assert sink["offsets.storage.topic"] == "mm2-offsets.A.internal", "never mirrored back"
    separator = {"replication__policy__separator": "_"}
    found = made(SOURCE, host=Mirrors(), connector__class="mirror-source", **clusters, **separator)
    sink = found.target("sink").config
    assert (sink["offset.syncs.topic"], sink["offset.syncs.prefix"]) == (
        "mm2-offset-syncs_A_internal",
        "A_",
    )


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
    ("name", "kept"),
    [
        ("org.apache.kafka.connect.storage.StringConverter", set()),
        ("json", {"schemas.enable"}),
        ("io.confluent.connect.avro.AvroConverter", {"schema.registry.url"}),
        ("of.a.Plugin", {"schemas.enable", "schema.registry.url", "plugin.version"}),
    ],
)
def test_a_converter_gets_no_key_that_it_does_not_have(name, kept):
    """Kafka Connect gives it all of them, and it ignores those that were meant for another one."""
    given = {"schemas.enable": "false", "schema.registry.url": "http://r", "plugin.version": "1"}
    node = NODE | {f"key.converter.{key}": value for key, value in given.items()}
    config = made(SOURCE, node | {"key.converter": name}).target("sink").config
    start = "key.converter."
    assert {key.removeprefix(start) for key in config if key.startswith(start)} == kept


@pytest.mark.parametrize(
    ("default", "backend", "used"),
    [(True, "", True), (True, "embedded", False), (False, "", False), (False, "kafka", True)],
)
def test_a_connector_says_otherwise_than_its_node(default, backend, used):
    assert made(SOURCE, default=default, topics__backend=backend).on_broker is used


DEAD = {"errors__tolerance": "all", "errors__deadletterqueue__topic__name": "dead"}


def test_dead_letters_have_a_topic_of_the_brokers():
    factor = {"errors__deadletterqueue__topic__replication__factor": "2"}
    override = {"producer__override__linger__ms": "7"}
    found = made(SINK, topics="a", **DEAD, **factor, **override)
    assert found.findings == (), "each of these keys is in force"
    target = found.target("errors.deadletterqueue.sink")
    assert (target.connector, target.version) == ("kafka-sink", "latest")
    assert dict(target.config) == {
        "bootstrap.servers": "b:9092", "sasl.username": "u", "topic": "dead",
        "dead.letters": "messages", "offsets.storage.topic": "offsets", "producer.linger.ms": "7",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "2",
    }  # fmt: skip
    assert dict(target.secrets) == {"sasl.password": "of-the-node"}
    assert found.target("source").config["positions"] == "true"
    assert found.is_of_node("errors.deadletterqueue.sink")


def test_dead_letters_of_a_source_are_no_messages_of_these_brokers():
    target = made(SOURCE, **DEAD).target("errors.deadletterqueue.sink")
    assert target.config["dead.letters"] == "rows"


def test_a_sink_for_dead_letters_of_its_own_is_no_end_of_the_node():
    named = {"errors__deadletterqueue__sink__connector__class": "file-sink"}
    found = made(SINK, topics="a", **DEAD, **named)
    assert found.target("errors.deadletterqueue.sink").connector == "file-sink"
    assert not found.is_of_node("errors.deadletterqueue.sink")


def test_dead_letters_without_a_topic_stay_here():
    found = made(SINK, topics="a", errors__tolerance="all")
    assert (found.has_broker_dead_letters, found.dead_letter_dataset) == (False, "c.letters")


@pytest.mark.parametrize("topics", [{"topics": "dead"}, {"topics__regex": "d.*"}])
def test_dead_letters_do_not_come_back(topics):
    found = [one.code for one in made(SINK, **topics, **DEAD).findings]
    assert found == ["errors.loop"]


def test_transforms_that_insert_positions_have_them():
    inserted = {
        "transforms": "a", "transforms__a__type": "InsertField$Value",
        "transforms__a__offset__field": "o",
    }  # fmt: skip
    assert made(SINK, topics="a", **inserted).target("source").config["positions"] == "true"
    assert "positions" not in made(SINK, topics="a").target("source").config


def test_a_pipeline_has_no_topics():
    found = made(ConnectorKind.PIPELINE, connector__class="", source__x="1", sink__y="2")
    assert not found.on_broker


def test_what_only_embedded_topics_have_is_told():
    found = made(SOURCE, topic__retention="1h", value__converter="string")
    assert [one.config_path for one in found.findings] == ["topic.retention"]
    embedded = made(SOURCE, default=False, value__converter="string")
    assert [one.config_path for one in embedded.findings] == ["value.converter"]


@pytest.mark.parametrize(
    ("kind", "node", "code"),
    [(SOURCE, {}, "topics.no_brokers"), (ConnectorKind.MIRROR, NODE, "topics.no_mirror")],
)
def test_what_has_no_meaning_is_refused(kind, node, code):
    with pytest.raises(ConfigError, match=code):
        made(kind, node, topics__backend="kafka")


def test_where_rules_bound_topics_kafka_is_refused():
    rules = read_reach_rules(["r"], {"reach.r.connectors": ".*", "reach.r.topics": "a.*"})
    with pytest.raises(ConfigError, match=r"reach\.brokers"):
        made(SOURCE, rules=rules)
    assert not made(SOURCE, rules=rules, topics__backend="embedded").on_broker


def test_clients_have_the_settings_of_the_node_and_over_them_the_connectors():
    node = NODE | {
        "producer.linger.ms": "1", "producer.acks": "all", "admin.client.id": "a",
        "consumer.max.poll.records": "5", "consumer.auto.offset.reset": "latest",
    }  # fmt: skip
    of_source = {
        "producer.override.linger.ms": "9", "consumer.override.client.id": "c",
        "admin.override.client.id": "b",
    }  # fmt: skip
    found = made(SOURCE, node, **of_source)
    clients = ("producer.", "consumer.", "admin.")
    config = found.target("sink").config
    assert {key: config[key] for key in config if key.startswith(clients)} == {
        "producer.linger.ms": "9", "producer.acks": "all", "admin.client.id": "b",
    }  # fmt: skip
    (unused,) = found.findings
    assert unused.config_path == "consumer.override.client.id"
    sink = made(SINK, node, topics="t").target("source").config
    assert (sink["consumer.max.poll.records"], sink["auto.offset.reset"]) == ("5", "latest")
    assert "consumer.auto.offset.reset" not in sink
    own = made(SINK, node, topics="t", auto__offset__reset="earliest")
    assert own.target("source").config["auto.offset.reset"] == "earliest"


def test_a_setting_of_a_client_that_the_policy_refuses_is_an_error():
    key = "producer.override.sasl.jaas.config"
    found = made(SOURCE, overrides=OverridePolicy(), **{key: "x"}).findings
    assert [(one.config_path, one.code) for one in found] == [(key, "config.override_refused")]


def test_a_refused_setting_reaches_no_client_either():
    evil = {"producer.override.bootstrap.servers": "evil:9092", "producer.override.acks": "all"}
    config = made(SOURCE, overrides=OverridePolicy(), **evil).target("sink").config
    assert config["bootstrap.servers"] == "b:9092"
    assert "producer.bootstrap.servers" not in config
    assert config["producer.acks"] == "all"


def test_keys_of_a_converter_that_the_connector_does_not_name_are_told():
    (found,) = made(SOURCE, value__converter__schemas__enable="true").findings
    assert (found.code, found.config_path) == (
        "config.no_effect", "value.converter.schemas.enable",
    )  # fmt: skip
    assert "`value.converter` of the workers" in found.message


@pytest.mark.parametrize("bound", ["hosts", "folders"])
@pytest.mark.parametrize("key", ["schema.registry.url", "apicurio.registry.url"])
@pytest.mark.parametrize("name", ["key.converter", "value.converter"])
def test_a_registry_of_the_connectors_own_is_refused_where_its_reach_is_bounded(name, key, bound):
    rules = read_reach_rules(
        ["r"],
        {"reach.r.connectors": ".*", "reach.r.topics": "*", "reach.r.folders": "*"}
        | {"reach.r.hosts": "*", f"reach.r.{bound}": "/data" if bound == "folders" else "db"},
    )
    own = {name: "avro", f"{name}.{key}": "http://evil:8081"}
    with pytest.raises(ConfigError, match=r"reach\.registry"):
        made(SOURCE, rules=rules, **own)
    assert made(SOURCE, **own).on_broker
    assert made(SOURCE, rules=rules, value__converter="json").on_broker
    node = NODE | {"value.converter": "avro", "value.converter.schema.registry.url": "http://r:1"}
    assert made(SOURCE, node, rules=rules).on_broker


def test_topics_are_created_as_the_connector_says_and_the_node_lets_it():
    groups = {"topic.creation.groups": "g", "topic.creation.g.include": "x.*"}
    node = NODE | {"topic.creation.enable": "false", "offset.storage.replication.factor": "3"}
    config = made(SOURCE, node, **groups).target("sink").config
    assert config["topic.creation.g.include"] == "x.*"
    assert config["topic.creation.enable"] == "false"
    assert config["offsets.storage.replication.factor"] == "3"
    assert not made(SOURCE, node, **groups).findings


def test_keys_of_tls_are_left_out_where_the_brokers_have_none():
    node = NODE | {"ssl.keystore.location": "/of/the/rest/api"}
    assert "ssl.keystore.location" not in made(SOURCE, node).target("sink").config
    node["security.protocol"] = "SASL_SSL"
    assert "ssl.keystore.location" in made(SOURCE, node).target("sink").config


@pytest.mark.parametrize(
    ("said", "keys", "default"),
    [
        ("", {"bootstrap.servers": "b:9092"}, "kafka"),
        ("kafka", {"bootstrap.servers": "b:9092"}, "kafka"),
        ("embedded", {"bootstrap.servers": "b:9092"}, "embedded"),
        ("", {"namesrv.addr": "n:9876"}, "rocketmq"),
        ("kafka", {"namesrv.addr": "n:9876", "bootstrap.servers": "b:9092"}, "kafka"),
        ("", {"value.converter": "json"}, "embedded"),
    ],
)
def test_a_node_with_brokers_has_its_topics_there(said, keys, default):
    assert read_broker_topics({"topics.backend": said}, keys).default == default


@pytest.mark.parametrize(
    ("said", "keys", "found"),
    [
        ("kafka", {}, r"config\.missing.*bootstrap\.servers"),
        ("rocketmq", {"bootstrap.servers": "b:9092"}, r"config\.missing.*namesrv\.addr"),
        ("", {"namesrv.addr": "n:1", "bootstrap.servers": "b:1"}, r"config\.conflict"),
    ],
)
def test_a_node_names_the_brokers_that_it_uses(said, keys, found):
    with pytest.raises(ConfigError, match=found):
        read_broker_topics({"topics.backend": said}, keys)


def test_a_source_is_a_pipeline_into_rocketmq():
    found = made(SOURCE, ROCKETMQ, file="a")
    target = found.target("sink")
    assert (target.connector, dict(target.secrets)["secret.key"]) == (
        "rocketmq-sink",
        "of-the-node",
    )
    assert {**target.config, "access.key": ""} == {
        "namesrv.addr": "n:9876", "topic": "${dataset}", "topic.queues": "8", "positions": "true",
        "tags.column": "status", "value.converter": "string", "access.key": "",
    }  # fmt: skip
    own = made(SOURCE, ROCKETMQ, topic__partitions="2")
    assert own.target("sink").config["topic.queues"] == "2"


def test_dead_letters_have_a_topic_of_rocketmq():
    target = made(SINK, ROCKETMQ, topics="a", **DEAD).target("errors.deadletterqueue.sink")
    assert (target.connector, target.config["topic"]) == ("rocketmq-sink", "dead")
    assert target.config["topic.queues"] == "8"
    assert "tags.column" not in target.config, "messages have the tags that they had"
    factor = {"errors__deadletterqueue__topic__replication__factor": "2"}
    (found,) = made(SINK, ROCKETMQ, topics="a", **DEAD, **factor).findings
    assert (found.code, "RocketMQ" in found.message) == ("config.no_effect", True)


def test_a_sink_is_a_pipeline_out_of_rocketmq():
    target = made(SINK, ROCKETMQ, topics="a,b").target("source")
    assert target.connector == "rocketmq-source"
    assert {**target.config, "access.key": ""} == {
        "namesrv.addr": "n:9876", "topics": "a,b", "tags": "a", "batch.rows": "9",
        "consume.from.where": "first", "consume.offset.lost": "first",
        "value.converter": "string", "access.key": "",
    }  # fmt: skip
    strict = made(SINK, ROCKETMQ, topics="a", auto__offset__reset="latest").target("source").config
    assert (strict["consume.from.where"], strict["consume.offset.lost"]) == ("last", "last")


def test_a_sink_may_begin_at_a_time_on_every_kind_of_topics():
    reset = "timestamp:2026-01-31T13:00:00+01:00"
    sink = {"topics": "a", "auto.offset.reset": reset}
    assert made(SINK, **sink).target("source").config["auto.offset.reset"] == reset
    asked = made(SINK, ROCKETMQ, **sink).target("source").config
    assert asked["consume.from.where"] == "timestamp"
    assert asked["consume.timestamp"] == reset
    assert asked["consume.offset.lost"] == "first"
    assert made(SINK, {}, **sink).settings.offset_reset == reset
    wrong = made(SINK, {}, topics="a", auto__offset__reset="timestamp:today").findings
    assert [(one.code, one.config_path) for one in wrong] == [
        ("config.invalid_choice", "auto.offset.reset")
    ]


def test_what_must_not_come_twice_is_not_sent_to_rocketmq():
    found = made(SOURCE, ROCKETMQ, exactly__once__support="required").findings
    assert [(one.code, one.config_path) for one in found] == [
        ("delivery.not_available", "exactly.once.support")
    ]
    assert not made(SOURCE, exactly__once__support="required").findings


def test_headers_are_converted_on_topics_of_kafka_only():
    json = {"header.converter": "json", "header.converter.schemas.enable": "false"}
    found = made(SINK, NODE | json, topics="t")
    assert found.target("source").config["header.converter"] == "json"
    assert made(SINK, NODE, topics="t", **json).target("source").config.items() >= json.items()
    there = made(SINK, {"namesrv.addr": "n:9876"} | json, topics="t")
    assert "header.converter" not in there.target("source").config
    warned = made(SINK, {"namesrv.addr": "n:9876"}, topics="t", **json).findings
    assert {one.config_path for one in warned} == json.keys()
