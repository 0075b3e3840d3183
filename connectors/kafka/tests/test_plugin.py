"""The plugin as a whole: its manifest, its words, what it may reach."""

import re
import tomllib
from pathlib import Path

import penstock_kafka
import pytest
from penstock_kafka import CONNECTORS, KafkaSink, KafkaSource, MirrorSource

from penstock_connector import Source
from penstock_connector._config import read_config
from penstock_connector._connectors import spec_of

FOLDER = Path(penstock_kafka.__file__).parent
README = (FOLDER.parent / "README.md").read_text(encoding="utf-8")

REGISTRY = "value.converter.schema.registry.url"
TRUSTSTORE = "value.converter.schema.registry.ssl.truststore"
WITH_REGISTRY = {
    "bootstrap.servers": "ok.example:9092", "value.converter": "avro",
    REGISTRY: "http://ok.example:8081",
}  # fmt: skip


def test_the_manifest_names_what_is_served():
    manifest = tomllib.loads((FOLDER / "plugin.toml").read_text(encoding="utf-8"))
    listed = {c["name"]: (c["kind"], set(c.get("aliases", ()))) for c in manifest["connector"]}
    served = {
        c.name: ("source" if issubclass(c, Source) else "sink", set(c.aliases)) for c in CONNECTORS
    }
    assert listed == served


def test_every_code_of_an_error_is_in_the_readme():
    sources = "".join(file.read_text(encoding="utf-8") for file in FOLDER.rglob("*.py"))
    told = set(re.findall(r"kafka\.[a-z_]+", README))
    assert set(re.findall(r'"(kafka\.[a-z_]+)"', sources)) <= told


@pytest.mark.parametrize("connector", [KafkaSource, KafkaSink], ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"bootstrap.servers": "ok.example:9092,evil.example:9092"}, "bootstrap.servers"),
        (
            {
                "bootstrap.servers": "ok.example:9092",
                "security.protocol": "SSL",
                "ssl.truststore.location": "/x",
            },
            "ssl.truststore.location",
        ),
        (
            {**WITH_REGISTRY, REGISTRY: "http://ok.example:8081,https://u:p@evil.example"},
            REGISTRY,
        ),
        (
            {**WITH_REGISTRY, f"{TRUSTSTORE}.location": "/x", f"{TRUSTSTORE}.type": "PEM"},
            f"{TRUSTSTORE}.location",
        ),
    ],
)
def test_what_is_outside_of_its_reach_is_refused_by_its_key(connector, given, path):
    assert spec_of(connector).enforces_reach
    reach = {"reach.hosts": "ok.example", "reach.folders": "/data"}
    topics = {"topics": "t"} if connector.name == "kafka-source" else {}
    _, errors = read_config(connector.config_type, {**topics, **given, **reach})
    assert [error.config_path for error in errors] == [path]


@pytest.mark.parametrize("cluster", ["source", "target"])
def test_a_cluster_of_a_mirror_is_within_its_reach(cluster):
    given = {
        "source.cluster.bootstrap.servers": "ok.example:9092",
        "target.cluster.bootstrap.servers": "ok.example:9092",
        "reach.hosts": "ok.example",
    }
    wrong = {f"{cluster}.cluster.bootstrap.servers": "evil.example:9092"}
    config, errors = read_config(MirrorSource.config_type, given)
    assert config is not None, errors
    _, errors = read_config(MirrorSource.config_type, given | wrong)
    assert [error.config_path for error in errors] == list(wrong)
