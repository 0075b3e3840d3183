"""Topics are asked for by their names: the brokers may have very many."""

import pytest
from penstock_kafka import broker as broker_module
from penstock_kafka.broker import Broker
from penstock_kafka.login import LoginConfig
from penstock_kafka.offsets_topic import ensure_topic

from penstock_connector import RetriableError, SchemaError
from penstock_connector._config import parse_config
from penstock_values.topic_creation import TopicSettings


def broker_of(servers):
    return Broker(parse_config(LoginConfig, {"bootstrap.servers": servers}), "admin")


@pytest.fixture
def asked(kafka):
    """The brokers as an admin sees them, and a client."""
    made = broker_of(kafka.bootstrap)
    return made, made.admin()


def test_only_what_exists_is_found_and_asking_creates_nothing(kafka, asked, topic):
    broker, admin = asked
    kafka.create_topic(topic, 3)
    found = broker.describe(admin, [topic, f"{topic}-not", topic], "topics")
    assert found == {topic: [0, 1, 2]}
    assert broker.describe(admin, [], "topics") == {}
    assert f"{topic}-not" not in kafka.admin().list_topics().topics


def test_a_topic_is_created_once_and_its_partitions_counted(kafka, asked, topic):
    settings = TopicSettings(4, 1, {})
    with pytest.raises(SchemaError, match=r"kafka\.no_topic"):
        ensure_topic(asked[0], topic, settings, may_create=False)
    assert ensure_topic(asked[0], topic, settings, may_create=True) == 4
    assert ensure_topic(asked[0], topic, TopicSettings(9, 1, {}), may_create=False) == 4


def test_more_clients_than_a_process_can_have_are_told(monkeypatch):
    def full(_settings):
        raise RuntimeError("Failed to initialize thread local storage")

    monkeypatch.setattr(broker_module, "AdminClient", full)
    with pytest.raises(RetriableError, match="Start more workers") as caught:
        broker_of("127.0.0.1:1").admin()
    assert caught.value.code == "kafka.too_many_clients"
