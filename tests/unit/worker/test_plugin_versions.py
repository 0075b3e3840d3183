"""Which version of a plugin an end of a connector gets."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.model.connector import Connector, ConnectorKind
from penstock.model.errors import ConfigError
from penstock.plugin import ConnectorEntry, Kind, Manifest, Registry
from penstock.secrets import NO_SECRETS
from penstock.worker.design import design_of

ENTRIES = (ConnectorEntry("read", Kind.SOURCE), ConnectorEntry("write", Kind.SINK))
PIPELINE = {
    "source.connector.class": "read",
    "source.connector.plugin.version": "[1,2)",
    "source.file": "a",
    "sink.connector.class": "write",
    "sink.file": "b",
}


class Host:
    """Finds what is installed, and starts nothing."""

    def __init__(self, *versions: str) -> None:
        manifests = [Manifest("one", v, ("x",), Path("/"), ENTRIES) for v in versions]
        self.find = Registry(manifests).find


def design(config: dict[str, str], kind: ConnectorKind = ConnectorKind.UNSPECIFIED):
    host: Any = Host("1.5", "2.0")
    return asyncio.run(design_of(host, NO_SECRETS, Connector("c", config, kind)))


def test_each_end_of_a_pipeline_has_its_own():
    made = design(PIPELINE, ConnectorKind.PIPELINE)
    assert made.source_target().version == "[1,2)"
    assert made.sink_target().version == ""
    assert dict(made.source_target().config) == {"file": "a"}


def test_a_connector_names_it_beside_its_class_and_the_plugin_does_not_get_it():
    made = design({"connector.class": "read", "connector.plugin.version": "1.5", "file": "a"})
    assert (made.kind, made.source_target().version) == (ConnectorKind.SOURCE, "1.5")
    assert dict(made.source_target().config) == {"file": "a"}
    assert made.findings == ()


def test_a_version_that_is_not_installed_is_told_before_anything_starts():
    with pytest.raises(ConfigError) as caught:
        design({"connector.class": "read", "connector.plugin.version": "[3,)"})
    assert caught.value.code == "plugin.no_such_version"
    assert caught.value.diagnostic.config_path == "connector.plugin.version"
