"""A replay as a connector: whose letters it reads, and where those go that fail again."""

from __future__ import annotations

import pytest

from penstock.connector_config.dead_letters import dead_letter_topic, replay_connector
from penstock.connector_config.keys import DLQ_TOPIC
from penstock.gateway.v1.replay import refuse_other_connector
from penstock.model.connector import Connector, ConnectorKind
from penstock.model.dead_letter_queue import DeadLetterId, RowEdits
from penstock.model.errors import ConfigError

SINK = {"connector.class": "file-sink", "topics": "orders", "path": "/tmp/out"}
TOLERANT = {**SINK, "errors.tolerance": "5/1000"}


def connector(**config: str) -> Connector:
    return Connector("orders", config, ConnectorKind.SINK)


@pytest.mark.parametrize(
    ("config", "topic"),
    [
        ({**TOLERANT, DLQ_TOPIC: "dead"}, "dead"),
        (TOLERANT, "orders.letters"),
        ({**TOLERANT, "errors.tolerance": " All "}, "orders.letters"),
        ({**SINK, DLQ_TOPIC: "dead"}, "dead"),
    ],
)
def test_a_replay_reads_and_writes_letters_where_they_are(config, topic):
    stored = connector(**config)
    assert dead_letter_topic(stored) == topic
    made = replay_connector(stored, [DeadLetterId(0, 17)], RowEdits())
    assert made.config[DLQ_TOPIC] == topic
    assert made.config["errors.tolerance"] == "all"
    refuse_other_connector(made, "orders")


@pytest.mark.parametrize(
    "config",
    [
        SINK,
        {**SINK, "errors.tolerance": "None"},
        {**TOLERANT, "errors.skip": "true"},
        {**TOLERANT, "errors.skip": "TRUE"},
        {**TOLERANT, "errors.deadletterqueue.sink.connector.class": "file-sink"},
    ],
)
def test_a_connector_without_letters_in_a_topic_has_none_to_replay(config):
    with pytest.raises(ConfigError, match=r"letters\.no_topic"):
        dead_letter_topic(connector(**config))


def test_text_of_a_row_is_no_reference_to_a_secret():
    made = replay_connector(
        connector(**TOLERANT), [DeadLetterId(0, 1)], RowEdits({"note": "${file:/x:y}"})
    )
    assert "${" not in made.config["replay.set"]
