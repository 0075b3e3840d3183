"""Which version of a plugin each role of a connector gets."""

import asyncio
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.model.connector import Connector, ConnectorKind
from penstock.model.errors import ConfigError
from penstock.plugin.catalog.manifest import ConnectorEntry, Kind, Manifest
from penstock.plugin.catalog.registry import Registry
from penstock.secrets.resolution import NO_SECRETS
from penstock.worker.config.plugin_transforms import (
    build_connector_chain,
    validate_plugin_transforms,
)
from penstock.worker.config.resolved_config import DLQ_SINK, acquire_plugin, resolve_config

ENTRIES = (
    ConnectorEntry("read", Kind.SOURCE),
    ConnectorEntry("write", Kind.SINK),
    ConnectorEntry("change", Kind.TRANSFORM),
)
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
        self.isolation = "shared"
        self.owners: list[str] = []

    async def acquire(self, name: str, version: str, task: str, owner: str) -> None:
        """Find it."""
        self.find(name, version)
        self.owners.append(owner)


def resolved(config: dict[str, str], kind: ConnectorKind = ConnectorKind.UNSPECIFIED):
    host: Any = Host("1.5", "2.0")
    return asyncio.run(resolve_config(host, NO_SECRETS, Connector("c", config, kind)))


def test_source_and_sink_of_a_pipeline_have_their_own_version():
    made = resolved(PIPELINE, ConnectorKind.PIPELINE)
    assert made.target("source").version == "[1,2)"
    assert made.target("sink").version == ""
    assert dict(made.target("source").config) == {"file": "a"}


def test_the_version_key_is_not_passed_to_the_plugin():
    made = resolved({"connector.class": "read", "connector.plugin.version": "1.5", "file": "a"})
    assert (made.kind, made.target("source").version) == (ConnectorKind.SOURCE, "1.5")
    assert dict(made.target("source").config) == {"file": "a"}
    assert made.findings == ()


def test_a_version_that_is_not_installed_is_an_error_before_anything_starts():
    with pytest.raises(ConfigError) as caught:
        resolved({"connector.class": "read", "connector.plugin.version": "[3,)"})
    assert caught.value.code == "plugin.no_such_version"
    assert caught.value.diagnostic.config_path == "connector.plugin.version"


LETTERS = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.sink.connector.class": "write",
    "errors.deadletterqueue.sink.file": "c",
}


def path_of_refusal(config: dict[str, str], end: str, kind: ConnectorKind) -> str:
    """Return the key that is reported when the plugin of a role is refused."""
    host: Any = Host("1.5", "2.0")
    made = resolved(config, kind)
    with pytest.raises(ConfigError) as caught:
        asyncio.run(acquire_plugin(host, made, end))
    return caught.value.diagnostic.config_path


@pytest.mark.parametrize(
    ("wrong", "end", "path"),
    [
        ({"source.connector.class": "raed"}, "source", "source.connector.class"),
        ({"source.connector.class": "write"}, "source", "source.connector.class"),
        ({"sink.connector.class": "read"}, "sink", "sink.connector.class"),
        ({"sink.connector.class": "wirte"}, "sink", "sink.connector.class"),
        ({"sink.connector.class": ""}, "sink", "sink.connector.class"),
        (
            {"source.connector.plugin.version": "[3,)"},
            "source",
            "source.connector.plugin.version",
        ),
        ({"connector.plugin.version": "[3,)"}, "sink", "connector.plugin.version"),
        (
            {"errors.deadletterqueue.sink.connector.class": "wirte"},
            DLQ_SINK,
            "errors.deadletterqueue.sink.connector.class",
        ),
        (
            {"connector.plugin.version": "1", "errors.deadletterqueue.sink.connector.class": "x"},
            DLQ_SINK,
            "errors.deadletterqueue.sink.connector.class",
        ),
    ],
)
def test_a_refused_plugin_is_reported_at_the_key_that_names_it(wrong, end, path):
    config = {**PIPELINE, **LETTERS, **wrong}
    assert path_of_refusal(config, end, ConnectorKind.PIPELINE) == path


def test_a_pipeline_without_a_class_names_the_missing_key():
    config = {key: value for key, value in PIPELINE.items() if key != "sink.connector.class"}
    assert path_of_refusal(config, "sink", ConnectorKind.PIPELINE) == "sink.connector.class"


def test_a_flat_connector_names_the_missing_key_without_a_prefix():
    assert path_of_refusal({"connector.class": "raed"}, "source", ConnectorKind.SOURCE) == (
        "connector.class"
    )


class Acquiring(Host):
    """Notes the versions that are asked for."""

    def __init__(self, *versions: str) -> None:
        super().__init__(*versions)
        self.wanted: list[tuple[str, str]] = []

    async def acquire(self, name: str, version: str) -> Any:
        self.wanted.append((name, version))
        self.find(name, version)
        return Valid()


class Valid:
    """A process whose plugin finds nothing wrong."""

    connector = "change"
    spec = SimpleNamespace(enforces_reach=True)

    async def validate(self, _target: Any) -> Any:
        return SimpleNamespace(values=(), diagnostics=())


@pytest.mark.parametrize(("version", "refused"), [("[1,2)", False), ("[3,)", True)])
def test_a_transform_of_a_plugin_has_the_version_that_it_names(version: str, refused: bool):
    config = {
        "transforms": "a",
        "transforms.a.type": "change",
        "transforms.a.plugin.version": version,
    }
    host: Any = Acquiring("1.5", "2.0")
    made = resolved({"connector.class": "read", **config})
    chain = build_connector_chain(host, made, ())
    assert chain.plugin_transforms[0].config == ()
    if refused:
        with pytest.raises(ConfigError) as caught:
            asyncio.run(validate_plugin_transforms(host, chain, made))
        assert caught.value.code == "plugin.no_such_version"
        assert caught.value.diagnostic.config_path == "transforms.a.plugin.version"
    else:
        assert asyncio.run(validate_plugin_transforms(host, chain, made)) == []
    assert host.wanted == [("change", version)]


@pytest.mark.parametrize(
    ("key", "worker", "task", "isolated", "owner"),
    [
        (None, "shared", "g-0", False, ""),
        ("connector", "shared", "g-0", False, "g"),
        ("task", "shared", "g-0", False, "g-0"),
        (None, "connector", "g-0", False, "g"),
        (None, "task", "g-0", False, "g-0"),
        ("shared", "task", "g-0", False, ""),
        ("shared", "shared", "g-0", True, "g-0"),
        ("connector", "task", "", False, ""),
        ("task", "task", "", False, ""),
    ],
)
def test_processes_are_shared_as_the_connector_or_else_the_worker_says(
    key, worker, task, isolated, owner
):
    host: Any = Host("1.5")
    host.isolation = worker
    config = {"connector.class": "read"} | ({"plugin.isolation": key} if key else {})
    connector = Connector("c", config, ConnectorKind.SOURCE, generation="g")
    made = asyncio.run(resolve_config(host, NO_SECRETS, connector))
    with suppress(AttributeError):  # there is no process behind this host
        asyncio.run(acquire_plugin(host, made, "source", task, isolated=isolated))
    assert host.owners == [owner]
