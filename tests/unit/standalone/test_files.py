"""Worker, connector and pipeline files."""

from pathlib import Path

import pytest

from penstock.model.connector import ConnectorKind
from penstock.model.errors import ConfigError
from penstock.standalone.files import read_flat
from penstock.standalone.pipeline import pipeline_of, read_pipeline


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_properties_keep_kafka_connects_syntax(tmp_path):
    text = "#mode=timestamp\nname=databend\ntable.name.format=default.${topic}\nlong=a,\\\n  b\nurl=jdbc:x://h:1/d?a=b\n"
    assert read_flat(write(tmp_path, "c.properties", text)) == {
        "name": "databend",
        "table.name.format": "default.${topic}",
        "long": "a,b",
        "url": "jdbc:x://h:1/d?a=b",
    }


def test_yaml_nests_and_lists_are_only_a_kinder_way_to_write_the_same_keys(tmp_path):
    text = (
        "connector.class: file-sink\ntopics: [a, b]\nflush: {rows: 5, interval: 1s}\nfsync: true\n"
    )
    assert read_flat(write(tmp_path, "c.yaml", text)) == {
        "connector.class": "file-sink",
        "topics": "a,b",
        "flush.rows": "5",
        "flush.interval": "1s",
        "fsync": "true",
    }


def test_the_body_of_a_rest_call_loads_as_a_file(tmp_path):
    text = '{"name": "x", "config": {"connector.class": "file-sink", "tasks.max": 2}}'
    assert read_flat(write(tmp_path, "c.json", text)) == {
        "name": "x",
        "connector.class": "file-sink",
        "tasks.max": "2",
    }


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("c.json", "{", "config.file_malformed"),
        ("c.yaml", "a: [", "config.file_malformed"),
        ("c.yaml", "- a", "config.file_malformed"),
        ("c.properties", "a=\\u12", "config.file_malformed"),
    ],
)
def test_a_malformed_file_is_named(tmp_path, name, text, code):
    with pytest.raises(ConfigError) as caught:
        read_flat(write(tmp_path, name, text))
    assert caught.value.code == code
    assert name in str(caught.value)
    assert caught.value.diagnostic.fix
    assert "\n" not in caught.value.diagnostic.message  # it would be printed as it is written here


def test_a_missing_file_says_which(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing\.yaml"):
        read_flat(tmp_path / "nothing.yaml")


def test_bytes_that_are_not_text_are_refused(tmp_path):
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError) as caught:
        read_flat(tmp_path / "c.yaml")
    assert caught.value.code == "config.file_not_text"
    assert "UTF-8" in caught.value.diagnostic.fix


def test_a_pipeline_is_a_connector_with_two_ends_and_a_chain(tmp_path):
    text = """
    name: lines
    source: {connector.class: file-source, file: /in}
    transforms:
      - {name: keep, type: Filter, condition: "a > 1"}
      - {type: InsertField, static: {field: x, value: y}}
    sink: {connector.class: file-sink, file: /out}
    flush: {rows: 5}
    """
    connector = read_pipeline(write(tmp_path, "p.yaml", text))
    assert connector.kind is ConnectorKind.PIPELINE
    assert connector.config == {
        "name": "lines",
        "source.connector.class": "file-source",
        "source.file": "/in",
        "sink.connector.class": "file-sink",
        "sink.file": "/out",
        "flush.rows": "5",
        "transforms": "keep,transform2",
        "transforms.keep.type": "Filter",
        "transforms.keep.condition": "a > 1",
        "transforms.transform2.type": "InsertField",
        "transforms.transform2.static.field": "x",
        "transforms.transform2.static.value": "y",
    }


def test_a_pipeline_without_a_sink_is_refused():
    with pytest.raises(ConfigError) as caught:
        pipeline_of({"source": {"connector.class": "file-source"}}, "p")
    assert caught.value.diagnostic.config_path == "sink"


def test_a_misspelt_key_of_a_pipeline_names_the_nearest():
    ends = {"source": {"connector.class": "a"}, "sink": {"connector.class": "b"}}
    with pytest.raises(ConfigError, match="transforms"):
        pipeline_of({**ends, "transform": []}, "p")
