"""Keys of MQTT's connectors: what is refused, what has no effect, TLS, and what a node allows."""

import pytest

from penstock_connector._config import compatibility_keys, read_config
from penstock_connector._connectors import spec_of
from penstock_connector.testing import RemoteError, sink_task, source_task, validate
from penstock_messaging import MqttSink, MqttSource
from penstock_messaging.mqtt.topics import problem_of_filter, problem_of_name
from support.certificates import Authority
from support.mosquitto import PASSWORD, USER, MosquittoServer

SOURCE = {"mqtt.server.uri": "tcp://broker", "mqtt.topics": "a"}
SINK = {"mqtt.server.uri": "tcp://broker"}


def found(connector, config, **told):
    """What is found of a configuration: codes and keys."""
    reach = {"reach.folders": told.get("folders", "*"), "reach.hosts": told.get("hosts", "*")}
    _, errors = read_config(connector.config_type, {**config, **reach})
    return [(error.code, error.config_path) for error in errors]


@pytest.mark.parametrize(
    ("connector", "more", "code", "path"),
    [
        (MqttSource, {"mqtt.server.uri": "broker:1883"}, "invalid_value", "mqtt.server.uri"),
        (MqttSource, {"mqtt.server.uri": "ws://broker"}, "invalid_value", "mqtt.server.uri"),
        (MqttSource, {"mqtt.server.uri": "tcp://u:p@b"}, "invalid_value", "mqtt.server.uri"),
        (MqttSource, {"mqtt.server.uri": "tcp://b:x"}, "invalid_value", "mqtt.server.uri"),
        (MqttSource, {"mqtt.server.uri": "tcp://a,ssl://b"}, "invalid_value", "mqtt.server.uri"),
        (MqttSource, {"mqtt.topics": "a/#/b"}, "invalid_value", "mqtt.topics"),
        (MqttSource, {"mqtt.qos": "3"}, "invalid_value", "mqtt.qos"),
        (MqttSource, {"mqtt.password": "p"}, "conflict", "mqtt.password"),
        (MqttSource, {"mqtt.share.group": "a/b"}, "invalid_value", "mqtt.share.group"),
        (
            MqttSource,
            {"mqtt.share.group": "g", "mqtt.retained.handling": "always"},
            "conflict",
            "mqtt.retained.handling",
        ),
        (MqttSource, {"mqtt.receive.maximum": "0"}, "invalid_value", "mqtt.receive.maximum"),
        (MqttSource, {"mqtt.session.expiry": "0s"}, "invalid_value", "mqtt.session.expiry"),
        (
            MqttSource,
            {"mqtt.keepalive.interval.seconds": "0"},
            "invalid_value",
            "mqtt.keepalive.interval.seconds",
        ),
        (
            MqttSource,
            {"mqtt.ssl.trust.store.path": "/ca"},
            "conflict",
            "mqtt.ssl.trust.store.path",
        ),
        (MqttSink, {"mqtt.topic": "a/+"}, "invalid_value", "mqtt.topic"),
        (MqttSink, {"mqtt.qos": "-1"}, "invalid_value", "mqtt.qos"),
        (MqttSink, {"mqtt.message.max.bytes": "1"}, "invalid_value", "mqtt.message.max.bytes"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(connector, more, code, path):
    base = SOURCE if connector is MqttSource else SINK
    assert found(connector, base | more) == [(f"config.{code}", path)]
    assert found(connector, base) == []


def test_a_password_in_an_address_is_not_shown():
    _, errors = read_config(MqttSource.config_type, SOURCE | {"mqtt.server.uri": "tcp://u:pw1@b"})
    assert "pw1" not in str(errors[0])


def test_keys_without_an_effect_have_a_word_about_it():
    config, _ = read_config(
        MqttSource.config_type,
        SOURCE | {"mqtt.qos": "2", "mqtt.clean.session.enabled": "true",
                  "mqtt.session.lost": "continue", "mqtt.ssl.key.password": "x"},
    )  # fmt: skip
    assert {"mqtt.qos", "mqtt.session.lost", "mqtt.ssl.key.password"} <= set(config.unused_keys())
    config, _ = read_config(MqttSink.config_type, SINK | {"key.converter": "json"})
    assert set(config.unused_keys()) == {"key.converter"}
    theirs = {"confluent.topic.bootstrap.servers": "k:9092", "records.buffer.queue.size": "1024"}
    known = compatibility_keys(MqttSource.config_type, SOURCE | theirs)
    assert set(known) == set(theirs)
    assert all(one.why and not one.refused for one in known.values())


@pytest.mark.parametrize("connector", [MqttSource, MqttSink])
def test_a_configuration_of_confluents_connector_is_valid(connector):
    theirs = {
        "mqtt.server.uri": "tcp://broker:1883", "mqtt.username": "u", "mqtt.password": "p",
        "mqtt.clean.session.enabled": "false", "mqtt.connect.timeout.seconds": "10",
        "mqtt.keepalive.interval.seconds": "30", "mqtt.qos": "1", "confluent.license": "x",
    }  # fmt: skip
    if connector is MqttSource:
        theirs |= {"mqtt.topics": "a,b/#", "kafka.topic": "t"}
    else:
        theirs |= {"mqtt.retained.enabled": "true", "max.retry.time.ms": "1000"}
    assert "io.confluent.connect.mqtt.Mqtt" in connector.aliases[1]
    assert set(validate(connector, theirs)) == {"config.no_effect"}


@pytest.mark.parametrize("connector", [MqttSource, MqttSink])
def test_a_node_bounds_hosts_and_files(connector):
    assert spec_of(connector).enforces_reach
    base = SOURCE if connector is MqttSource else SINK
    assert found(connector, base, hosts="other") == [("reach.host", "mqtt.server.uri")]
    tls = base | {"mqtt.server.uri": "ssl://broker", "mqtt.ssl.key.store.path": "/etc/shadow"}
    assert found(connector, tls, folders="/data") == [("reach.folder", "mqtt.ssl.key.store.path")]


def test_names_and_filters():
    for good in ("a", "/", "a//b", "é/$x"):
        assert problem_of_name(good) == problem_of_filter(good) == ""
    for good in ("#", "+", "a/+/b/#", "/#"):
        assert problem_of_filter(good) == ""
    for bad in ("", "a\0", "a" * 65_536, "a/#", "+"):
        assert problem_of_name(bad)
    for bad in ("", "a#", "#/a", "a+", "$share/g/a"):
        assert problem_of_filter(bad)


def test_tls_with_a_certificate_of_its_own_authority(tmp_path):
    authority = Authority(tmp_path / "tls")
    certificate, key = authority.sign("localhost", address="127.0.0.1")
    client_certificate, client_key = authority.sign("client")
    store = tmp_path / "client.pem"
    store.write_text(client_certificate.read_text() + client_key.read_text())
    with MosquittoServer(tmp_path / "m", certificate=(authority.ca, certificate, key)) as server:
        given = {
            "mqtt.server.uri": f"ssl://127.0.0.1:{server.tls_port}", "mqtt.username": USER,
            "mqtt.password": PASSWORD, "mqtt.ssl.trust.store.path": str(authority.ca),
            "mqtt.ssl.key.store.path": str(store), "value.converter.schemas.enable": "false",
        }  # fmt: skip
        with source_task(MqttSource, {**given, "mqtt.topics": "a"}) as source:
            source.until("checkpoint")
            with sink_task(MqttSink, {**given, "mqtt.topic": "a"}) as sink:
                sink.write([{"n": n} for n in range(2000)])
            assert [row["n"] for row in source.rows(2000)] == list(range(2000))
        for more, code in (
            ({"mqtt.ssl.trust.store.path": ""}, "mqtt.tls"),
            ({"mqtt.ssl.trust.store.path": str(tmp_path / "none")}, "mqtt.tls_store"),
        ):
            with pytest.raises(RemoteError) as told, sink_task(MqttSink, given | more):
                pass
            assert told.value.code == code
        assert "mqtt.ssl.trust.store.path" in str(told.value)


def test_the_next_broker_is_tried_when_one_does_not_answer(mosquitto, topic):
    given = mosquitto.keys | {"mqtt.server.uri": f"tcp://127.0.0.1:1,{mosquitto.uri}"}
    with sink_task(MqttSink, given | {"mqtt.topic": topic}) as task:
        task.write([{"n": 1}])
