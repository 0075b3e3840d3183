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
