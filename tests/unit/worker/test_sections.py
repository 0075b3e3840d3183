"""Which keys of a flat configuration are whose."""

from penstock.model.connector import ConnectorKind
from penstock.worker.sections import sections
from penstock.worker.settings import KEYS


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
