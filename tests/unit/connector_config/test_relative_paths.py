"""Relative paths are found where the key is a file, and nowhere else."""

import pytest

from penstock.connector_config.relative_paths import find_relative_paths
from penstock.model.connector import ConnectorKind
from penstock.model.errors import Severity

FILES = {"file", "path"}


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("file", "app.log", "app.log"),
        ("file", "./app.log", "./app.log"),
        ("file", "../logs/*.log", "../logs/*.log"),
        ("file", "~/app.log", "~/app.log"),
        ("file", "/a.log, b.log", "b.log"),
        ("path", "out/${topic}.txt", "out/${topic}.txt"),
        ("url", "jdbc:sqlite:shop.db", "shop.db"),
        ("url", "sqlite:data/shop.db?x=1", "data/shop.db"),
    ],
)
def test_a_relative_path_is_told_with_its_key_and_value(key, value, shown):
    (found,) = find_relative_paths({key: value}, FILES, ConnectorKind.PIPELINE)
    assert (found.code, found.config_path) == ("config.relative_path", key)
    assert f"`{key}` is {shown!r}" in found.message
    assert f'"${{env:DATA_DIR}}/{shown.removeprefix("./")}",' in found.fix


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("file", "/var/log/app.log"),
        ("file", "${env:DATA_DIR}/app.log"),
        ("file", "${topic}"),
        ("file", ""),
        ("file", "/a.log,/b.log,"),
        ("path", "s3://bucket/prefix"),
        ("path", "hdfs://host:8020/path"),
        ("url", "jdbc:sqlite:/data/shop.db"),
        ("url", "jdbc:sqlite::memory:"),
        ("url", "jdbc:postgresql://db/shop"),
        ("topic", "app.log"),
        ("format", "text"),
    ],
)
def test_other_values_are_not(key, value):
    assert not list(find_relative_paths({key: value}, FILES, ConnectorKind.PIPELINE))


@pytest.mark.parametrize(
    ("kind", "severity"),
    [
        (ConnectorKind.PIPELINE, Severity.ERROR),
        (ConnectorKind.SOURCE, Severity.WARNING),
        (ConnectorKind.SINK, Severity.WARNING),
    ],
)
def test_only_a_pipeline_is_refused_for_it(kind, severity):
    """Kafka Connect takes such a path, so its configurations may have one."""
    (found,) = find_relative_paths({"file": "a.log"}, FILES, kind)
    assert found.severity is severity
