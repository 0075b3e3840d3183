"""Kafka Connect's distributed worker file: what of it is in force on a machine of a cluster."""

from pathlib import Path

import pytest

from penstock.cluster.distributed import distributed_settings
from penstock.model.errors import ConfigError

KAFKA_CONNECT = {
    "bootstrap.servers": "b:9092", "group.id": "orders", "key.converter": "json",
    "value.converter": "json", "config.storage.topic": "c", "offset.storage.topic": "o",
    "status.storage.topic": "s", "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1", "offset.flush.interval.ms": "10000",
    "listeners": "http://127.0.0.1:8083", "session.timeout.ms": "10000",
    "scheduled.rebalance.max.delay.ms": "300000", "connect.protocol": "sessioned",
    "exactly.once.source.support": "enabled", "rest.advertised.host.name": "h",
    "producer.linger.ms": "5", "metric.reporters": "x", "client.id": "me",
    "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
}  # fmt: skip


def made(**more):
    given = {name.replace("__", "."): text for name, text in more.items()}
    return distributed_settings({**KAFKA_CONNECT, **given}, {})


def test_a_machine_has_all_services_of_one_cluster():
    services, warnings = made()
    assert set(services) == {"config", "offset", "scheduler", "gateway", "worker"}
    assert {one.etcd.cluster for one in services.values()} == {"orders"}
    assert services["gateway"].values["listeners"] == ("http://127.0.0.1:8083",)
    assert services["scheduler"].values["rebalance.delay"] == 300.0
    brokers = services["worker"].worker().brokers
    assert brokers.default == "kafka"
    assert brokers.keys["producer.linger.ms"] == "5"
    assert {one.config_path for one in warnings} == {
        "config.storage.topic", "config.storage.replication.factor", "status.storage.topic",
        "offset.flush.interval.ms", "session.timeout.ms", "connect.protocol",
        "rest.advertised.host.name", "metric.reporters", "client.id",
    }  # fmt: skip
    assert brokers.keys["header.converter"].endswith("SimpleHeaderConverter")


EVERY_KEY = dict(
    line.split("=", 1)
    for line in Path(__file__).with_name("kafka_connect_worker.properties").read_text().splitlines()
    if not line.startswith("#")
)
OWN_NAMES = {
    "group.id": "etcd.cluster",
    "scheduled.rebalance.max.delay.ms": "rebalance.delay",
    "task.shutdown.graceful.timeout.ms": "drain.timeout",
}
"""Keys that are in force under another name."""


@pytest.mark.parametrize("key", sorted(EVERY_KEY))
def test_every_key_of_kafka_connect_is_in_force_or_told_of(key):
    needed = {"config.providers.env.param.allowlist.pattern": "A"}  # it may read all there else
    more = needed if key == "config.providers" else {}
    services, warnings = made(**{key: EVERY_KEY[key]}, **more)
    of_brokers = services["worker"].worker().brokers.keys
    in_force = key in of_brokers or any(key in one.values for one in services.values())
    told = key in {one.config_path for one in warnings}
    assert told or in_force or key in OWN_NAMES


@pytest.mark.parametrize(
    ("more", "is_told"),
    [
        ({}, True),
        ({"security.protocol": "SASL_SSL"}, False),
        ({"producer.security.protocol": "SSL"}, False),
        ({"security.protocol": "SASL_PLAINTEXT"}, True),
    ],
)
def test_keys_of_tls_are_told_of_where_no_client_uses_them(more, is_told):
    _, warnings = made(**{"ssl.keystore.location": "/k"}, **more)
    assert ("ssl.keystore.location" in {one.config_path for one in warnings}) == is_told


@pytest.mark.parametrize(
    ("more", "is_told"),
    [
        ({}, False),
        ({"exactly__once__source__support": "disabled"}, True),
        ({"topics__backend": "embedded"}, False),
        ({"topics__backend": "rocketmq", "namesrv__addr": "n:9876"}, True),
    ],
)
def test_exact_sources_are_told_of_where_topics_have_no_transactions(more, is_told):
    _, warnings = made(**more)
    assert ("exactly.once.source.support" in {one.config_path for one in warnings}) == is_told


@pytest.mark.parametrize("start", ["listeners.https.", "admin.listeners.https."])
def test_tls_of_kafka_connects_listeners_has_a_name_of_its_own_here(start):
    services, warnings = made(**{f"{start}ssl.keystore.location": "/k"})
    assert not any("https" in key for key in services["worker"].worker().brokers.keys)
    (told,) = [one for one in warnings if one.config_path.startswith(start)]
    assert "`listener.tls.certificate`" in told.message


def test_keys_of_kafka_are_told_of_where_topics_are_embedded():
    _, warnings = made(topics__backend="embedded")
    told = {one.config_path for one in warnings}
    assert {"bootstrap.servers", "key.converter", "producer.linger.ms"} <= told


def test_others_reach_a_machine_where_it_reaches_etcd():
    services, _ = made(etcd__endpoints="127.0.0.1:2379")
    assert {one.listen for one in services.values()} == {"127.0.0.1:0"}
    services, _ = made(listen="127.0.0.1:7000")
    assert services["worker"].listen == "127.0.0.1:7000"


def test_etcd_may_be_named_by_the_environment():
    variable = {"PENSTOCK_ETCD_ENDPOINTS": "[::1]:2379"}
    services, _ = distributed_settings(KAFKA_CONNECT, variable)
    assert services["worker"].listen == "[::1]:0"
    assert services["worker"].etcd.endpoints == ("[::1]:2379",)


def test_a_file_of_rocketmq_connect_has_its_names_in_force_or_told():
    given = {
        "workerId": "w", "storePathRootDir": "/s", "httpPort": "8082", "namesrvAddr": "n:9876",
        "aclEnable": "false", "accessKey": "a", "secretKey": "s", "clusterName": "c",
        "pluginPaths": "/p", "autoCreateGroupEnable": "false",
    }  # fmt: skip
    services, warnings = distributed_settings(given, {})
    assert services["gateway"].values["listeners.rocketmq"] == ("http://127.0.0.1:8082",)
    assert services["gateway"].values["listeners"] == ("none",), "it has one port"
    both, _ = distributed_settings({**given, "listeners": "http://127.0.0.1:1"}, {})
    assert both["gateway"].values["listeners"] == ("http://127.0.0.1:1",)
    assert services["worker"].values["state.dir"] == "/s"
    assert services["worker"].worker().brokers.default == "rocketmq"
    told = {one.config_path for one in warnings}
    assert told == {"workerId", "clusterName", "autoCreateGroupEnable", "accessKey", "secretKey"}
    login = {"aclEnable": "true", "listeners.rocketmq": "http://127.0.0.1:1"}
    services, warnings = distributed_settings({**given, **login}, {})
    assert services["worker"].worker().brokers.keys["rocketmq.secret.key"] == "s"
    assert {one.config_path for one in warnings} - told == {"httpPort"}


@pytest.mark.parametrize(
    ("more", "code", "path"),
    [
        ({"cluster__name": "other"}, "config.conflict", "group.id"),
        ({"lease__ttls": "5s"}, "config.unknown_key", "lease.ttls"),
        ({"lease__ttl": "soon"}, "config.wrong_type", "lease.ttl"),
        ({"etcd__endpoints": "no such host:1"}, "etcd.bad_endpoint", "etcd.endpoints"),
    ],
)
def test_a_key_that_means_nothing_is_refused(more, code, path):
    with pytest.raises(ConfigError) as caught:
        made(**more)
    assert (caught.value.code, caught.value.diagnostic.config_path) == (code, path)
