"""Settings of Kafka's clients, and of topics that are created: which are in force."""

import pytest
from confluent_kafka import Consumer, Producer
from penstock_kafka.client_settings import _TABLES, translate

from penstock_connector import ConfigError

SAMPLES = {
    "isolation.level": "read_uncommitted", "compression.type": "zstd", "client.id": "c",
    "client.rack": "r", "client.dns.lookup": "use_all_dns_ips", "check.crcs": "true",
    "metadata.recovery.strategy": "none", "enable.metrics.push": "false",
    "exclude.internal.topics": "true", "send.buffer.bytes": "65536",
    "receive.buffer.bytes": "65536", "request.timeout.ms": "20000", "fetch.max.bytes": "10000000",
    "compression.gzip.level": "3", "compression.lz4.level": "3", "compression.zstd.level": "3",
    "delivery.timeout.ms": "90000", "transaction.timeout.ms": "60000", "batch.size": "16384",
    "metadata.max.age.ms": "60000", "socket.connection.setup.timeout.ms": "10000",
    "max.request.size": "1048576", "metadata.recovery.rebootstrap.trigger.ms": "300000",
    "retry.backoff.max.ms": "1000", "reconnect.backoff.max.ms": "1000",
    "buffer.memory": "33554432", "max.partition.fetch.bytes": "1048576",
}  # fmt: skip


@pytest.mark.parametrize(("kind", "client"), [("producer", Producer), ("consumer", Consumer)])
def test_every_setting_is_one_that_the_client_takes(kind, client):
    keys = {name: SAMPLES.get(name, "5") for name in _TABLES[kind]}
    found = translate(kind, keys)
    client({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"} | dict(found.settings))
    for name, known in _TABLES[kind].items():
        assert (f"{kind}.{name}" in found.unused) is isinstance(known, str)


@pytest.mark.parametrize(
    ("kind", "keys", "path"),
    [
        ("producer", {"linger.ms": "soon"}, "producer.linger.ms"),
        ("producer", {"max.in.flight.requests.per.connection": "9"}, ""),
        ("producer", {"retries": "0"}, "producer.retries"),
        ("producer", {"partitioner.class": "org.example.Mine"}, "producer.partitioner.class"),
        ("consumer", {"isolation.level": "none"}, "consumer.isolation.level"),
    ],
)
def test_a_setting_that_means_nothing_is_refused_by_its_key(kind, keys, path):
    with pytest.raises(ConfigError) as caught:
        translate(kind, keys)
    assert caught.value.config_path == (path or f"{kind}.{next(iter(keys))}")


def test_a_setting_that_no_client_has_is_told_as_kafka_tells_it():
    told = translate("producer", {"linger.mss": "5", "linger.ms": "5", "of.mine": "x"})
    assert told.settings == {"linger.ms": 5}
    assert told.unused == {
        "producer.linger.mss": "Kafka's client has no such key; did you mean `linger.ms`?",
        "producer.of.mine": "Kafka's client has no such key",
    }
    assert translate("admin", {"linger.ms": "5"}).unused.keys() == {"admin.linger.ms"}


def test_rows_without_keys_in_view_go_anywhere():
    java = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    for keys in ({"partitioner.class": java}, {"partitioner.ignore.keys": "true"}):
        assert translate("producer", keys).settings == {"partitioner": "random"}
