"""MirrorMaker's file: which pipelines it means, and what is told of its keys."""

import pytest

from penstock.model.errors import ConfigError
from penstock.standalone.mirror_maker import read_mirrors

FILE = {
    "clusters": "A, B",
    "A.bootstrap.servers": "a:9092", "A.security.protocol": "SASL_SSL", "A.consumer.x": "1",
    "A.sasl.jaas.config": "of a", "A.admin.retries": "2", "A.producer.y": "2",
    "B.bootstrap.servers": "b:9092", "B.producer.linger.ms": "3", "B.consumer.z": "3",
    "A->B.enabled": "true", "A->B.topics": "orders.*",
    "topics": "all", "groups": "g", "replication.factor": "2", "tasks.max": "4",
    "emit.heartbeats.interval.seconds": "5", "heartbeats.topic.replication.factor": "1",
    "producer.acks": "all", "listeners": "none",
}  # fmt: skip


def configs(**more):
    file = FILE | {name.replace("__", "."): text for name, text in more.items()}
    return {one.name: one.config for one in read_mirrors(file).connectors}


def test_an_enabled_flow_is_three_pipelines():
    found = configs()
    flow = ["A-B-messages", "A-B-checkpoints", "A-B-heartbeats"]
    assert list(found) == [*flow, "B-A-heartbeats"], "heartbeats go both ways"
    assert found["A-B-messages"] == {
        "name": "A-B-messages", "tasks.max": "4",
        "source.connector.class": "mirror-source", "sink.connector.class": "kafka-sink",
        "source.source.cluster.alias": "A", "source.target.cluster.alias": "B",
        "source.source.cluster.bootstrap.servers": "a:9092",
        "source.source.cluster.security.protocol": "SASL_SSL",
        "source.source.cluster.sasl.jaas.config": "of a", "source.source.admin.retries": "2",
        "source.target.cluster.bootstrap.servers": "b:9092", "source.consumer.x": "1",
        "source.topics": "orders.*", "source.replication.factor": "2",
        "sink.bootstrap.servers": "b:9092", "sink.producer.linger.ms": "3",
        "sink.producer.acks": "all", "sink.positions": "true",
        "sink.offsets.storage.topic": "mm2-offsets.A.internal",
        "sink.offset.syncs.topic": "mm2-offset-syncs.A.internal", "sink.offset.syncs.prefix": "A.",
        "sink.key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "sink.value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    }  # fmt: skip
    assert found["A-B-checkpoints"]["source.groups"] == "g"
    assert "source.topics" not in found["A-B-checkpoints"]
    heartbeats = found["A-B-heartbeats"]
    assert heartbeats["source.emit.heartbeats.interval.seconds"] == "5"
    assert heartbeats["sink.topic.creation.default.replication.factor"] == "1"


def test_both_directions_and_switches():
    found = configs(
        **{"B->A.enabled": "true", "B->A.topics": "x", "emit.checkpoints.enabled": "false"}
    )
    assert list(found) == ["A-B-messages", "A-B-heartbeats", "B-A-messages", "B-A-heartbeats"]
    assert found["B-A-messages"]["source.topics"] == "x"
    assert found["B-A-messages"]["sink.sasl.jaas.config"] == "of a"
    names = {
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    }
    assert configs(**names)["A-B-messages"]["sink.offset.syncs.prefix"] == ""


def test_logins_of_all_clusters_are_those_of_each():
    found = configs(**{"security.protocol": "SSL", "ssl.truststore.location": "/ca.pem"})
    messages = found["A-B-messages"]
    assert messages["source.source.cluster.security.protocol"] == "SASL_SSL", "its own"
    assert messages["source.target.cluster.security.protocol"] == "SSL"
    assert messages["sink.ssl.truststore.location"] == "/ca.pem"
    assert not read_mirrors(FILE | {"security.protocol": "SSL"}).node.keys() & {"security.protocol"}


def test_other_keys_are_those_of_the_node():
    found = read_mirrors(FILE | {"state.dir": "/s"})
    assert found.node == {"listeners": "none", "state.dir": "/s"}
    assert [one.config_path for one in found.warnings] == ["B.consumer.z"], "nobody reads from B"
    assert read_mirrors(FILE | {"B->A.enabled": "true"}).warnings == ()


@pytest.mark.parametrize(
    "key",
    ["A.offset.storage.replication.factor", "dedicated.mode.enable.internal.rest", "B->A.topics"],
)
def test_a_key_without_effect_is_told(key):
    warning, _ = read_mirrors(FILE | {key: "1"}).warnings
    assert (warning.code, warning.config_path) == ("config.no_effect", key)


@pytest.mark.parametrize(
    ("wrong", "code", "path"),
    [
        ({"clusters": "A"}, "config.missing", "clusters"),
        ({"B.bootstrap.servers": ""}, "config.missing", "B.bootstrap.servers"),
        ({"A->B.enabled": "false"}, "config.missing", "A->B.enabled"),
        ({"A->C.enabled": "true"}, "config.unknown_key", "A->C.enabled"),
        ({"A->B.topix": "x"}, "config.unknown_key", "A->B.topix"),
        ({"A.topix": "x"}, "config.unknown_key", "A.topix"),
    ],
)
def test_what_has_no_meaning_is_refused(wrong, code, path):
    with pytest.raises(ConfigError) as caught:
        read_mirrors(FILE | wrong)
    assert (caught.value.code, caught.value.diagnostic.config_path) == (code, path)
