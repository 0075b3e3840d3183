"""Lines go through the engine, from the Rust source into the Rust sink, each once."""

import json

import pytest

from system.pipelines import Pipeline

pytestmark = pytest.mark.on_demand(
    "starts the engine five times; the conformance kit tests the plugin"
)

LINES = [f"line {number} über" for number in range(50_000)]


def lines_pipeline(folder, **sink):
    """From `in.txt` to `out`, in several transactions."""
    (folder / "in.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return Pipeline(
        folder,
        {
            "source": {"connector.class": "rust-lines", "file": str(folder / "in.txt")},
            "sink": {"connector.class": "rust-file", "folder": str(folder / "out"), **sink},
            "batch.max.rows": 10_000,
        },
    )


def written(folder):
    """The lines of all files, in the order of their names."""
    files = sorted(file for file in (folder / "out").iterdir() if file.is_file())
    return [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def test_lines_arrive_once_after_kills(plugin, tmp_path):
    """Killed before the prepared state is stored, and then before its rows are seen."""
    pipeline = lines_pipeline(tmp_path)
    pipeline.kill_at("worker.sink_written=kill@1", "--plugins", plugin)
    pipeline.kill_at("worker.offset_committed=kill@1", "--plugins", plugin)
    done = pipeline.run("--plugins", plugin)
    assert done.code == 0, done.output
    assert [json.loads(line)["line"] for line in written(tmp_path)] == LINES
    staged = (tmp_path / "out/.penstock-rust").rglob("*-*-*")
    assert [file for file in staged if file.is_file()] == []


def test_lines_of_text_are_the_lines_that_were_read(plugin, tmp_path):
    done = lines_pipeline(tmp_path, format="text").run("--plugins", plugin)
    assert done.code == 0, done.output
    assert written(tmp_path) == LINES
