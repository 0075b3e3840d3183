"""What a user asks about connectors and verbs without a page at hand."""

import json

import pytest
import yaml

from penstock.cli.__main__ import main
from penstock.cli.plugin_keys import example
from penstock.model.config_def import KeyDefinition
from penstock.plugin.catalog.manifest import Kind
from penstock.plugin.responses import ConnectorSpec


def test_a_connector_is_shown_with_its_keys_and_an_example(capsys):
    assert main(["plugins", "FileStreamSinkConnector"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("file-sink: ")
    assert "connector.class: file-sink" in shown
    assert "csv.delimiter" in shown


def test_the_keys_come_as_json_too(capsys):
    assert main(["plugins", "file-source", "-o", "json"]) == 0
    keys = {key["name"]: key for key in json.loads(capsys.readouterr().out)}
    assert keys["tail"]["default"] == "true"


def test_a_connector_that_is_not_there_is_answered_with_the_nearest(capsys):
    assert main(["plugins", "file-sorce"]) == 2
    assert "Did you mean file-source" in capsys.readouterr().err


def test_the_example_has_what_must_be_filled_in_and_no_secret():
    keys = (
        KeyDefinition("host", required=True, documentation="The server."),
        KeyDefinition("password", sensitive=True, importance="high", documentation="Its password."),
        KeyDefinition("port", "int", "5432", importance="high", documentation="Its port."),
        KeyDefinition("size", "int", "7", documentation="Rows of a chunk."),
    )
    text = example(ConnectorSpec("db-source", Kind.SOURCE, keys=keys), "source")
    assert yaml.safe_load(text) == {
        "source": {
            "connector.class": "db-source",
            "host": None,
            "password": "${PASSWORD}",
            "port": 5432,
        }
    }
    assert "# The server." in text


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["runn", "p.yaml"], "run"),
        (["conector", "list"], "connector"),
        (["plugin", "tset"], "test"),
    ],
)
def test_a_misspelt_verb_is_answered_with_the_nearest(capsys, words, near):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert f"Did you mean {near}" in capsys.readouterr().err


def test_a_verb_like_no_other_is_answered_with_all(capsys):
    with pytest.raises(SystemExit):
        main(["xyzzy"])
    assert "quickstart" in capsys.readouterr().err


def test_a_new_pipeline_passes_its_check_when_it_is_filled_in(tmp_path, capsys):
    file = tmp_path / "Orders 2.yaml"
    assert main(["init", str(file), "--source", "mysql-cdc", "--sink", "jdbc-sink"]) == 0
    text = file.read_text()
    assert text.startswith("name: orders-2\n")
    assert "${DATABASE_PASSWORD}" in text
    assert main(["check", str(file)]) == 2, "blanks are no values"
    blanks = {
        "database.hostname:": "database.hostname: db.example",
        "connection.url:": "connection.url: jdbc:postgresql://db.example/shop",
    }
    for blank, filled in blanks.items():
        text = text.replace(blank, filled)
    file.write_text(text.replace("${DATABASE_PASSWORD}", "${DATABASE_PASSWORD:-x}"))
    capsys.readouterr()
    assert main(["check", str(file)]) == 0, capsys.readouterr().err


def test_a_file_that_is_there_is_kept_and_ends_are_not_mixed_up(tmp_path, capsys):
    file = tmp_path / "p.yaml"
    file.write_text("mine")
    assert main(["init", str(file)]) == 2
    assert file.read_text() == "mine"
    assert main(["init", str(tmp_path / "q.yaml"), "--source", "file-sink"]) == 2
    assert "wants a source" in capsys.readouterr().err
