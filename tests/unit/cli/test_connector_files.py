"""Folders that have connectors, and whatever else lies beside them."""

import pytest

from penstock.cli.connector_files import find_connector_files, read_desired_connectors
from penstock.cli.test import read_tests
from penstock.model.errors import ConfigError

PIPELINE = "source: {connector.class: a}\nsink: {connector.class: b}\n"
FOREIGN = {
    "data.json": "[1, 2]",
    "package.json": '{"name": "x", "version": "1.0", "config": {"port": 1}}',
    "worker.properties": "bootstrap.servers=x\nplugin.path=/x\nconfig.providers=file\n",
    "several.yaml": "a: 1\n---\nb: 2\n",
    "template.yaml": "{{ .Values.x }}\n  - {",
    "meta.yaml": "source: {url: x}\nbuild: {number: 1}\n",
    "notes.txt": "connector.class: no ending of ours",
    "large.json": '{"connector.class": "' + "x" * (5 << 20) + '"}',
}


@pytest.fixture
def foreign(tmp_path):
    for name, text in FOREIGN.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "x.yaml").mkdir()
    (tmp_path / "x.yaml" / "p.yaml").write_text(PIPELINE)
    return tmp_path


def test_of_a_folder_what_is_no_connector_is_passed_over_and_told(foreign, capsys):
    assert list(find_connector_files([foreign])) == [foreign / "x.yaml" / "p.yaml"]
    said = capsys.readouterr().err
    assert "bytes.yaml, " in said
    assert said.endswith(" and 3 more\n")
    assert "notes.txt" not in said
    assert [one.name for one in read_desired_connectors(foreign)] == ["p"]


@pytest.mark.parametrize("name", ["data.json", "several.yaml", "template.yaml", "bytes.yaml"])
def test_what_is_named_is_read_strictly(foreign, name):
    assert list(find_connector_files([foreign / name])) == [foreign / name]
    for verb in (read_desired_connectors, read_tests):
        with pytest.raises(ConfigError) as caught:
            list(verb(foreign / name))
        assert caught.value.code.startswith("config.file_")


@pytest.mark.parametrize(
    "text",
    [
        "conector.class: x\n",
        "topics: a\n",
        "source: {connector.clas: a}\n",
        "source: {connector.class: a}\n",
        "name: x\nconfig: {file: y}\n",
        "tasks: {max: 2}\n",
        "connector: {class: x}\n",
    ],
)
def test_a_connector_with_a_mistake_is_not_passed_over(tmp_path, text):
    """Passed over, it would be deleted by `apply --prune`."""
    file = tmp_path / "a.yaml"
    file.write_text(text)
    assert list(find_connector_files([tmp_path])) == [file]


def test_a_connector_that_cannot_be_parsed_is_not_passed_over(tmp_path):
    (tmp_path / "a.yaml").write_text("connector.class: x\ntopics: [")
    with pytest.raises(ConfigError, match=r"config\.file_malformed"):
        list(find_connector_files([tmp_path]))


def test_rows_of_tests_have_jsons_types_and_the_configuration_is_text(tmp_path):
    file = tmp_path / "p.yaml"
    row = "{n: 1, d: 1.10, b: true, z: null, t: 12:30:00, c: no, o: 010, q: '1'}"
    file.write_text(
        f"{PIPELINE}transforms: {{keep: {{type: Filter, condition: 1.10}}}}\n"
        f"tests: [{{input: [{row}], expected: [{row}], failed: {{2: a.b}}}}]\n"
    )
    (case,) = read_tests(file)
    assert case.connector.config["transforms.keep.condition"] == "1.10"
    assert case.rows == (
        {"n": 1, "d": 1.1, "b": True, "z": None, "t": "12:30:00", "c": "no", "o": "010", "q": "1"},
    )
    assert case.failed == {2: "a.b"}


def test_a_connector_with_one_end_may_have_tests(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("connector.class: a\ntests: [{input: [{a: 1}], expected: []}]\n")
    (case,) = read_tests(file)
    assert case.connector.config == {"connector.class": "a", "name": "c"}
    file.write_text("connector.class: a\n")
    assert not list(read_tests(file))
