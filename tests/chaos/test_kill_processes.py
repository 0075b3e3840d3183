"""kill -9 of each kind of process while rows move: nothing is lost, repeated or left behind."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from chaos.verifiable import Verifiable
from penstock_kit.testing import PenstockProcess
from penstock_kit.testing.process_tree import Process, read_process
from support.standalone import Standalone
from system.pipelines import ended, nothing_left, nothing_runs

SPARK = "penstock.cli"
"""The command line as it is installed: the engine of these tests is Spark."""

MOVING = 180.0
"""Seconds until rows arrive, with a start of a JVM before the first."""

pytestmark = pytest.mark.timeout(600)


def plugin(name: str) -> Callable[[PenstockProcess], Process]:
    """Find the process of a plugin such as `builtin/file-sink`: the last one that the log names."""

    def find(process: PenstockProcess) -> Process:
        started = re.findall(rf"plugin {name} \S+ started, process (\d+)", process.output)
        found = read_process(int(started[-1]))
        assert found, f"{name} has ended"
        return found

    return find


SOURCE, SINK = plugin("builtin/verifiable-source"), plugin("builtin/verifiable-sink")


def python_worker(process: PenstockProcess) -> Process:
    """Find a Python worker of Spark: a child of the daemon that forks them."""
    daemons = {p.pid for p in process.process_tree() if "penstock.spark.worker_daemon" in p.command}
    return next(p for p in process.process_tree() if p.parent in daemons and p.pid in daemons)


def jvm(process: PenstockProcess) -> Process:
    """Find Spark's JVM."""
    return next(p for p in process.process_tree() if p.program == "java")


def more_rows(pipeline: Verifiable, process: PenstockProcess, stage: str) -> None:
    """Wait until rows arrive that had not arrived yet."""
    before = pipeline.arrived()
    process.wait_for(lambda: pipeline.arrived() > before, MOVING, f"rows {stage}")


def test_a_plugin_or_a_python_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    """One after the other in one run: sink plugin, source plugin, Spark's Python worker, twice."""
    pipeline = Verifiable(tmp_path, module=SPARK, rows=4000, rate=150, prune=True)
    with pipeline.running() as process:
        more_rows(pipeline, process, "at the start")
        for find in (SINK, SOURCE, python_worker) * 2:
            victim = find(process)
            os.kill(victim.pid, signal.SIGKILL)
            process.wait_for(lambda v=victim: gone(v), 60, "the victim to end")
            more_rows(pipeline, process, f"after the end of {victim}")
            pipeline.check_so_far().require()
        assert pipeline.arrived() < 8000, "the kills came after the end"
        outcome = ended(process)
        assert outcome.code == 0, outcome.output
        nothing_left(process)
    pipeline.check().require()


def test_a_run_goes_on_in_a_new_jvm(tmp_path: Path) -> None:
    """The process replaces itself, and `--fresh` does not count a second time: it goes on."""
    pipeline = Verifiable(tmp_path, module=SPARK, rows=2000, rate=150, prune=True)
    with pipeline.running("--fresh") as process:
        more_rows(pipeline, process, "at the start")
        victim = jvm(process)
        os.kill(victim.pid, signal.SIGKILL)
        # rows that were on their way arrive without one
        is_new = lambda p: p.program == "java" and p.identity != victim.identity  # noqa: E731
        process.wait_for(lambda: any(map(is_new, process.process_tree())), MOVING, "another JVM")
        more_rows(pipeline, process, "in the other JVM")
        pipeline.check_so_far().require()
        outcome = ended(process)
        assert outcome.code == 0, outcome.output
        nothing_left(process)
    pipeline.check().require()


def test_a_killed_command_leaves_no_process_and_goes_on_when_run_again(tmp_path: Path) -> None:
    """kill -9 of the command itself, from outside, at no chosen step."""
    pipeline = Verifiable(tmp_path, module=SPARK, rows=1500, rate=200)
    with pipeline.running() as process:
        more_rows(pipeline, process, "at the start")
        process.kill()
        nothing_runs(process)
    assert pipeline.arrived() < 3000, "the kill came after the end"
    pipeline.check_so_far().require()
    pipeline.complete()
    pipeline.check().require()


def gone(victim: Process) -> bool:
    found = read_process(victim.pid)
    return found is None or found.identity != victim.identity


def rest(process: PenstockProcess) -> httpx.Client:
    """Return a client of the gateway that was started last."""
    urls = re.findall(r"REST at (http://\S+)", process.output)
    return httpx.Client(base_url=urls[-1], timeout=60)


def test_a_connector_made_by_rest_goes_on_when_a_node_replaces_itself(tmp_path: Path) -> None:
    """So does one that was paused meanwhile: the files count only at a start by a person."""
    rows = {"connector.class": "generator", "rows.per.second": "50", "topic": "made"}
    keys = {"listeners": "http://127.0.0.1:0"}
    with Standalone(tmp_path / "node", keys, filed={**rows, "topic": "t"}) as node:
        node.wait_for(lambda: "REST at" in node.process.output, "the gateway to listen")
        with rest(node.process) as client:
            client.put("/connectors/made/config", json=rows).raise_for_status()
            node.wait_for(lambda: node.written("made"), "rows of the connector that was made")
            client.put("/connectors/filed/pause").raise_for_status()
        os.kill(jvm(node.process).pid, signal.SIGKILL)
        node.wait_for(lambda: node.process.output.count("REST at") > 1, "the node to be back")
        with rest(node.process) as client:
            node.wait_for(lambda: node.written("made"), "more rows of it")
            status = {n: client.get(f"/connectors/{n}/status").json() for n in ("made", "filed")}
        states = {name: found["connector"]["state"] for name, found in status.items()}
        assert states == {"made": "RUNNING", "filed": "PAUSED"}
