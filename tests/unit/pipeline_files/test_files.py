"""Worker, connector and pipeline files."""

from pathlib import Path

import pytest

from penstock.model.errors import ConfigError
from penstock.pipeline_files.files import read_flat, read_values


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


def test_nesting_and_lists_of_yaml_write_the_same_keys(tmp_path):
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


YAML = """
version: 1.10
at: 12:30:00
day: 2024-02-30
moment: 2024-01-31 08:00:00
octal: 010
country: no
large: 1e400
keys: {on: yes, 1: 2}
list: [1.10, no, '3']
quoted: "1.10"
yes: true
nothing: ~
"""


def test_values_of_yaml_stay_as_they_were_written(tmp_path):
    assert read_flat(write(tmp_path, "c.yaml", YAML)) == {
        "version": "1.10",
        "at": "12:30:00",
        "day": "2024-02-30",
        "moment": "2024-01-31 08:00:00",
        "octal": "010",
        "country": "no",
        "large": "1e400",
        "keys.on": "yes",
        "keys.1": "2",
        "list": "1.10,no,3",
        "quoted": "1.10",
        "yes": "true",
    }


def test_values_of_json_stay_as_they_were_written(tmp_path):
    text = '{"a": 1.10, "b": 1e400, "c": true, "d": null, "e": [1.0, false], "f": {"g": -0}}'
    assert read_flat(write(tmp_path, "c.json", text)) == {
        "a": "1.10", "b": "1e400", "c": "true", "e": "1.0,false", "f.g": "-0",
    }  # fmt: skip


def test_merged_keys_of_yaml_are_its_own(tmp_path):
    text = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\n"
    assert read_flat(write(tmp_path, "c.yaml", text))["b.x"] == "1"


@pytest.mark.parametrize(
    "text", ["a: [{b: c}]", "a: [[b]]", "? \n: x", "a: {? ~ : x}"]
)  # fmt: skip
def test_values_that_text_cannot_hold_are_refused(tmp_path, text):
    with pytest.raises(ConfigError, match=r"config\.not_text"):
        read_flat(write(tmp_path, "c.yaml", text))


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(9)
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.yaml", "a: " + "[" * 5000),
        ("c.json", '{"a": ' * 5000),
        ("c.json", '{"a": ' * 200 + "1" + "}" * 200),
        ("c.json", '{"a": NaN}'),
        ("c.json", r'{"a": ["\ud800"]}'),
        ("c.yaml", r'"\ud800": a'),
        ("c.properties", r"a=\ud800"),
        ("c.yaml", "a: &a {b: *a}"),
        ("c.yaml", BOMB),
        ("c.yaml", "a: !!timestamp 2024-02-30"),
        ("c.yaml", "a: 1\n---\na: 2"),
    ],
)
@pytest.mark.parametrize("read", [read_flat, read_values])
def test_an_unreadable_file_is_reported_whatever_it_is(tmp_path, name, text, read):
    with pytest.raises(ConfigError) as caught:
        read(write(tmp_path, name, text))
    assert caught.value.code == "config.file_malformed"


@pytest.mark.parametrize(
    ("name", "text"),
    [("c.yaml", "a: 1e400"), ("c.json", '{"a": 1e400}'), ("c.yaml", "a: !!int x"),
     ("c.yaml", "a: !!bool 7x"), ("c.yaml", "a: " + "7" * 5000)],
)  # fmt: skip
def test_a_value_that_is_not_a_number_is_refused(tmp_path, name, text):
    with pytest.raises(ConfigError, match=r"config\.file_malformed"):
        read_values(write(tmp_path, name, text))


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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "topic: a\nrows: 1\ntopic: b\n"),
        ("a.yaml", "sink: {file: a, file: b}\n"),
        ("a.json", '{"topic": "a", "topic": "b"}'),
        ("a.json", '{"sink": {"file": "a", "file": "b"}}'),
    ],
)
def test_a_repeated_key_is_refused(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=r"config\.file_malformed.*twice"):
        read_flat(tmp_path / name)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing\.yaml"):
        read_flat(tmp_path / "nothing.yaml")


def test_bytes_that_are_not_text_are_refused(tmp_path):
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError) as caught:
        read_flat(tmp_path / "c.yaml")
    assert caught.value.code == "config.file_not_text"
    assert "UTF-8" in caught.value.diagnostic.fix
