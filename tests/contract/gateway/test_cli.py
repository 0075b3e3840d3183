"""`penstock connector`, `plan`, `apply`, `inspect`, `top`: the command line over the gateway."""

from __future__ import annotations

import json
import logging
import re

import pytest

from penstock.cli import apply
from penstock.cli.__main__ import main
from penstock_kit.testing import wait_until
from support.checkout import ROOT

README = ROOT / "README.md"
SOURCE = "connector.class: verifiable-source\nrows: 10\ntopic: rows\n"


@pytest.fixture
def penstock(gateway, capsys):
    """Run a command; returns its exit code and what it printed, read where it is JSON."""

    def run(*words: str, output: str = "json"):
        code = main([*words, "--server", f"http://{gateway.address}", "-o", output])
        said = capsys.readouterr()
        if output != "json" or code == 2 or not said.out.strip():
            return code, said.out + said.err
        return code, json.loads(said.out)

    return run


def test_a_connector_lives_its_life(penstock, tmp_path):
    file = tmp_path / "numbers.yaml"
    file.write_text(SOURCE)
    assert penstock("connector", "check", str(file))[0] == 0
    code, made = penstock("connector", "create", str(file), "--target-state", "STOPPED")
    assert (code, made["name"]) == (0, "numbers")
    assert penstock("connector", "create", str(file))[0] == 2, "it exists"
    _, listed = penstock("connector", "list")
    assert any(one["name"] == "numbers" and one["state"] == "STOPPED" for one in listed)
    assert penstock("connector", "set", "numbers", "rows=20", "topic=")[0] == 0
    _, found = penstock("connector", "get", "numbers")
    assert (found["config"]["rows"], "topic" in found["config"]) == ("20", False)
    _, differences = penstock("connector", "diff", "numbers", "1")
    assert {one["key"] for one in differences["differences"]} == {"rows", "topic"}
    assert penstock("connector", "rollback", "numbers", "1")[1]["config"]["rows"] == "10"
    assert len(penstock("connector", "revisions", "numbers")[1]["revisions"]) == 3
    for verb in ("pause", "resume", "restart", "stop"):
        assert penstock("connector", verb, "numbers")[0] == 0
    assert penstock("connector", "status", "numbers")[0] == 0
    assert penstock("offsets", "get", "numbers")[0] == 0
    assert penstock("connector", "topics", "numbers")[0] == 0
    assert penstock("connector", "delete", "numbers")[0] == 0
    code, said = penstock("connector", "get", "numbers")
    assert code == 2
    assert "error: [config.not_found]" in said
    assert "fix:" in said


def test_a_connector_is_deleted_with_its_offsets_when_it_is_stopped(penstock, made):
    made("goes", "PAUSED")
    code, said = penstock("connector", "delete", "goes", "--offsets")
    assert code == 2
    assert "[offset.not_stopped]" in said
    assert penstock("connector", "stop", "goes")[0] == 0
    assert penstock("connector", "delete", "goes", "--offsets")[0] == 0
    assert penstock("connector", "get", "goes")[0] == 2


def test_offsets_of_a_deleted_connector_are_kept_listed_and_purged(penstock, made):
    made("rests")
    assert penstock("connector", "delete", "rests", "--keep-offsets")[0] == 0
    code, kept = penstock("offsets", "kept")
    assert (code, [one["name"] for one in kept if one["name"] == "rests"]) == (0, ["rests"])
    code, said = penstock("offsets", "purge", "rest")
    assert (code, "[config.nothing_kept]" in said, "rests" in said) == (2, True, True)
    assert penstock("offsets", "purge", "rests")[0] == 0
    assert "rests" not in penstock("offsets", "kept", output="table")[1]


def test_tables_and_yaml(penstock, made):
    name = made("of a table").rpartition("/")[2]
    code, said = penstock("connector", "list", output="table")
    assert (code, "of a table" in said, "state" in said) == (0, True, True)
    assert "name: of a table" in penstock("connector", "get", "of a table", output="yaml")[1]
    assert name


def test_what_is_wrong_is_said_with_its_place(penstock, tmp_path):
    file = tmp_path / "wrong.yaml"
    file.write_text(SOURCE.replace("rows:", "rowz:"))
    code, said = penstock("connector", "create", str(file), output="table")
    assert code == 2
    assert "error: [config.unknown_key]" in said
    assert "  at:  rowz" in said
    assert "  fix: " in said
    code, said = penstock("connector", "check", str(file))
    assert code == 2
    (found,) = json.loads(said)["findings"]
    assert (found["config_path"], bool(found["fix"])) == ("rowz", True)


def test_a_check_shows_what_rows_of_the_source_become(penstock, tmp_path):
    file = tmp_path / "numbers.yaml"
    (tmp_path / "in.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(9)))
    file.write_text(
        f"connector.class: file-source\nfile: {tmp_path}/in.jsonl\nformat: jsonl\ntopic: rows\n"
        "transforms: more\ntransforms.more.type: Project\n"
        "transforms.more.columns: n * 2 AS twice\n"
    )
    code, found = penstock("connector", "check", str(file), "--rows", "3")
    assert code == 0, found
    assert (found["dataset"], len(found["rows"])) == ("rows", 3)
    assert found["rows"][2] == {"twice": 4}
    assert "twice" in penstock("connector", "check", str(file), "--rows", "3", output="table")[1]


def test_a_check_says_which_rows_it_left_out(penstock, tmp_path):
    file = tmp_path / "people.yaml"
    people = ["id,joined", "1,soon", "2", "x,y,z", "4,2024-01-04", "5,2024-01-05", "6,2024-01-06"]
    (tmp_path / "in.csv").write_text("\n".join(people) + "\n")
    file.write_text(
        f"connector.class: file-source\nfile: {tmp_path}/in.csv\nformat: csv\ntopic: rows\n"
        "tail: false\ntypes: joined:date,id:string\ninvalid.rows: dead-letter\n"
        "errors.tolerance: all\n"
        "transforms: odd\ntransforms.odd.type: Cast\ntransforms.odd.spec: id:int8\n"
    )
    words = ("connector", "check", str(file), "--rows", "3")
    code, said = penstock(*words, output="table")
    assert code == 0, said
    assert "left out: 3 rows that the source could not read" in said
    assert "in.csv, line 2" in said
    (tmp_path / "in.csv").write_text("\n".join(people[:4]) + "\n")
    code, said = penstock(*words, output="table")
    assert code == 2
    assert "[rehearsal.no_good_rows]" in said
    assert "none of the first 3 rows" in said
    (tmp_path / "in.csv").write_text("id,joined\n7,2024-01-07\nseven,2024-01-07\n")
    code, said = penstock(*words, output="table")
    assert "left out: 1 row that a transform rejected" in said
    assert "row 2: [transform.cast_failed]" in said


def test_a_check_shows_the_rows_that_there_are_of_a_source_that_waits_for_more(penstock, tmp_path):
    file = tmp_path / "tailed.yaml"
    (tmp_path / "in.jsonl").write_text('{"n": 1}\n{"n": 2}\n')
    file.write_text(
        f"connector.class: file-source\nfile: {tmp_path}/in.jsonl\nformat: jsonl\ntopic: rows\n"
    )
    code, found = penstock("connector", "check", str(file), "--rows", "3")
    assert code == 0, found
    assert found["rows"] == [{"n": 1}, {"n": 2}]


def test_what_a_source_can_read_is_discovered(penstock, tmp_path):
    for number in range(3):
        (tmp_path / f"t{number}.jsonl").write_text('{"id": 1, "name": "x"}\n')
    keys = f"connector.class: file-source\npath: {tmp_path}/*.jsonl\nformat: jsonl\ntopic: rows\n"
    file = tmp_path / "files.yaml"
    file.write_text(keys)
    code, found = penstock("connector", "discover", str(file))
    assert (code, len(found)) == (0, 3)
    assert [one["name"] for one in found[0]["columns"]] == ["id", "name"]
    code, said = penstock("connector", "discover", str(file), "--limit", "2", output="table")
    assert (code, "id int64, name string" in said) == (0, True)
    assert "there are more than 2" in said
    assert penstock("connector", "create", str(file), "--target-state", "STOPPED")[0] == 0
    assert penstock("connector", "discover", "files") == (0, found), "by its name"
    assert penstock("connector", "delete", "files")[0] == 0
    assert penstock("connector", "discover", "files")[0] == 2
    file.write_text(SOURCE)
    code, said = penstock("connector", "discover", str(file))
    assert (code, "[plugin.lists_no_datasets]" in said) == (2, True)


def test_nobody_there(capsys):
    assert main(["connector", "list", "--server", "http://127.0.0.1:1"]) == 1
    assert "[server.unreachable]" in capsys.readouterr().err


def test_a_folder_is_applied_and_then_nothing_is_to_do(penstock, tmp_path, gateway):
    (tmp_path / "one.yaml").write_text(SOURCE + "state: STOPPED\n")
    (tmp_path / "two.yaml").write_text(SOURCE + "state: PAUSED\n")
    _, planned = penstock("plan", str(tmp_path))
    assert [(one["what"], one["connector"]) for one in planned] == [
        ("create", "one"),
        ("create", "two"),
    ]
    assert gateway.get("/connectors/one").status_code == 404, "a plan changes nothing"
    assert penstock("apply", str(tmp_path))[0] == 0
    _, again = penstock("plan", str(tmp_path))
    assert {one["what"] for one in again} == {"nothing"}
    (tmp_path / "one.yaml").write_text(SOURCE.replace("10", "30") + "state: STOPPED\n")
    (tmp_path / "two.yaml").unlink()
    _, planned = penstock("plan", str(tmp_path))
    assert planned[0]["keys"] == [{"key": "rows", "before": "10", "after": "30"}]
    assert penstock("plan", str(tmp_path), "--exit-code")[0] == 3
    _, pruned = penstock("plan", str(tmp_path), "--prune")
    assert ("delete", "two") in [(one["what"], one["connector"]) for one in pruned]
    assert penstock("apply", str(tmp_path))[0] == 0
    assert gateway.get("/connectors/one/config").json()["rows"] == "30"
    assert gateway.get("/connectors/two").status_code == 200, "only --prune deletes"
    for name in ("one", "two"):
        gateway.delete(f"/connectors/{name}")


def test_a_password_as_it_is_has_a_warning(penstock, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(
        "connector.class: jdbc-sink\ntopics: t\nconnection.url: jdbc:postgresql://127.0.0.1:1/d\n"
        "connection.user: me\nconnection.password: hunter2\nnope: so nothing is tried\n"
    )
    _, said = penstock("connector", "check", str(file))
    findings = json.loads(said)["findings"]
    (warning,) = [one for one in findings if one["code"] == "config.plain_secret"]
    assert (warning["severity"], warning["config_path"]) == ("warning", "connection.password")
    assert "hunter2" not in said


def test_a_folder_with_a_mistake_changes_nothing(penstock, tmp_path, gateway):
    (tmp_path / "good.yaml").write_text(SOURCE)
    (tmp_path / "wrong.yaml").write_text(SOURCE.replace("rows:", "rowz:"))
    code, said = penstock("apply", str(tmp_path))
    assert code == 2
    assert "error: [config.unknown_key] wrong: " in said
    planned = json.loads(said[: said.rindex("]\n") + 1])
    told = {one["connector"]: (one["what"], one["tasks"], one["result"]) for one in planned}
    assert told["wrong"] == ("refused", None, "not tried")
    assert (told["good"][0], told["good"][2]) == ("create", "not tried")
    (found,) = [error for one in planned for error in one.get("errors", ())]
    assert (found["code"], found["config_path"]) == ("config.unknown_key", "rowz")
    assert found["fix"]
    assert gateway.get("/connectors/good").status_code == 404


def test_an_apply_that_fails_says_what_was_done(penstock, tmp_path, gateway, made, monkeypatch):
    """Another person changes a connector between the plan and its doing."""
    for name in ("a", "b", "c"):
        made(name)
        (tmp_path / f"{name}.yaml").write_text(SOURCE + "batch.rows: 7\n")
    carry_out = apply._apply_change

    def raced(server, change):
        if change.name == "b":
            config = gateway.get("/connectors/b/config").json()
            assert gateway.put("/connectors/b/config", config | {"rows": "77"}).status_code == 200
        carry_out(server, change)

    monkeypatch.setattr(apply, "_apply_change", raced)
    code, said = penstock("apply", str(tmp_path))
    assert (code, "error: [config.revision_changed] b: " in said) == (2, True)
    found = json.loads(said[: said.index("]\nerror") + 1])
    results = [(one["connector"], one["result"]) for one in found]
    assert results == [("a", "done"), ("b", "failed"), ("c", "not tried")]
    assert gateway.get("/connectors/b/config").json()["rows"] == "77"


PIPELINES = {
    "p.yaml": (
        "state: STOPPED\nschema.evolution: lenient\n"
        "source: {connector.class: file-source, file: FOLDER/in.jsonl, format: jsonl}\n"
        "transforms: [{name: more, type: Project, columns: n * 2 AS twice}]\n"
        "sink: {connector.class: file-sink, file: FOLDER/out.txt}\n"
        "tests: [{input: [{n: 1}], expected: [{twice: 2}]}]\n"
    ),
    "p.json": (
        '{"name": "p", "initial_state": "STOPPED", "config": {'
        '"source.connector.class": "file-source", "source.file": "FOLDER/in.jsonl",'
        '"source.format": "jsonl", "schema.evolution": "lenient", "transforms": "more",'
        '"transforms.more.type": "Project", "transforms.more.columns": "n * 2 AS twice",'
        '"sink.connector.class": "file-sink", "sink.file": "FOLDER/out.txt"}}'
    ),
    "p.properties": (
        "state=STOPPED\nsource.connector.class=file-source\nsource.file=FOLDER/in.jsonl\n"
        "source.format=jsonl\nschema.evolution=lenient\ntransforms=more\n"
        "transforms.more.type=Project\ntransforms.more.columns=n * 2 AS twice\n"
        "sink.connector.class=file-sink\nsink.file=FOLDER/out.txt\n"
    ),
}


@pytest.mark.parametrize("form", PIPELINES)
def test_one_file_is_the_same_connector_to_every_verb(penstock, tmp_path, gateway, form):
    file = tmp_path / form
    (tmp_path / "in.jsonl").write_text('{"n": 1}\n{"n": 2}\n')
    file.write_text(PIPELINES[form].replace("FOLDER", str(tmp_path)))
    code, found = penstock("connector", "check", str(file), "--rows", "2")
    assert (code, found.get("rows")) == (0, [{"twice": 2}, {"twice": 4}]), found
    assert penstock("connector", "create", str(file))[0] == 0
    assert gateway.get("/v1/connectors/p").json()["config"]["transforms"] == "more"
    _, planned = penstock("plan", str(file))
    assert [(one["what"], one["connector"]) for one in planned] == [("nothing", "p")]
    assert penstock("connector", "resume", "p")[0] == 0
    assert penstock("connector", "put", str(file))[0] == 0
    assert penstock("plan", str(tmp_path))[1] == planned, "and its state is that of the file"
    assert penstock("apply", str(file))[0] == 0
    gateway.delete("/connectors/p")


def test_the_first_pipeline_of_the_readme_can_be_made(penstock, tmp_path, gateway, monkeypatch):
    text = re.search(r"```yaml\n(name: errors-only.*?)```", README.read_text(), re.DOTALL)
    file = tmp_path / "pipeline.yaml"
    file.write_text(text.group(1))
    (tmp_path / "app.log").write_text("INFO a\nERROR b\n")
    monkeypatch.chdir(tmp_path)
    assert penstock("connector", "create", str(file), "--target-state", "STOPPED")[0] == 0
    _, planned = penstock("plan", str(file))
    assert planned[0]["what"] == "nothing"
    gateway.delete("/connectors/errors-only")


def test_rows_and_rates_are_shown(penstock, gateway, made, capsys):
    path = made("", "RUNNING", **{"connector.class": "verifiable-source", "rows": "100000",
                                  "rate": "50", "batch.rows": "10", "topic": "rows"})  # fmt: skip
    gateway.until(path, "RUNNING")
    name = path.rpartition("/")[2]
    server = f"http://{gateway.address}"
    assert main(["inspect", name, "--rows", "3", "--server", server, "-o", "json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sum("row" in line for line in lines) == 3

    def shares() -> dict[str, float]:
        (one,) = gateway.get("/v1/status", params={"connector": name}).json()["connectors"]
        return one["tasks"][0]["time_shares"] or {}

    # 50 rows a second: most of the time there are none
    wait_until(lambda: shares().get("source", 0) > 0.5, 60, "a task that waits for rows")
    assert sum(shares().values()) <= 1.01
    assert min(shares().values()) >= 0
    _, rows = penstock("top", "--once", "--every", "4")
    (row,) = (one for one in rows if one["connector"] == name)
    assert row["tasks"] == "1/1"
    assert row["rows/s out"] != "0"
    assert row["why"].startswith("waits for rows of the source, ")


def test_rows_are_looked_at_behind_a_transform(penstock, gateway, made, capsys):
    path = made("", "RUNNING", **{
        "connector.class": "verifiable-source", "rows": "100000", "rate": "50", "topic": "rows",
        "batch.rows": "10", "transforms": "keep,late",
        "transforms.keep.type": "Filter", "transforms.keep.condition": "seq % 2 = 0",
        "transforms.late.type": "InsertField", "transforms.late.static.field": "late",
        "transforms.late.static.value": "l",
    })  # fmt: skip
    gateway.until(path, "RUNNING")
    name = path.rpartition("/")[2]
    server = f"http://{gateway.address}"
    command = ["inspect", name, "--stage", "keep", "--rows", "4", "--server", server, "-o", "json"]
    assert main(command) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    rows = [line["row"] for line in told if "row" in line]
    assert [(row["seq"] % 2, "late" in row) for row in rows] == [(0, False)] * 4
    code, said = penstock("inspect", name, "--stage", "kep", output="table")
    assert code == 2
    assert "worker.no_stage" in said
    assert "Did you mean keep? Valid stages, in order: read, keep, late, transformed." in said


def test_a_machine_is_looked_at(capsys):
    code = main(["doctor", "-o", "json"])
    found = {one["what"]: one for one in json.loads(capsys.readouterr().out)}
    assert {"python", "java", "disk", "memory", "etcd", "port 8083", "plugins"} <= found.keys()
    assert code == 0, found


def test_what_is_put_stopped_never_runs(penstock, tmp_path, gateway):
    file = tmp_path / "still.yaml"
    file.write_text(SOURCE + "state: STOPPED\n")
    for rows in ("10", "20"):
        file.write_text(file.read_text().replace("rows: 10", f"rows: {rows}"))
        assert penstock("connector", "put", str(file))[0] == 0
        assert gateway.get("/connectors/still").json()["config"]["rows"] == rows
    assert gateway.get("/connectors/still/offsets").json() == {"offsets": []}
    assert penstock("connector", "delete", "still")[0] == 0


@pytest.mark.parametrize("verb", ["apply", "put"])
def test_what_is_to_stop_does_so_before_it_is_changed(penstock, gateway, tmp_path, caplog, verb):
    """Else it would run with the other configuration until it is stopped."""
    path, name = f"/connectors/{verb}-stops", f"{verb}-stops"
    gateway.create(name, "RUNNING")
    file = tmp_path / f"{name}.yaml"
    words = ("apply", str(file)) if verb == "apply" else ("connector", "put", str(file))
    orders = {"STOPPED": ["stop", "config"], "RUNNING": ["config", "resume"]}
    try:
        for rows, (state, order) in enumerate(orders.items(), start=21):
            file.write_text(SOURCE.replace("10", str(rows)) + f"state: {state}\n")
            caplog.clear()
            with caplog.at_level(logging.INFO, "penstock.audit"):
                code, said = penstock(*words)
            assert code == 0, said
            lines = [json.loads(m.message) for m in caplog.records if m.name == "penstock.audit"]
            asked = [one["path"].rpartition("/")[2] for one in lines if one["method"] == "PUT"]
            assert asked == order
            found = gateway.get(f"/v1{path}").json()
            assert (found["target_state"], found["config"]["rows"]) == (state, str(rows))
    finally:
        gateway.delete(path)


def test_a_change_of_others_while_it_is_stopped_is_not_written_over(penstock, gateway, tmp_path):
    """The revision that was named is another's, or becomes so by another's change."""
    gateway.create("put-late", "RUNNING")
    try:
        file = tmp_path / "put-late.yaml"
        file.write_text(f"{SOURCE}state: STOPPED\n")
        first = gateway.get("/v1/connectors/put-late").json()["revision"]
        gateway.put("/connectors/put-late/config", {"connector.class": "verifiable-source"})
        code, said = penstock("connector", "put", str(file), "--revision", str(first))
        assert (code, "[config.revision_changed]" in said) == (2, True), said
        assert gateway.get("/v1/connectors/put-late").json()["target_state"] == "RUNNING"
    finally:
        gateway.delete("/connectors/put-late")
