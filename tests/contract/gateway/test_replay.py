"""`penstock dlq`: dead letters are looked at, corrected, and replayed, each once."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from penstock.cli.__main__ import main
from penstock_kit.testing import wait_until
from support.gateway import READY

BAD = (3, 7)


def lines_of(folder: Path):
    """The rows of a folder of files, as they come."""
    files = sorted(folder.glob("**/*.jsonl")) if folder.exists() else []
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def ids(folder: Path):
    return Counter(row["id"] for row in lines_of(folder))


@pytest.fixture
def dlq(gateway, capsys):
    """Run a command; returns its exit code and what it printed, read where it is JSON."""

    def run(*words: str, output: str = "json"):
        code = main(["dlq", *words, "--server", f"http://{gateway.address}", "-o", output])
        said = capsys.readouterr()
        if output != "json" or code == 2:
            return code, said.out + said.err
        return code, json.loads(said.out)

    return run


@pytest.fixture
def dead(gateway, made, tmp_path, request):
    """A connector with ten rows in a folder of files, two of which became dead letters; returns
    its name and the folder.
    """
    lines = [{"id": n, "value": "x" if n in BAD else str(n)} for n in range(10)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = tmp_path / "out"
    name = request.node.name.replace("[", "-").replace("]", "")
    config = {
        "source.connector.class": "file-source",
        "source.file": str(tmp_path / "in.jsonl"),
        "source.format": "jsonl",
        "source.invalid.rows": "dead-letter",
        "sink.connector.class": "file-sink",
        "sink.path": str(out),
        "sink.format": "jsonl",
        "transforms": "cast",
        "transforms.cast.type": "Cast",
        "transforms.cast.spec": "value:int32",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"dead-{name}",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    made(name, "RUNNING", **config)
    wait_until(lambda: sum(ids(out).values()) == 8, READY, "the good rows")
    yield name, out
    gateway.delete(f"/connectors/{name}.replay")


def test_letters_are_counted_listed_and_shown(dlq, dead):
    name, _ = dead
    code, listed = dlq("list", name)
    assert code == 0
    (count,) = listed["counts"]
    assert (count["stage"], count["letters"], count["replayed"]) == ("transform", 2, 0)
    assert [one["id"] for one in listed["letters"]] == ["0/1", "0/0"], "the newest first"
    assert not any(one["replayed"] for one in listed["letters"])
    assert dlq("list", name, "--stage", "write")[1]["letters"] == []
    assert len(dlq("list", name, "--code", count["code"], "--limit", "1")[1]["letters"]) == 1
    assert dlq("list", name, "--since", "2999-01-01T00:00:00Z")[1]["counts"] == []
    _, one = dlq("show", name, "0/1")
    assert one["row"] == {"id": 7, "value": "x"}
    assert (one["config_path"], one["code"]) == ("transforms.cast", count["code"])
    assert one["headers"]["__connect.errors.stage"] == "TRANSFORMATION"
    assert one["epoch"] >= 1
    assert one["attempt"] >= 0
    assert one["offset"] == listed["letters"][0]["offset"]
    assert "transforms.cast" in dlq("show", name, "0/1", output="table")[1]
    table = dlq("list", name, output="table")[1]
    assert "0/1" in table
    assert one["offset"] in table
    assert "letters.not_found" in dlq("show", name, "0/99")[1]


def test_rows_are_changed_in_an_editor(dlq, dead, tmp_path, monkeypatch):
    name, _ = dead

    def edit(program: str, *words: str, which: str = "--all"):
        script = tmp_path / "editor.sh"
        script.write_text(program)
        monkeypatch.setenv("VISUAL", f"sh {script}")
        return dlq("replay", name, which, "--edit", *words)

    _, would = edit("sed -i 's/value: x/value: 2024-02-30/' $1", "--dry-run")
    assert {one["row"]["value"] for one in would["rows"]} == {"2024-02-30"}
    _, would = edit("sed -i '/0.0:/,/value/d' $1", "--dry-run")
    assert [one["id"] for one in would["rows"]] == ["0/1"]
    assert edit(": > $1") == (0, {"connector": name, "count": 0})
    assert edit("exit 1", which="--stage=write")[0] == 0, "no letter, no editor"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code, said = edit("echo 'mine: [' >> $1")
    (kept,) = tmp_path.rglob("letters.yaml")
    assert code == 2
    assert "mine: [" in kept.read_text()
    assert str(kept) in said
    assert not any(one["replayed"] for one in dlq("list", name)[1]["letters"])


def test_a_corrected_letter_is_replayed_once_and_one_that_fails_again_names_it(
    gateway, dlq, dead, capsys
):
    name, out = dead
    code, would = dlq("replay", name, "--all", "--set", 'value="12"', "--dry-run")
    assert (code, would["letters"], would["count"]) == (0, "0/0-1", 2)
    assert would["rows"][1] == {"id": "0/1", "row": {"id": 7, "value": "12"}, "raw": None}
    code, told = dlq("replay", name, "0/1", "--set", 'value="12"')
    assert (code, told["state"], told["replayed"]) == (0, "COMPLETED", 1)
    assert ids(out) == Counter([n for n in range(10) if n != 3])
    assert {"id": 7, "value": 12} in lines_of(out)
    main(["connector", "list", "--server", f"http://{gateway.address}", "-o", "json"])
    states = {
        one["name"]: (one["state"], one["tasks"]) for one in json.loads(capsys.readouterr().out)
    }
    assert states[f"{name}.replay"] == ("COMPLETED", "1 COMPLETED")
    assert (
        main(["connector", "status", f"{name}.replay", "--server", f"http://{gateway.address}"])
        == 0
    )
    assert "COMPLETED" in capsys.readouterr().out
    kafkas = gateway.get(f"/connectors/{name}.replay/status").json()
    assert kafkas["connector"]["state"] == "RUNNING", "which Kafka Connect's tools know"
    again = dlq("replay", name, "0/1", "--set", 'value="13"')[1]
    assert (again["count"], again["replayed_before"]) == (0, "0/1")
    code, failed = dlq("replay", name, "--all")
    assert (code, failed["count"], failed["failed_again"]) == (1, 1, 1)
    assert ids(out) == Counter([n for n in range(10) if n != 3])
    _, third = dlq("show", name, "0/2")
    assert json.loads(third["partition"]) == {
        "letter": 0,
        "partition": 0,
        "topic": f"dead-{name}",
    }
    assert third["row"] == {"id": 3, "value": "x"}
    assert [one["replayed"] for one in dlq("list", name)[1]["letters"]] == [False, True, True]
    code, _ = dlq("replay", name, "--code", third["code"], "--set", 'value="3"')
    assert code == 0
    assert ids(out) == Counter(range(10)), "each row once, in the end"
