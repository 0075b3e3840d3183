"""A worker's own answers, asked of a real one: live rows of a task, and a check of a connection."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from penstock.client import WorkerClient
from penstock.model.connector import ConnectorKind
from penstock.model.inspection import InspectedRow, InspectRules, RowStage, Stage
from support.cluster import READY, Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with one worker."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.workers("w1", **{"spark.master": "local[1,1]"})
        yield cluster


def rows_of(folder: Path) -> int:
    """Return how many rows a topic has."""
    try:
        return int(DeltaTable(folder).to_pyarrow_dataset().count_rows())
    except TableNotFoundError:
        return 0


@pytest.mark.parametrize("lane", ["fused", "jvm"])
def test_live_rows_are_shown_at_all_stages_and_looking_changes_none(
    cluster: Cluster, lane: str
) -> None:
    """Every row still arrives once."""
    name = f"looked-{lane}"
    condition = "seq % 2 = 0" if lane == "fused" else "pmod(seq, 2) = 0"
    config = {
        "connector.class": "verifiable-source", "rows": 0, "rate": 300, "batch.rows": 30,
        "topic": name, "flush.interval": "100ms",
        "transforms": "keep,route", "transforms.keep.type": "Filter",
        "transforms.keep.condition": condition,
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": name, "transforms.route.replacement": f"{name}-changed",
    }  # fmt: skip
    cluster.create(name, config, ConnectorKind.SOURCE)
    (task,) = cluster.running(name, 1).tasks

    def look(stage: Stage) -> list[InspectedRow]:
        async def call(client: WorkerClient) -> list[InspectedRow]:
            rules = InspectRules(stage, rows=20, seconds=READY)
            return [
                row async for word in client.inspect_rows(task.task_id, rules) for row in word.rows
            ]

        return cluster.worker("w1", call)

    stages: dict[Stage, str] = {
        RowStage.READ: "", "keep": name, "route": f"{name}-changed",
        RowStage.TRANSFORMED: f"{name}-changed",
    }  # fmt: skip
    for stage, topic in stages.items():
        rows = look(stage)
        assert len(rows) == 20
        assert {row.topic for row in rows} == {topic}
        numbers = [json.loads(row.json)["seq"] for row in rows]
        assert numbers == sorted(numbers)
        odd = any(number % 2 for number in numbers)
        assert odd is (stage is RowStage.READ)
    topic = cluster.folder / "topics" / f"{name}-changed"
    seen = rows_of(topic)
    cluster.until(lambda: rows_of(topic) > seen + 500, READY, "more rows", lambda: rows_of(topic))
    table = DeltaTable(topic).to_pyarrow_table()
    assert sorted(table["seq"].to_pylist()) == list(range(0, 2 * len(table), 2))
    cluster.config(lambda config: config.delete(name))
