"""Which keys of a flat configuration are whose."""

import pytest

from penstock.model.connector import ConnectorKind
from penstock.model.errors import ConfigError
from penstock.worker.config.sections import sections
from penstock.worker.config.settings import KEYS


def test_every_key_of_the_framework_stays_out_of_the_plugins_part():
    config = {key.name: "1" for key in KEYS} | {"file": "x"}
    for kind in (ConnectorKind.SOURCE, ConnectorKind.SINK):
        parts = sections(config, kind)
        assert set(parts.framework) == {key.name for key in KEYS}
        assert {**parts.source, **parts.sink} == {"file": "x"}


def test_the_keys_of_an_end_of_a_pipeline_lose_their_prefix():
    parts = sections(
        {"topic.retention": "1h", "source.file": "a", "sink.file": "b"}, ConnectorKind.PIPELINE
    )
    assert (parts.source, parts.sink) == ({"file": "a"}, {"file": "b"})
    assert parts.framework == {"topic.retention": "1h"}


@pytest.mark.parametrize(
    ("key", "near"),
    [("topic.retentoin", "`topic.retention`"), ("transfroms", "`transforms`")],
)
def test_a_misspelt_key_of_a_pipeline_is_told_with_the_nearest(key, near):
    with pytest.raises(ConfigError) as caught:
        sections({key: "1"}, ConnectorKind.PIPELINE)
    assert caught.value.code == "config.unknown_key"
    assert caught.value.diagnostic.fix.startswith(f"Did you mean {near}")
    assert caught.value.diagnostic.config_path == key
