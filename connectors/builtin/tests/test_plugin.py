"""The plugin as a whole: its manifest, its words, and a life over the wire."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pyarrow as pa
import pytest

import penstock_builtin
from penstock_builtin import (
    CONNECTORS,
    DeltaSink,
    FileSink,
    FileSource,
    Generator,
    VerifiableSink,
    VerifiableSource,
)
from penstock_connector import CommitMode, Source
from penstock_connector.testing import plan, sink_task, source_task, validate

FOLDER = Path(penstock_builtin.__file__).parent


def test_the_manifest_names_what_is_served():
    manifest = tomllib.loads((FOLDER / "plugin.toml").read_text())
    listed = {c["name"]: (c["kind"], set(c.get("aliases", ()))) for c in manifest["connector"]}
    served = {
        c.name: ("source" if issubclass(c, Source) else "sink", set(c.aliases)) for c in CONNECTORS
    }
    assert listed == served
    assert all(c["title"] for c in manifest["connector"])


def test_the_public_names_are_these():
    assert set(penstock_builtin.__all__) == {"CONNECTORS", *(c.__name__ for c in CONNECTORS)}


def test_started_by_hand_it_says_how_it_is_run():
    ended = subprocess.run(
        [sys.executable, "-m", "penstock_builtin"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 1
    assert "file-source" in ended.stderr


def test_lines_go_over_the_wire_and_on_from_where_they_were(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{n}\n" for n in range(10_000)))
    config = {"file": str(path), "tail": "true"}
    with source_task(FileSource, config) as task:
        rows = task.rows(10_000)
        task.until("checkpoint")
        task.commit()
        assert len(rows) == 10_000
    with path.open("a") as file:
        file.write("more\n")
    with source_task(FileSource, config, offsets=task.offsets) as again:
        assert again.rows(1) == [{"line": "more"}]


def test_a_bounded_read_ends_over_the_wire(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(f"{name}\n")
    with source_task(FileSource, {"path": str(tmp_path / "*"), "tail": "false"}) as task:
        assert sorted(row["line"] for row in task.all_rows()) == ["a", "b"]
        done = [f.partition_done for f in task.seen if f.HasField("partition_done")]
        assert len(done) == 2


def test_a_tailed_pattern_finds_files_over_the_wire(tmp_path):
    with source_task(FileSource, {"path": str(tmp_path / "*.log")}) as task:
        (tmp_path / "a.log").write_text("here\n")
        assert task.rows(1) == [{"line": "here"}]


@pytest.mark.parametrize(
    ("kind", "config", "codes"),
    [
        (FileSource, {}, ["config.missing"]),
        (FileSource, {"file": "x", "format": "xml"}, ["config.invalid_choice"]),
        (FileSource, {"file": "x", "format": "csv", "csv.header": "false"}, ["config.missing"]),
        (FileSource, {"file": "x", "topic": "t"}, ["config.unknown_key"]),
        (FileSink, {"path": "a", "file": "b"}, ["config.contradiction"]),
        (DeltaSink, {}, ["config.missing"]),
        (Generator, {"columns": "what"}, ["config.invalid_value"]),
        (VerifiableSource, {"prune": "true"}, ["config.missing"]),
        (VerifiableSink, {"ledger": "l", "mode": "x"}, ["config.invalid_choice"]),
        (FileSource, {"file": "x", "batch.size": "2000"}, []),
        (FileSink, {"file": "x"}, []),
    ],
)
def test_configurations_are_checked(kind, config, codes):
    assert validate(kind, config) == codes


def test_a_plan_is_a_partition_a_file_and_for_one_task_one_to_find_more(tmp_path):
    (tmp_path / "a").touch()
    for tasks, more in ((1, [{"find": str(tmp_path / "*")}]), (3, [])):
        keys = [p.key for p in plan(FileSource, {"path": str(tmp_path / "*")}, max_tasks=tasks)]
        assert keys == [{"file": str(tmp_path / "a")}, *more]


@pytest.mark.parametrize(
    ("kind", "config", "every"),
    [
        (FileSink, {"file": "{}/out.txt"}, 0.0),
        (DeltaSink, {"path": "{}/table"}, 1.0),
    ],
)
def test_a_prepared_transaction_is_recovered_over_the_wire(tmp_path, kind, config, every):
    config = {key: value.format(tmp_path) for key, value in config.items()}
    with sink_task(kind, config, epoch=1) as task:
        assert task.opened.commit_mode == CommitMode.TWO_PHASE
        assert task.opened.commit_every.ToTimedelta().total_seconds() == every
        task.write([{"line": "1"}])
        txn = task.next_txn()
        task.put([{"line": "2"}], txn_id=txn)
        task.prepare(txn, [(0, 0, 1)])
    with sink_task(kind, config, epoch=2, last_prepared=task.last_prepared, recover=True) as again:
        again.write([{"line": "3"}])
        again.close()
    assert rows_at(tmp_path) == ["1", "2", "3"]


def rows_at(folder):
    if (folder / "out.txt").exists():
        return (folder / "out.txt").read_text().split()
    from deltalake import DeltaTable

    batches = DeltaTable(folder / "table").to_pyarrow_dataset().to_batches()
    return sorted(row["line"] for batch in batches for row in batch.to_pylist())


def test_the_verifiable_pair_agrees_over_the_wire(tmp_path):
    path = tmp_path / "l.jsonl"
    with source_task(VerifiableSource, {"rows": "1000", "partitions": "2"}) as reading:
        rows = reading.all_rows()
    batch = pa.RecordBatch.from_pylist(rows)
    with sink_task(VerifiableSink, {"ledger": str(path)}, commit_mode=CommitMode.SINK) as writing:
        writing.write(batch)
        writing.close()
    with sink_task(VerifiableSink, {"ledger": str(path)}, epoch=2) as again:
        assert again.opened.committed.txn_id == 1
    assert path.read_text().count('"rows": 1000') == 2


def test_the_generator_ends_over_the_wire():
    with source_task(Generator, {"rows": "500", "batch.rows": "100"}) as task:
        assert len(task.all_rows()) == 500


def test_what_only_some_need_is_not_loaded_by_all():
    """A process serves one connector: it starts sooner without the libraries of the others."""
    code = "import sys, penstock_builtin; print({'deltalake', 'pandas'} & set(sys.modules))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stdout.strip() == "set()"
