"""The file of a connector, as every command reads it."""

import re
from pathlib import Path

import pytest

from penstock.connector_config.keys import KEYS
from penstock.connector_config.sections import split_config
from penstock.model.config_def import split_errors
from penstock.model.connector import ConnectorKind, TargetState
from penstock.model.errors import ConfigError
from penstock.pipeline_files.connector_file import (
    connector_of,
    fill_variables,
    is_connector,
    read_connector,
    read_pipeline,
)
from penstock.pipeline_files.files import read_document
from support.checkout import ROOT

PLUGIN_ROLES = "source: {connector.class: a}\nsink: {connector.class: b}\n"
FLAT = {"source.connector.class": "a", "sink.connector.class": "b"}
README = ROOT / "README.md"


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_pipeline_is_a_connector_with_a_source_a_sink_and_a_chain(tmp_path):
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


def test_the_first_pipeline_of_the_readme_is_the_same_for_all_commands(tmp_path):
    text = re.search(r"```yaml\n(name: errors-only.*?)```", README.read_text(), re.DOTALL)
    file = write(tmp_path, "pipeline.yaml", text.group(1))
    assert read_connector(file).config == {
        "name": "errors-only",
        "source.connector.class": "file-source",
        "source.file": "app.log",
        "source.tail": "false",
        "transforms": "keep",
        "transforms.keep.type": "Filter",
        "transforms.keep.condition": "line like '%ERROR%'",
        "sink.connector.class": "file-sink",
        "sink.file": "errors.log",
    }
    assert read_pipeline(file).config == read_connector(file).config


def test_a_pipeline_may_have_every_key_of_a_connector(tmp_path):
    keys = {key.name: "x" for key in KEYS if key.name not in {"name", "connector.class"}}
    more = {"errors.deadletterqueue.sink.connector.class": "c", "key.converter": "d",
            "producer.override.acks": "all", "topic.creation.default.partitions": "1"}  # fmt: skip
    text = "".join(f"{key}: {value}\n" for key, value in {**keys, **more}.items())
    config = read_pipeline(write(tmp_path, "p.yaml", PLUGIN_ROLES + text)).config
    assert config == {"name": "p", **FLAT, **keys, **more}


def test_a_pipeline_may_be_written_flat(tmp_path):
    text = "".join(f"{key}={value}\n" for key, value in FLAT.items())
    connector = read_pipeline(write(tmp_path, "p.properties", text))
    assert (connector.kind, connector.config) == (ConnectorKind.PIPELINE, {"name": "p", **FLAT})


@pytest.mark.parametrize("verbs_own", ["state: PAUSED\n", "tests: [{input: []}]\n"])
def test_sections_of_other_commands_are_not_keys(tmp_path, verbs_own):
    file = write(tmp_path, "p.yaml", PLUGIN_ROLES + verbs_own)
    assert read_pipeline(file).config == {"name": "p", **FLAT}
    assert read_pipeline(file).target_state is TargetState.RUNNING


def test_a_body_of_kafka_connect_is_a_connector(tmp_path):
    text = (
        '{"name": "x", "config": {"connector.class": "file-sink", "tasks.max": 2, "v": 1.10},'
        ' "initial_state": "PAUSED"}'
    )
    connector = read_connector(write(tmp_path, "c.json", text))
    assert connector.name == "x"
    assert connector.target_state is TargetState.PAUSED
    assert connector.config == {
        "name": "x", "connector.class": "file-sink", "tasks.max": "2", "v": "1.10",
    }  # fmt: skip


def test_a_body_may_be_a_pipeline(tmp_path):
    file = write(
        tmp_path, "c.yaml", f"name: x\nconfig: {{{PLUGIN_ROLES.replace(chr(10), ', ')}}}\n"
    )
    assert read_pipeline(file).config == {"name": "x", **FLAT}


@pytest.mark.parametrize("value", ["paused", "Paused"])
def test_a_state_may_be_written_in_any_case(value):
    for document in (
        {"connector.class": "a", "state": value},
        {"name": "n", "config": {"connector.class": "a"}, "initial_state": value},
    ):
        assert connector_of(document, "n").target_state is TargetState.PAUSED


def test_a_file_leaves_the_state_alone():
    assert connector_of({"connector.class": "a"}, "n").target_state is TargetState.UNSPECIFIED


def test_keys_that_start_with_config_are_not_a_body():
    document = {"connector.class": "a", "config": {"action": {"reload": "none"}}}
    assert connector_of(document, "n").config["config.action.reload"] == "none"


def test_a_chain_may_be_names_whose_keys_are_elsewhere():
    written = {"transforms": ["a", "b"], "transforms.a.type": "X", "connector.class": "c"}
    config = connector_of(written, "n").config
    assert (config["transforms"], config["transforms.a.type"]) == ("a,b", "X")
    assert connector_of({**written, "transforms": "a,b"}, "n").config == config


@pytest.mark.parametrize(
    ("text", "code", "where"),
    [
        ("transforms: [[keep]]", "config.chain", "transforms"),
        ("transforms: {keep: Filter}", "config.chain", "transforms.keep"),
        ("transforms: {keep: ~}", "config.chain", "transforms.keep"),
        ("transforms: [{name: [a], type: X}]", "config.chain", "transforms"),
        ("transforms: [{name: a, type: X}, {name: a}]", "config.chain", "transforms.a"),
        ("predicates: [~]", "config.chain", "predicates"),
        ("transforms: [{name: a, static: [{b: c}]}]", "config.not_text", "transforms.a.static"),
        ("state: [PAUSED]", "config.target_state", "state"),
        ("state: 2024-02-30", "config.target_state", "state"),
        ("flush: [{rows: 1}]", "config.not_text", "flush"),
        ("transform: []", "config.unknown_key", "transform"),
        ("schema.evolutoin: lenient", "config.unknown_key", "schema.evolutoin"),
        ("errors: {tolerence: all}", "config.unknown_key", "errors.tolerence"),
    ],
)
def test_an_error_names_its_place_and_the_file(tmp_path, text, code, where):
    with pytest.raises(ConfigError) as caught:
        read_pipeline(write(tmp_path, "p.yaml", f"{PLUGIN_ROLES}{text}\n"))
    found = caught.value.diagnostic
    assert (found.code, found.config_path) == (code, where)
    assert "p.yaml" in found.message
    assert found.fix


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("name: a\nconfig: {name: b}\n", "config.name_mismatch"),
        ("name: a\nconfig: {x: b}\nstate: PAUSED\n", "config.unknown_field"),
        ("name: a\nconfig: {x: b}\ninitial_state: AWAY\n", "config.target_state"),
    ],
)
def test_a_body_with_an_unknown_field_is_refused(tmp_path, text, code):
    with pytest.raises(ConfigError) as caught:
        read_connector(write(tmp_path, "c.yaml", text))
    assert caught.value.code == code


@pytest.mark.parametrize("end", ["source", "sink"])
def test_a_pipeline_without_source_or_sink_is_refused(tmp_path, end):
    text = PLUGIN_ROLES.replace(f"{end}: ", "name: x #")
    with pytest.raises(ConfigError) as caught:
        read_pipeline(write(tmp_path, "p.yaml", text))
    assert (caught.value.code, caught.value.diagnostic.config_path) == ("pipeline.end_missing", end)


@pytest.mark.parametrize("key", ["transform", "soruce.connector.class", "snik.file"])
def test_a_misspelt_key_of_a_pipeline_names_the_nearest(tmp_path, key):
    meant = {"t": "transforms", "so": "source", "sn": "sink"}
    with pytest.raises(ConfigError) as caught:
        read_pipeline(write(tmp_path, "p.yaml", f"{PLUGIN_ROLES}{key}: x\n"))
    (near,) = (name for start, name in meant.items() if key.startswith(start))
    assert near in caught.value.diagnostic.fix


def test_a_file_of_a_worker_is_not_a_connector(tmp_path):
    text = "bootstrap.servers=x\nkey.converter=y\nconfig.providers=file\nstate.dir=/x\n"
    assert not is_connector(read_document(write(tmp_path, "w.properties", text)))
    assert is_connector({"connector.class": "x"})


def test_all_errors_of_a_pipeline_are_reported_at_once(tmp_path):
    text = "surce: {connector.class: a}\nstat: x\n"
    with pytest.raises(ConfigError) as caught:
        read_pipeline(write(tmp_path, "p.yaml", text))
    found = [one.diagnostic for one in split_errors(caught.value)]
    assert [one.config_path for one in found] == ["surce", "stat", "sink"]
    assert all("p.yaml" in one.message for one in found)


def test_every_key_without_a_role_is_named():
    with pytest.raises(ConfigError) as caught:
        split_config({"fille": "x", "source.a": "1", "formt": "y"}, ConnectorKind.PIPELINE)
    found = [one.diagnostic.config_path for one in split_errors(caught.value)]
    assert found == ["fille", "formt"]


# ── environment variables ────────────────────────────────────────────────────────────────────────

PIPELINE = """
source:
  connector.class: jdbc-source
  connection.url: jdbc:mysql://${DB_HOST:-localhost}/shop
  connection.password: ${DB_PW}
  file: $${NOT_ME}/${FOLDER}
  text: ${topic} ${table}
sink: {connector.class: log-sink}
"""


def test_variables_of_the_environment_become_text_and_those_of_secrets_references(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("FOLDER", "/data/in")
    monkeypatch.delenv("DB_HOST", raising=False)
    file = tmp_path / "p.yaml"
    file.write_text(PIPELINE)
    config = read_pipeline(file).config
    assert config["source.connection.url"] == "jdbc:mysql://localhost/shop"
    assert config["source.connection.password"] == "${env:DB_PW}"
    assert config["source.file"] == "${NOT_ME}//data/in"
    assert config["source.text"] == "${topic} ${table}"
    monkeypatch.setenv("DB_HOST", "db.example")
    assert read_pipeline(file).config["source.connection.url"] == "jdbc:mysql://db.example/shop"


@pytest.mark.parametrize(
    ("key", "is_secret"),
    [
        ("sink.producer.override.sasl.jaas.config", True),
        ("source.api_key", True),
        ("source.key.converter", False),
        ("source.file", False),
    ],
)
def test_secrets_are_those_that_are_masked_everywhere(key, is_secret):
    filled = fill_variables({key: "a ${PW} b"}, {"PW": "x"})
    assert filled[key] == ("a ${env:PW} b" if is_secret else "a x b")


def test_tests_of_a_pipeline_need_no_variables_of_its_ends():
    assert fill_variables({"source.file": "${NO}"}, {}, keep_unset=True) == {"source.file": "${NO}"}


def test_a_variable_that_is_not_set_is_named_with_its_key_and_file(tmp_path, monkeypatch):
    monkeypatch.delenv("FOLDER", raising=False)
    file = tmp_path / "p.yaml"
    file.write_text(PIPELINE)
    with pytest.raises(ConfigError) as caught:
        read_pipeline(file)
    found = caught.value.diagnostic
    assert (found.code, found.config_path) == ("pipeline.no_variable", "source.file")
    assert found.message.startswith(f"{file}: ")
    assert "export FOLDER=" in found.fix


def test_configurations_of_kafka_connect_keep_their_text(tmp_path):
    file = tmp_path / "c.json"
    file.write_text('{"name": "c", "config": {"connector.class": "x", "topic": "${NOT_SET}"}}')
    assert read_connector(file).config["topic"] == "${NOT_SET}"
