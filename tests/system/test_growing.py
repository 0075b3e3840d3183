"""Partitions that appear while everything runs: files of a source, partitions of a sink's topic.

Only what gets them starts anew; the epochs of all other tasks stay as they were.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

import pytest

from penstock.client import SchedulerClient
from penstock.model.status import ConnectorStatus, RunState
from penstock_kit.testing import PenstockProcess

SOON: float = 180.0
"""Seconds for what takes some, with a start of a JVM before it, on a machine that is busy."""


class Growing:
    """A source of files with two tasks, and a sink with two, over a topic of two partitions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        source = {
            "name": "source",
            "connector.class": "file-source",
            "path": f"{folder}/in/*.log",
            "tasks.max": "2",
            "topic": "lines",
            "topic.partitions": "2",
        }
        sink = {
            "name": "sink",
            "connector.class": "file-sink",
            "path": f"{folder}/out",
            "tasks.max": "2",
            "topics": "lines",
            "flush.interval": "0",
        }
        files = [
            self._file("worker", {"state.dir": f"{folder}/state", "spark.master": "local[1]"}),
            self._file("sink", sink),
            self._file("source", source),
        ]
        self.process = PenstockProcess(folder / "run", "standalone", *files)
        self._runner = asyncio.Runner()  # one loop: gRPC keeps to the one it was first used in

    def __enter__(self) -> Self:
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.close()
        self._runner.close()

    def add(self, name: str, count: int = 10) -> None:
        """Append lines to a file, which may be new."""
        new = [f"{name} {len(self.lines) + n}" for n in range(count)]
        with self.folder.joinpath("in", f"{name}.log").open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in new)
        self.lines += new

    def arrive(self, stage: str) -> None:
        """Wait until every line is there; each must be there once, in the order of its file."""
        self.process.wait_for(lambda: len(self._written()) >= len(self.lines), SOON, stage)
        written = self._written()
        assert sorted(written) == sorted(self.lines)
        for name in {line.split()[0] for line in self.lines}:
            ours = [line for line in self.lines if line.startswith(f"{name} ")]
            assert sorted(ours, key=written.index) == ours

    def epochs(self, name: str, tasks: int) -> Mapping[int, int]:
        """Return the epochs of a connector's tasks by number, once so many run."""
        found: list[ConnectorStatus] = []

        def run() -> bool:
            found[:] = self._runner.run(self._status(name))
            states = [task.state for task in found[0].tasks] if found else []
            return states == [RunState.RUNNING] * tasks

        self.process.wait_for(run, SOON, f"{tasks} tasks of {name} to run")
        return {task.number: task.epoch for task in found[0].tasks}

    async def _status(self, name: str) -> list[ConnectorStatus]:
        address = re.search(r"SchedulerService at (unix:\S+)", self.process.output)
        assert address, self.process.output
        async with SchedulerClient(address[1]) as client:
            return await client.list_statuses(name)

    def _written(self) -> list[str]:
        parts = sorted(self.folder.joinpath("out").glob("part-*"))
        return [line for part in parts for line in part.read_text(encoding="utf-8").splitlines()]

    def _file(self, name: str, config: Mapping[str, str]) -> Path:
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        return path


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Growing]:
    """All of it, running, with one file."""
    tmp_path.joinpath("in").mkdir()
    with Growing(tmp_path) as growing:
        growing.add("a")
        yield growing


@pytest.mark.timeout(600)
def test_only_tasks_that_get_new_partitions_start_anew(growing: Growing) -> None:
    """A second file makes a second task of the source, whose rows go to the topic's second
    partition, which a second task of the sink reads; a third file restarts one task.
    """
    growing.arrive("the lines of the first file")
    source, sink = growing.epochs("source", 1), growing.epochs("sink", 2)

    growing.add("b")
    growing.arrive("the lines of a file that appeared")
    growing.add("a")
    growing.arrive("more lines of the first file")
    grown = growing.epochs("source", 2)
    assert grown[0] == source[0]

    growing.add("c")
    growing.arrive("the lines of a third file")
    for name in "abc":
        growing.add(name)
    growing.arrive("more lines of all files")
    after = growing.epochs("source", 2)
    assert sum(after[number] != grown[number] for number in after) == 1
    assert growing.epochs("sink", 2) == sink
