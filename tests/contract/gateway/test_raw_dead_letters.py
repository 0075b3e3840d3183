"""Lines that the source could not read: exported as they were, corrected, and replayed once."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from penstock.cli.__main__ import main
from penstock_kit.testing import wait_until
from support.gateway import READY

LINES = ["id,name,joined\n", *(f"{n},P{n},2024-01-{n + 1:02}\n" for n in range(6))]
BAD = {2: "2,P2,2024-02-30\n", 4: '4,"P4, jr.",soon\n', 5: "5,P5\n"}
NOT_UTF8 = b"6,\xff\xfe,2024-01-07\n"


@pytest.fixture
def run(gateway, capfdbinary):
    """Run a command; returns its exit code, and what it printed, as bytes."""

    def call(*words: str):
        code = main(["dlq", *words, "--server", f"http://{gateway.address}"])
        out, err = capfdbinary.readouterr()
        return code, out, err.decode()

    return call


@pytest.fixture
def people(gateway, made, tmp_path, request):
    """A connector that read a file whose last lines are broken; returns its name, and the folder
    with its rows.
    """
    lines = [BAD.get(n - 1, line).encode() for n, line in enumerate(LINES)]
    (tmp_path / "people.csv").write_bytes(b"".join(lines) + NOT_UTF8)
    name = request.node.name.replace("[", "-").replace("]", "")
    config = {
        "source.connector.class": "file-source",
        "source.file": str(tmp_path / "people.csv"),
        "source.format": "csv",
        "source.types": "joined:date",
        "source.invalid.rows": "dead-letter",
        "source.invalid.utf8": "dead-letter",
        "sink.connector.class": "file-sink",
        "sink.path": str(tmp_path / "out"),
        "sink.format": "csv",
        "transforms": "tag",
        "transforms.tag.type": "InsertField$Value",
        "transforms.tag.static.field": "via",
        "transforms.tag.static.value": "chain",
        "errors.tolerance": "all",
    }
    made(name, "RUNNING", **config)
    wait_until(lambda: sum(ids(tmp_path / "out").values()) == 3, READY, "the good rows")
    wait_until(lambda: len(listed(gateway, name)) == 4, READY, "the dead letters")
    yield name, tmp_path / "out"
    gateway.delete(f"/connectors/{name}.replay")


def listed(gateway, name):
    lines = gateway.get(f"/v1/connectors/{name}/letters").text.splitlines()
    return lines[1:]


def rows(folder: Path):
    files = sorted(folder.glob("**/*.csv")) if folder.exists() else []
    return [row for file in files for row in csv.DictReader(file.read_text().splitlines())]


def ids(folder: Path):
    return Counter(int(row["id"]) for row in rows(folder))


def test_lines_are_exported_as_they_were(run, people):
    name, _ = people
    code, out, err = run("export", name, "--bytes")
    assert (code, sorted(out.splitlines(keepends=True))) == (
        0,
        sorted([*(line.encode() for line in BAD.values()), NOT_UTF8]),
    )
    assert "4 written" in err
    assert run("export", name, "--bytes", "--code", "file.invalid_utf8")[1] == NOT_UTF8
    _, out, _ = run("list", name, "-o", "json")
    found = {one["raw"] or one["raw_base64"] for one in json.loads(out)["letters"]}
    assert found == {*BAD.values(), "Niz//iwyMDI0LTAxLTA3Cg=="}


def id_of(run, name, text):
    """Return the id of the dead letter with a text."""
    _, out, _ = run("list", name, "-o", "json")
    (found,) = [one for one in json.loads(out)["letters"] if text in (one["raw"] or "")]
    return found["id"]


def test_a_corrected_line_goes_through_the_chain_once(run, people):
    name, out = people
    third = id_of(run, name, "2024-02-30")
    code, _, err = run("replay", name, third)
    assert code == 1
    assert "[file.invalid_csv]" in err
    assert "'joined' is no date32[day]" in err
    assert f"penstock dlq replay {name} {third} --set" in err
    assert run("replay", name, third, "--set", "joined=2024-02-31")[0] == 1
    code, said, _ = run("replay", name, third, "--set", "joined=2024-02-29", "--dry-run")
    assert code == 0
    assert b'"joined":"2024-02-29"' in said
    assert ids(out)[2] == 0
    code, said, err = run("replay", name, third, "--set", "joined=2024-02-29")
    assert (code, err) == (0, "")
    assert b"COMPLETED" in said
    (row,) = [row for row in rows(out) if row["id"] == "2"]
    assert row == {"id": "2", "name": "P2", "joined": "2024-02-29", "via": "chain"}
    assert run("replay", name, third, "--set", "joined=2024-02-29")[0] == 0
    assert ids(out)[2] == 1, "it is replayed once"
    assert BAD[2].encode() not in run("export", name, "--bytes")[1], (
        "what was replayed is not exported"
    )


def test_whole_lines_take_the_place_of_what_could_not_be_read(run, people, tmp_path, monkeypatch):
    name, out = people
    fifth, sixth = id_of(run, name, "soon"), id_of(run, name, "5,P5")
    assert run("replay", name, fifth, "--raw", '4,"P4, jr.",2024-05-05')[0] == 0
    file = tmp_path / "one.csv"
    file.write_text("5,P5,2024-06-06\n7,P7,2024-06-06\n")
    code, _, err = run("replay", name, sixth, "--raw-file", str(file))
    assert code == 1
    assert "[file.not_one_row]" in err
    assert run("replay", name, "0/0-1", "--raw", "x")[0] == 2
    script = tmp_path / "editor.sh"
    script.write_text("sed -i 's/5,P5$/5,P5,2024-06-06/' $1")
    monkeypatch.setenv("VISUAL", f"sh {script}")
    code, _, err = run("replay", name, sixth, "--edit")
    assert (code, err) == (0, "")
    assert ids(out) == Counter(n for n in range(6) if n != 2)
    assert {row["name"] for row in rows(out) if row["id"] in "45"} == {"P4, jr.", "P5"}


def test_what_still_is_no_row_is_told_and_the_others_go_on(run, people):
    name, out = people
    code, _, err = run("replay", name, "--all", "--set", "joined=2024-07-07")
    assert code == 1, "one of them is not text"
    assert err.count("not replayed") == 1
    assert ids(out) == Counter(range(6))
    assert {row["joined"] for row in rows(out) if row["id"] in "245"} == {"2024-07-07"}


def exported(run, name, folder: Path):
    """Export into a file; returns it, its first line, and its other lines in the order of rows."""
    _, out, _ = run("export", name)
    file = folder / "letters.jsonl"
    file.write_bytes(out)
    header, *lines = map(json.loads, out.splitlines())
    return file, header, sorted(lines, key=lambda line: line.get("raw", "6"))


def write(file: Path, *lines) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_an_exported_file_says_what_it_is_and_is_replayed_as_it_is(run, people, tmp_path):
    name, out = people
    file, header, lines = exported(run, name, tmp_path)
    assert header.pop("exported_at")
    assert header.pop("correct")
    assert header == {
        "penstock_letters": 1, "connector": name, "pipeline": "file-source → file-sink",
        "count": 4, "replay": f"penstock dlq replay {name} --edits FILE",
    }  # fmt: skip
    assert [line.get("raw") for line in lines] == [*BAD.values(), None]
    assert {line["code"] for line in lines} == {"file.invalid_csv", "file.invalid_utf8"}
    code, _, err = run("replay", name, "--edits", str(file))
    assert (code, err.count("not replayed")) == (1, 4), "none of them is a row as it is"
    assert ids(out) == Counter((0, 1, 3))


def test_a_corrected_file_is_replayed_once(run, people, tmp_path):
    name, out = people
    file, header, (second, fourth, fifth, no_text) = exported(run, name, tmp_path)
    second["set"] = {"joined": "2024-02-29"}
    fourth["raw"] = '4,"P4, jr.",2024-05-05\n'
    no_text["raw"] = "6,P6,2024-01-07"
    write(file, header, second, fourth, no_text)  # the fifth was deleted from the file
    code, _, err = run("replay", name, "--edits", str(file))
    assert (code, err.splitlines()) == (
        0, [f"3 of the 4 dead letters that were exported are in {file}"],
    )  # fmt: skip
    assert ids(out) == Counter((0, 1, 2, 3, 4, 6))
    assert {row["joined"] for row in rows(out) if row["id"] in "246"} == {
        "2024-02-29", "2024-05-05", "2024-01-07",
    }  # fmt: skip
    assert run("replay", name, "--edits", str(file))[0] == 0
    assert ids(out)[4] == 1, "it is replayed once"
    (left,) = exported(run, name, tmp_path)[2]
    assert left["id"] == fifth["id"]


def test_the_file_of_another_connector_is_refused_by_name(run, people, tmp_path):
    name, _ = people
    file, header, lines = exported(run, name, tmp_path)
    write(file, header | {"connector": "it's another"}, *lines)
    code, _, err = run("replay", name, "--edits", str(file))
    assert (code, "letters.other_connector" in err) == (2, True)
    assert f"""penstock dlq replay 'it'"'"'s another' --edits {file}""" in err


def test_what_a_file_cannot_change_is_refused_by_name(run, people, tmp_path):
    name, out = people
    file, header, (line, _, _, no_text) = exported(run, name, tmp_path)
    for changed, code, named in (
        ({"failed_at": "2020-01-01T00:00:00+00:00"}, "letters.other_letter", "is another one now"),
        ({"partition": "{}"}, "letters.bad_edit", "`partition`"),
        ({"columns": 1}, "letters.bad_edit", "`columns`"),
        ({"id": "0/1-2"}, "letters.bad_edit", "`id`"),
        ({"id": "0/99"}, "letters.not_found", "0/99"),
        ({"raw": 1}, "letters.bad_edit", "`raw`"),
        ({"raw_json": {}}, "letters.bad_edit", "`raw_json`"),
        ({"set": 1}, "letters.bad_edit", "`set`"),
        ({"raw": "x", "set": {"id": 1}}, "letters.bad_edit", "write one of them"),
        (no_text | {"raw_base64": "QQ=="}, "letters.bad_edit", "`raw_base64`"),
    ):
        write(file, header, line | changed)
        status, _, err = run("replay", name, "--edits", str(file))
        assert (status, code in err, named in err) == (2, True, True), err
    write(file, header, line, line)
    assert "once more" in run("replay", name, "--edits", str(file))[2]
    write(file, header)
    assert "letters.none_chosen" in run("replay", name, "--edits", str(file))[2]
    file.write_text(json.dumps(header) + "\n" + json.dumps(line)[:-9])
    assert "line 2" in run("replay", name, "--edits", str(file))[2]
    write(file, header | {"penstock_letters": 2}, line)
    assert "version 1" in run("replay", name, "--edits", str(file))[2]
    assert sum(ids(out).values()) == 3
