"""Rows of the source in Node go through the engine, each once, also when everything is killed."""

import json

from support.foreign import use_this_node
from system.pipelines import Pipeline


def test_rows_arrive_once_after_a_kill(plugin, tmp_path):
    """`penstock run`, killed when offsets are stored and rows are not yet seen."""
    out = tmp_path / "out.jsonl"
    pipeline = Pipeline(
        tmp_path,
        {
            "source": {"connector.class": "node-numbers", "limit": 50_000, "batch.rows": 1000},
            "sink": {"connector.class": "file-sink", "file": str(out), "format": "jsonl"},
            "batch.max.rows": 10_000,
        },
    )
    use_this_node(plugin)
    pipeline.kill_at("worker.offset_committed=kill@2", "--plugins", plugin)
    done = pipeline.run("--plugins", plugin)
    assert done.code == 0, done.output
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["number"] for row in rows] == list(range(50_000))
    assert rows[0]["text"] == "a row from Node"
