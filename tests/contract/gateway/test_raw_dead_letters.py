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
    code, out, err = run("export", name)
    assert (code, sorted(out.splitlines(keepends=True))) == (
        0,
        sorted([*(line.encode() for line in BAD.values()), NOT_UTF8]),
    )
    assert "4 written" in err
    assert run("export", name, "--code", "file.invalid_utf8")[1] == NOT_UTF8
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
    assert BAD[2].encode() not in run("export", name)[1], "what was replayed is not exported"


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
