"""Channels of signals: what is refused, and what has a word about it."""

import builtins

import pytest

from penstock_connector import ConfigError
from penstock_connector._config import read_config
from penstock_databases.cdc.signal_topic import kafka_library
from penstock_databases.mysql_cdc.config import MysqlCdcConfig

SERVER = {"database.hostname": "db", "topic.prefix": "shop"}
KAFKA = {"signal.enabled.channels": "kafka", "signal.kafka.bootstrap.servers": "k:9092"}


def config(given):
    found, errors = read_config(MysqlCdcConfig, {**SERVER, **given})
    return found, [(error.code, error.config_path) for error in errors]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"signal.enabled.channels": "kafka"}, "signal.kafka.bootstrap.servers"),
        ({**KAFKA, "topic.prefix": ""}, "topic.prefix"),
        ({"signal.enabled.channels": "file", "signal.file": ""}, "signal.file"),
        ({"signal.poll.interval.ms": "0"}, "signal.poll.interval.ms"),
        ({**KAFKA, "signal.consumer.plugin.library.paths": "/x"},
         "signal.consumer.plugin.library.paths"),
        ({"signal.enabled.channels": "com.example.Mine"}, "signal.enabled.channels"),
        ({"signal.enabled.channels": "file", "signal.file": "/etc/s", "reach.folders": "/data",
          "reach.hosts": "*"}, "signal.file"),
        ({**KAFKA, "reach.folders": "*", "reach.hosts": "db"}, "signal.kafka.bootstrap.servers"),
        ({**KAFKA, "signal.consumer.ssl.ca.location": "/etc/ca", "reach.folders": "/data",
          "reach.hosts": "*"}, "signal.consumer.ssl.ca.location"),
    ],
)  # fmt: skip
def test_channels_that_could_give_no_signals_are_refused_by_the_key(given, error):
    _, errors = config(given)
    assert [path for _, path in errors] == [error]


def test_keys_of_channels_that_are_not_enabled_have_a_word():
    given = {
        "signal.enabled.channels": "jmx", "signal.data.collection": "a.s", "signal.file": "/f",
        "signal.kafka.bootstrap.servers": "k:1", "signal.consumer.client.id": "c",
    }  # fmt: skip
    found, errors = config(given)
    assert not errors
    assert found.unused_keys().keys() == given.keys()
    assert found.signals_table == "", "its rows are no signals"


def test_the_topic_and_the_connection_of_kafka():
    found, _ = config({
        **KAFKA, "signal.consumer.sasl.username": "me", "signal.consumer.sasl.password": "secret",
    })  # fmt: skip
    channel = found.kafka_channel("shop")
    assert (channel.topic, channel.key) == ("shop-signal", "shop")
    assert channel.settings == {"sasl.username": "me", "sasl.password": "secret"}
    assert "secret" not in f"{channel} {found}"


def test_a_client_that_is_not_installed_is_named_with_what_installs_it(monkeypatch):
    plain = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "confluent_kafka":
            raise ImportError(name)
        return plain(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError) as error:
        kafka_library()
    assert (error.value.code, error.value.fix) == (
        "cdc.signal_library", "pip install 'penstock[kafka]'",
    )  # fmt: skip
