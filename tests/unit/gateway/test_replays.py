"""A replay as a connector: whose letters it reads, and where those go that fail again."""

from __future__ import annotations

import pytest

from penstock.gateway.v1.replay_config import TOPIC, letters_topic, refuse_foreign, replay_of
from penstock.model.connector import Connector, ConnectorKind
from penstock.model.errors import ConfigError
from penstock.model.replay import Changes, LetterId

SINK = {"connector.class": "file-sink", "topics": "orders", "path": "/tmp/out"}
TOLERANT = {**SINK, "errors.tolerance": "5/1000"}


def connector(**config: str) -> Connector:
    return Connector("orders", config, ConnectorKind.SINK)


@pytest.mark.parametrize(
    ("config", "topic"),
    [
        ({**TOLERANT, TOPIC: "dead"}, "dead"),
        (TOLERANT, "orders.letters"),
        ({**SINK, TOPIC: "dead"}, "dead"),
    ],
)
def test_a_replay_reads_and_writes_letters_where_they_are(config, topic):
    stored = connector(**config)
    assert letters_topic(stored) == topic
    made = replay_of(stored, [LetterId(0, 17)], Changes())
    assert made.config[TOPIC] == topic
    assert made.config["errors.tolerance"] == "all"
    refuse_foreign(made, "orders")


@pytest.mark.parametrize(
    "config",
    [
        SINK,
        {**TOLERANT, "errors.skip": "true"},
        {**TOLERANT, "errors.deadletterqueue.sink.connector.class": "file-sink"},
    ],
)
def test_a_connector_without_letters_in_a_topic_has_none_to_replay(config):
    with pytest.raises(ConfigError, match=r"letters\.no_topic"):
        letters_topic(connector(**config))


def test_text_of_a_row_is_no_reference_to_a_secret():
    made = replay_of(connector(**TOLERANT), [LetterId(0, 1)], Changes({"note": "${file:/x:y}"}))
    assert "${" not in made.config["replay.set"]
