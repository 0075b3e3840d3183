"""Which keys of a flat configuration belong to which owner."""

import pytest

from penstock.connector_config.keys import KEYS
from penstock.connector_config.sections import split_config
from penstock.model.connector import ConnectorKind
from penstock.model.errors import ConfigError


def test_the_plugin_gets_no_key_of_the_framework():
    config = {key.name: "1" for key in KEYS} | {"file": "x"}
    for kind in (ConnectorKind.SOURCE, ConnectorKind.SINK):
        parts = split_config(config, kind)
        assert set(parts.framework) == {key.name for key in KEYS}
        assert {**parts.source, **parts.sink} == {"file": "x"}


def test_the_keys_of_a_pipelines_plugins_lose_their_prefix():
    parts = split_config(
        {"topic.retention": "1h", "source.file": "a", "sink.file": "b"}, ConnectorKind.PIPELINE
    )
    assert (parts.source, parts.sink) == ({"file": "a"}, {"file": "b"})
    assert parts.framework == {"topic.retention": "1h"}


@pytest.mark.parametrize(
    ("key", "near"),
    [("topic.retentoin", "`topic.retention`"), ("transfroms", "`transforms`")],
)
def test_a_misspelt_key_of_a_pipeline_is_reported_with_the_nearest(key, near):
    with pytest.raises(ConfigError) as caught:
        split_config({key: "1"}, ConnectorKind.PIPELINE)
    assert caught.value.code == "config.unknown_key"
    assert caught.value.diagnostic.fix.startswith(f"Did you mean {near}")
    assert caught.value.diagnostic.config_path == key


def test_a_connector_of_rocketmq_connect_loads_as_it_is():
    """Topics are separated by semicolons there, and its own keys go to no plugin."""
    config = {
        "connector.class": "org.apache.rocketmq.connect.file.FileSinkConnector",
        "connect.topicnames": "orders;returns",
        "max.tasks": "2",
        "task.class": "org.apache.rocketmq.connect.file.FileSinkTask",
        "consume.from.where": "CONSUME_FROM_LAST_OFFSET",
        "errors.deadletterqueue.topic.name": "dead",
        "errors.deadletterqueue.read.queue.nums": "8",
        "errors.deadletterqueue.context.properties.enable": "true",
        "filename": "out",
    }
    sections = split_config(config, ConnectorKind.SINK)
    assert sections.framework["topics"] == "orders,returns"
    assert sections.framework["tasks.max"] == "2"
    assert sections.sink == {"filename": "out"}
    assert sections.unused_keys == (
        "consume.from.where",
        "errors.deadletterqueue.context.properties.enable",
        "errors.deadletterqueue.read.queue.nums",
        "task.class",
    )
