"""What a person changes of the rows of dead letters."""

import json
import sys
import tempfile

import pytest

from penstock.cli.dlq_edits import changed_columns, edit_rows, parse_assignments, read_edits
from penstock.model.errors import ConfigError


def test_a_value_is_what_was_typed_or_a_text_in_quotes_or_none():
    pairs = ["a=1.10", 'b="1"', "c=x=y", "d=null", "e=", 'f={"g": [1]}', 'h="null"', "i=true"]
    found = {
        "a": "1.10", "b": "1", "c": "x=y", "d": None, "e": "", "f": '{"g": [1]}', "h": "null",
        "i": "true",
    }  # fmt: skip
    assert parse_assignments(pairs) == found


@pytest.mark.parametrize("pair", ["a", "=1"])
def test_what_is_no_pair_is_refused(pair):
    with pytest.raises(ConfigError, match=r"letters\.bad_edit"):
        parse_assignments([pair])


def test_only_what_differs_is_a_change():
    assert changed_columns({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 4, "d": 5}) == {
        "b": 4, "d": 5, "c": None,
    }  # fmt: skip


def test_a_file_has_changes_by_letter(tmp_path):
    file = tmp_path / "edits.yaml"
    file.write_text("0/17: {amount: 12}\n")
    assert read_edits(file) == {"0/17": {"amount": 12}}
    file.write_text("0/17: '3,Ada,12'\n")
    assert read_edits(file) == {"0/17": "3,Ada,12"}
    file.write_text("0/17: 12\n")
    with pytest.raises(ConfigError, match=r"letters\.bad_edit"):
        read_edits(file)


def test_values_of_a_file_are_jsons(tmp_path):
    file = tmp_path / "edits.yaml"
    file.write_text("0/17: {day: 2024-02-30, at: 12:30:00, no: no, n: 1, gone: null}\n")
    found = read_edits(file)
    assert found == {"0/17": {"day": "2024-02-30", "at": "12:30:00", "no": "no", "n": 1,
                              "gone": None}}  # fmt: skip
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e400", "[" * 100_000])
def test_what_is_no_json_is_text(value):
    assert parse_assignments([f"a={value}"]) == {"a": value}


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
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def edited(rows):
    with edit_rows(rows) as edits:
        return edits


def kept(tmp_path):
    return [file.read_text() for file in tmp_path.rglob("letters.yaml")]


ROWS = {"0/3": {"id": 3, "value": "x"}, "0/7": {"id": 7, "value": "y"}}


def test_an_editor_changes_rows_and_takes_letters_out(tmp_path, monkeypatch):
    left = json.dumps({"0/7": {"id": 7, "value": "8"}})
    editor(tmp_path, monkeypatch, f"assert 'value: x' in text\ntext = {left!r}")
    assert edited(ROWS) == {"0/7": {"value": "8"}}
    editor(tmp_path, monkeypatch, "")
    assert edited(ROWS) == {"0/3": {}, "0/7": {}}
    assert not kept(tmp_path), "it is not needed any more"


def test_rows_come_out_of_an_editor_as_they_went_in(tmp_path, monkeypatch):
    texts = ("1e3", "1.10", "2024-02-30", "12:30", "no", "true", "~", "", "<<", "0x1", "- a\n b ")
    row = {f"c{n}": text for n, text in enumerate(texts)}
    row |= {"n": 1e20, "m": 10**30, "z": None, "b": False, "deep": [{"a": "1"}]}
    editor(tmp_path, monkeypatch, "text = text.replace('12:30', '12:31')")
    assert edited({"0/3": row}) == {"0/3": {"c3": "12:31"}}


def test_a_row_that_could_not_be_read_is_its_text_in_the_editor(tmp_path, monkeypatch):
    rows = {"0/3": "3,Ada,2024-02-30\n", "0/7": {"id": 7}, "0/8": "8,x\n"}
    editor(tmp_path, monkeypatch, "text = text.replace('02-30', '02-29')")
    assert edited(rows) == {"0/3": "3,Ada,2024-02-29\n", "0/7": {}, "0/8": {}}


@pytest.mark.parametrize("left", ["", "# only this\n\n", "{}"])
def test_an_empty_file_replays_nothing(tmp_path, monkeypatch, left):
    editor(tmp_path, monkeypatch, f"text = {left!r}")
    assert edited(ROWS) == {}


@pytest.mark.parametrize("program", ["sys.exit(1)", "text = '- 1'", "text += 'mine: ['"])
def test_an_editor_that_fails_replays_nothing_and_what_was_edited_is_kept(
    tmp_path, monkeypatch, capsys, program
):
    editor(tmp_path, monkeypatch, program)
    with pytest.raises(ConfigError):
        edited(ROWS)
    (text,) = kept(tmp_path)
    assert text
    assert "letters.yaml" in capsys.readouterr().err


def test_what_was_edited_is_kept_when_it_is_refused(tmp_path, monkeypatch):
    editor(tmp_path, monkeypatch, "text = text.replace('value: x', 'value: mine')")
    with pytest.raises(ConfigError, match="refused"), edit_rows(ROWS):
        raise ConfigError("letters.bad_edit", "refused")
    assert "value: mine" in kept(tmp_path)[0]
