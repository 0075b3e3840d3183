"""`penstock run pipeline.yaml`: one pipeline, from its file to its end."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import shutil
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from penstock.cli.errors import FAILED, INTERRUPTED, print_diagnostic
from penstock.cli.process import ENDED_TASKS, Earlier, JvmLostError, hosted
from penstock.cli.progress import ProgressBar, Totals, human_bytes
from penstock.cli.waiting import unseen, waiting
from penstock.model.connector import ENDED, ApplyAction, TaskState, TaskStatus
from penstock.model.errors import error_of
from penstock.model.status import RunState
from penstock.pipeline_files.pipeline import read_pipeline
from penstock.standalone.node import Node
from penstock.standalone.reconcile import run_only, validate
from penstock.standalone.settings import default_state_dir, node_settings

RESTARTS = "5"
"""Restarts after retriable errors, where the pipeline says nothing: a person waits for the command
to end."""


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("pipeline", type=Path, help="YAML or JSON file: source, transforms, sink")
    parser.add_argument("--state", type=Path, help="state folder; default: one per pipeline file")
    parser.add_argument("--fresh", action="store_true", help="forget where the last run stopped")
    parser.add_argument(
        "--plugins",
        type=Path,
        action="append",
        default=[],
        help="folder of a plugin, or of several; may be given again",
    )
    parser.add_argument("--no-progress", action="store_true", help="draw no progress bar")
    parser.add_argument("--report", type=Path, help="write the summary as JSON to this file")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    return hosted(lambda earlier: _run(arguments, earlier), printed=ENDED_TASKS)


async def _run(arguments: argparse.Namespace, earlier: Earlier) -> int:
    connector = read_pipeline(arguments.pipeline)
    state = arguments.state or state_of(arguments.pipeline, "run")
    if arguments.fresh and not earlier.resumed:
        shutil.rmtree(state, ignore_errors=True)
    plugins = ",".join(str(folder.absolute()) for folder in arguments.plugins)
    settings, _ = node_settings({"state.dir": str(state), "plugin.path": plugins})
    before = Totals(**earlier.carried["totals"]) if earlier.resumed else Totals()
    tasks: dict[str, TaskStatus] = {}
    try:
        async with AsyncExitStack() as stack:
            config = {"restart.max": RESTARTS, **connector.config}
            with unseen() if arguments.no_progress else waiting(f"starting {connector.name}"):
                node = await stack.enter_async_context(Node(settings))
                checked, findings = await validate(node, _with(connector, config))
                if arguments.fresh and not earlier.resumed:
                    applied = await node.worker.apply(checked, ApplyAction.RESET)
                    findings = [*findings, *applied.diagnostics]
            for finding in findings:
                print_diagnostic(finding)
            await run_only(node, [checked])
            await _follow(node, connector.name, tasks, before, draw=not arguments.no_progress)
    except asyncio.CancelledError:  # interrupted: the node has drained
        if tasks:
            _summary(arguments, before, list(tasks.values()), earlier.seconds())
        raise
    return _summary(arguments, before, list(tasks.values()), earlier.seconds())


def _with(connector: Any, config: dict[str, str]) -> Any:
    return type(connector)(connector.name, config, connector.kind)


async def _follow(
    node: Node, name: str, tasks: dict[str, TaskStatus], before: Totals, *, draw: bool
) -> None:
    """Show progress until every task has ended; `tasks` gets how they stand, and how they ended.

    Raises:
        JvmLostError: with the totals so far.
        PenstockError: the pipeline cannot be planned.
    """
    console = Console(stderr=True)
    bar = ProgressBar(name, console) if draw and console.is_terminal else None
    lost = asyncio.create_task(node.lost())
    refused = asyncio.create_task(_refused(node, name))
    ended = asyncio.create_task(_ended(node, tasks, before, bar))
    try:
        await asyncio.wait({lost, refused, ended}, return_when=asyncio.FIRST_COMPLETED)
        for first in (ended, refused, lost):
            if first.done():
                first.result()
        if lost.done() and not ended.done():
            raise JvmLostError({"totals": asdict(before.plus(list(tasks.values())))})
    finally:
        for watching in (lost, refused, ended):
            watching.cancel()
        await asyncio.gather(lost, refused, ended, return_exceptions=True)
        if bar is not None:
            bar.close()


async def _ended(
    node: Node, tasks: dict[str, TaskStatus], before: Totals, bar: ProgressBar | None
) -> None:
    """Return when every task has ended."""
    async for task in node.worker.watch_tasks(every=0.25):
        tasks[task.task_id] = task
        if bar is not None:
            bar.show(before.plus(list(tasks.values())))
        if all(status.state in ENDED for status in tasks.values()):
            return


async def _refused(node: Node, name: str) -> None:
    """Raise the reason when the pipeline itself fails: then it has no tasks that could."""
    async for status, _ in node.scheduler.watch(name):
        if status.state is RunState.FAILED and status.diagnostic is not None:
            raise error_of(status.diagnostic)


def _summary(
    arguments: argparse.Namespace, before: Totals, tasks: Sequence[TaskStatus], seconds: float
) -> int:
    totals = before.plus(tasks)
    failed = [task for task in tasks if task.state is TaskState.FAILED]
    for task in failed:
        if task.diagnostic is not None:
            print_diagnostic(task.diagnostic)
    if arguments.report is not None:
        report = {**asdict(totals), "seconds": seconds, "failed": len(failed)}
        arguments.report.write_text(json.dumps(report), encoding="utf-8")
    print(
        f"{totals.rows_read:,} rows read, {totals.rows_written:,} written, "
        f"{human_bytes(totals.bytes_read)} in {totals.batches:,} micro-batches, "
        f"{seconds:.1f} s with start-up",
        file=sys.stderr,
    )
    if failed:
        return FAILED
    if any(task.state is not TaskState.COMPLETED for task in tasks):
        return INTERRUPTED
    if not totals.rows_read:
        print("Nothing new since the last run; --fresh starts over.", file=sys.stderr)
    return 0


def state_of(pipeline: Path, verb: str) -> Path:
    """Return a verb's state folder of a pipeline file: a namesake elsewhere has its own."""
    digest = hashlib.sha256(str(pipeline.resolve()).encode()).hexdigest()[:12]
    return default_state_dir() / verb / f"{pipeline.stem}-{digest}"
