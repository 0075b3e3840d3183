"""What a person changes of the rows of dead letters."""

import json
import sys

import pytest

from penstock.cli.remote.edits import assigned, difference, edited, from_file
from penstock.model.errors import ConfigError


def test_values_are_json_or_text():
    pairs = ["a=1", 'b="1"', "c=x=y", "d=null", "e=", 'f={"g": [1]}']
    found = {"a": 1, "b": "1", "c": "x=y", "d": None, "e": "", "f": {"g": [1]}}
    assert assigned(pairs) == found


@pytest.mark.parametrize("pair", ["a", "=1"])
def test_what_is_no_pair_is_refused(pair):
    with pytest.raises(ConfigError, match=r"letters\.bad_edit"):
        assigned([pair])


def test_only_what_differs_is_a_change():
    assert difference({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 4, "d": 5}) == {
        "b": 4, "d": 5, "c": None,
    }  # fmt: skip


def test_a_file_has_changes_by_letter(tmp_path):
    file = tmp_path / "edits.yaml"
    file.write_text("0/17: {amount: 12}\n")
    assert from_file(file) == {"0/17": {"amount": 12}}
    file.write_text("0/17: 12\n")
    with pytest.raises(ConfigError, match=r"letters\.bad_edit"):
        from_file(file)


def editor(tmp_path, monkeypatch, program):
    """Name a program as the editor; it gets the file as `text`, and what it leaves is written."""
    script = tmp_path / "editor.py"
    script.write_text(
        "import pathlib, sys\n"
        "file = pathlib.Path(sys.argv[1])\n"
        f"text = file.read_text()\n{program}\nfile.write_text(text)\n"
    )
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")


ROWS = {"0/3": {"id": 3, "value": "x"}, "0/7": {"id": 7, "value": "y"}}


def test_an_editor_changes_rows_and_takes_letters_out(tmp_path, monkeypatch):
    left = json.dumps({"0/7": {"id": 7, "value": "8"}})
    editor(tmp_path, monkeypatch, f"assert 'value: x' in text\ntext = {left!r}")
    assert edited(ROWS) == {"0/7": {"value": "8"}}
    editor(tmp_path, monkeypatch, "")
    assert edited(ROWS) == {"0/3": {}, "0/7": {}}


@pytest.mark.parametrize("program", ["sys.exit(1)", "text = '- 1'"])
def test_an_editor_that_fails_replays_nothing(tmp_path, monkeypatch, program):
    editor(tmp_path, monkeypatch, program)
    with pytest.raises(ConfigError):
        edited(ROWS)
