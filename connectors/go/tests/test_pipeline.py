"""Rows go through the engine, from the Go source and into the Go sink, each once, killed or not."""

import json

from support.checkout import ROOT
from support.foreign import install
from system.pipelines import Pipeline

EXAMPLES = ROOT / "connectors/go/examples"


def test_rows_of_the_go_source_arrive_once_after_a_kill(programs, tmp_path):
    """`penstock run`, killed when offsets are stored and rows are not yet seen."""
    plugin = install(EXAMPLES / "numbers", programs / "numbers", tmp_path / "plugin")
    out = tmp_path / "out.jsonl"
    pipeline = Pipeline(
        tmp_path,
        {
            "source": {"connector.class": "go-numbers", "limit": 50_000},
            "sink": {"connector.class": "file-sink", "file": str(out), "format": "jsonl"},
            "batch.max.rows": 10_000,
        },
    )
    pipeline.kill_at("worker.offset_committed=kill@2", "--plugins", plugin)
    done = pipeline.run("--plugins", plugin)
    assert done.code == 0, done.output
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["number"] for row in rows] == list(range(50_000))
    assert rows[0]["text"] == "a row from Go"


def test_rows_of_a_python_source_arrive_in_the_go_sink_once_after_a_kill(programs, tmp_path):
    """The same into the Go sink, killed before its prepared state is stored, and after."""
    plugin = install(EXAMPLES / "lines", programs / "lines", tmp_path / "plugin")
    lines = [f"line {number}" for number in range(50_000)]
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines))
    out = tmp_path / "out"
    pipeline = Pipeline(
        tmp_path,
        {
            "source": {
                "connector.class": "file-source",
                "file": str(tmp_path / "in.txt"),
                "tail": False,
            },
            "sink": {"connector.class": "go-lines", "folder": str(out)},
            "batch.max.rows": 10_000,
        },
    )
    pipeline.kill_at("worker.sink_written=kill@1", "--plugins", plugin)
    pipeline.kill_at("worker.offset_committed=kill@1", "--plugins", plugin)
    done = pipeline.run("--plugins", plugin)
    assert done.code == 0, done.output
    written = [
        json.loads(line)["line"]
        for file in sorted(out.glob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]
    assert written == lines
    assert list((out / ".staged").rglob("*-*")) == []
