"""The framework's keys as values."""

import pytest

from penstock.standalone.settings import node_settings
from penstock.topic.embedded import Retention
from penstock.worker.settings import read_settings


@pytest.mark.parametrize(
    ("keys", "retention"),
    [
        ({}, None),
        ({"topic.retention": "7d"}, Retention(7 * 86400.0, 0)),
        ({"topic.retention.bytes": "1GiB"}, Retention(0.0, 1 << 30)),
        ({"topic.retention": "0"}, Retention(0.0, 0)),  # for ever, whatever the node says
    ],
)
def test_a_topics_own_retention(keys, retention):
    settings, findings = read_settings({"name": "n", "connector.class": "c", **keys})
    assert settings.topic_retention == retention
    assert findings == []


def test_the_nodes_retention(tmp_path):
    keys = {"state.dir": str(tmp_path), "topics.retention": "1h", "topics.retention.bytes": "4096"}
    settings, _ = node_settings(keys)
    assert settings.topics_retention == Retention(3600.0, 4096)
