"""`penstock run pipeline.yaml`: run one pipeline file until its tasks have ended."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Container, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console

from penstock.aio import run_together, wait_for_first
from penstock.cli.errors import EXIT_FAILED, EXIT_INTERRUPTED, print_diagnostic
from penstock.cli.pipeline_paths import make_absolute, open_state_dir
from penstock.cli.process import TASK_FAILURE_LOGGERS, JvmLostError, PreviousProcess, run_process
from penstock.cli.progress import (
    ProgressBar,
    ProgressLines,
    Totals,
    format_bytes,
    format_rows,
    no_status_line,
    print_status,
    status_line,
)
from penstock.connector_config.keys import UNTIL_CAUGHT_UP
from penstock.connector_config.validation import validate_connector
from penstock.model.connector import (
    ENDED_STATES,
    ApplyAction,
    Connector,
    TaskState,
    TaskStatus,
)
from penstock.model.errors import PenstockError, error_from_diagnostic
from penstock.model.status import RunState
from penstock.pipeline_files.connector_file import PLUGIN_ROLES, read_pipeline
from penstock.standalone.node import Node, run_connectors
from penstock.standalone.settings import pipeline_settings

DEFAULT_MAX_RESTARTS = "5"
"""`restart.max` where the pipeline sets none: the user waits for the command to end."""

POLL_INTERVAL_S = 0.25
"""Time between two requests for the state of the tasks and of the connector."""


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument(
        "pipeline",
        type=Path,
        help="YAML or JSON file: source, transforms, sink; paths in it are relative to its folder",
    )
    parser.add_argument("--state", type=Path, help="state folder; default: that of its name")
    parser.add_argument(
        "--fresh", action="store_true", help="forget the offsets and state of earlier runs"
    )
    parser.add_argument(
        "--plugins",
        type=Path,
        action="append",
        default=[],
        help="folder of a plugin, or of several; may be given again; default: that of the pipeline",
    )
    parser.add_argument(
        "--until-caught-up",
        action="store_true",
        help="end once everything is moved that is there at the start (until.caught.up)",
    )
    parser.add_argument("--no-progress", action="store_true", help="show no progress")
    parser.add_argument("--report", type=Path, help="write the summary as JSON to this file")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the pipeline; end with 1 when a task has failed."""
    make_absolute(arguments, "pipeline", "state", "report", "plugins")
    return run_process(
        lambda previous: _run(arguments, previous),
        printed=TASK_FAILURE_LOGGERS,
        folder=arguments.pipeline.parent,
    )


async def _run(arguments: argparse.Namespace, previous: PreviousProcess) -> int:
    connector = read_pipeline(arguments.pipeline)
    fresh = arguments.fresh and not previous.exists
    state_dir = open_state_dir(arguments, "run", fresh=fresh)
    settings = pipeline_settings([arguments.pipeline.parent], state_dir, arguments.plugins)
    before = Totals(**previous.carried["totals"]) if previous.exists else Totals()
    has_run = previous.exists
    tasks: dict[str, TaskStatus] = {}
    try:
        async with AsyncExitStack() as stack:
            config = {"restart.max": DEFAULT_MAX_RESTARTS, **connector.config}
            if arguments.until_caught_up:
                config[UNTIL_CAUGHT_UP] = "true"
            starting = status_line(f"starting {connector.name}")
            with no_status_line() if arguments.no_progress else starting:
                node = await stack.enter_async_context(Node(settings))
                known = (await node.config.list()).connectors
                has_run = has_run or connector.name in {one.name for one in known}
                validated, findings = await validate_connector(
                    node.config, replace(connector, config=config)
                )
                if fresh:
                    applied = await node.worker.apply(validated, ApplyAction.RESET)
                    findings = [*findings, *applied.diagnostics]
            for finding in findings:
                print_diagnostic(finding)
            if not previous.exists:
                print_status(_describe_run(validated, state_dir))
            if not previous.exists:
                await node.forget_completed()  # of an earlier run: there may be more to read by now
            await run_connectors(node, [validated])
            try:
                await _follow(node, connector.name, tasks, before, draw=not arguments.no_progress)
            except asyncio.CancelledError:
                await _update_statuses(node, tasks)
                raise
    except asyncio.CancelledError:  # interrupted: the node has drained
        if tasks:
            _summarize(arguments, before, list(tasks.values()), previous.elapsed_s())
        raise
    code = _summarize(arguments, before, list(tasks.values()), previous.elapsed_s())
    if code == 0 and not before.plus(list(tasks.values())).rows_read:
        print(_explain_no_rows(arguments.pipeline, has_run=has_run), file=sys.stderr)
    return code


def _explain_no_rows(pipeline: Path, *, has_run: bool) -> str:
    if has_run:
        return "Nothing new since the last run; --fresh starts over."
    return (
        "The source has no rows: check the names of its tables, files or topics. "
        f"`penstock check {pipeline} --connect` tries to reach them."
    )


def _describe_run(connector: Connector, state_dir: Path) -> str:
    source, sink = (connector.config[f"{role}.connector.class"] for role in PLUGIN_ROLES)
    return f"{connector.name}: {source} → {sink}; state in {state_dir}"


async def _follow(
    node: Node, name: str, tasks: dict[str, TaskStatus], before: Totals, *, draw: bool
) -> None:
    """Show progress until every task has ended. `tasks` receives the statuses of the tasks.

    Raises:
        JvmLostError: with the totals so far.
        PenstockError: the pipeline cannot be planned.
    """
    console = Console(stderr=True)
    bar: ProgressBar | ProgressLines | None = None
    if draw:
        bar = ProgressBar(name, console) if console.is_terminal else ProgressLines(name)
    watchers = (
        _wait_for_tasks(node, name, tasks, before, bar),
        _wait_for_connector(node, name),
        node.wait_until_lost(),
    )
    try:
        async with run_together(*watchers) as watching:
            await wait_for_first(*watching)
            for watcher in watching:
                if watcher.done():
                    watcher.result()
            tasks_ended, completed, jvm_lost = watching
            if jvm_lost.done() and not tasks_ended.done():
                raise JvmLostError({"totals": asdict(before.plus(list(tasks.values())))})
            if completed.done() and not tasks_ended.done():
                await _update_statuses(node, tasks)
    finally:
        if bar is not None:
            bar.close()


async def _wait_for_tasks(
    node: Node,
    name: str,
    tasks: dict[str, TaskStatus],
    before: Totals,
    bar: ProgressBar | ProgressLines | None,
) -> None:
    async for task in node.worker.watch_tasks(interval_s=POLL_INTERVAL_S):
        tasks[task.task_id] = task
        if bar is not None:
            bar.update(before.plus(list(tasks.values())))
        ended = all(status.state in ENDED_STATES for status in tasks.values())
        if ended and await _have_all_started(node, name, tasks):
            return


async def _have_all_started(node: Node, name: str, tasks: Container[str]) -> bool:
    """Return whether a connector has no further task: some start when others have ended already."""
    for connector in await node.scheduler.list_statuses():
        if connector.name == name:
            others = (one for one in connector.tasks if one.task_id not in tasks)
            return all(one.state in {RunState.COMPLETED, RunState.FAILED} for one in others)
    return False


async def _update_statuses(node: Node, tasks: dict[str, TaskStatus]) -> None:
    """Read the statuses of the tasks once more: the last ones may be older than rows that the user
    sees at the sink.
    """
    left = set(tasks)
    with suppress(TimeoutError, PenstockError):
        async with asyncio.timeout(POLL_INTERVAL_S), aclosing(node.worker.watch_tasks()) as found:
            async for task in found:
                tasks[task.task_id] = task
                left.discard(task.task_id)
                if not left:
                    return


async def _wait_for_connector(node: Node, name: str) -> None:
    """Return when all tasks have completed, also those of an earlier run. Raise the error when the
    connector itself fails: then there are no tasks that could.
    """
    while True:
        for status in await node.scheduler.list_statuses():
            if status.name == name and status.state is RunState.COMPLETED:
                return
            failed = status.name == name and status.state is RunState.FAILED
            if failed and status.diagnostic is not None:
                raise error_from_diagnostic(status.diagnostic)
        await asyncio.sleep(POLL_INTERVAL_S)


def _summarize(
    arguments: argparse.Namespace, before: Totals, tasks: Sequence[TaskStatus], seconds: float
) -> int:
    """Print the errors and totals of a run, write the report; return the exit code."""
    totals = before.plus(tasks)
    failed = [task for task in tasks if task.state is TaskState.FAILED]
    for task in failed:
        if task.diagnostic is not None:
            print_diagnostic(task.diagnostic)
    if arguments.report is not None:
        report = {**asdict(totals), "seconds": seconds, "failed": len(failed)}
        arguments.report.write_text(json.dumps(report), encoding="utf-8")
    batches = "micro-batch" if totals.batches == 1 else "micro-batches"
    print_status(
        f"{format_rows(totals.rows_read)} read, {totals.rows_written:,} written, "
        f"{format_bytes(totals.bytes_read)} of rows in {totals.batches:,} {batches}, "
        f"{seconds:.1f} s with start-up"
    )
    if failed:
        return EXIT_FAILED
    if any(task.state is not TaskState.COMPLETED for task in tasks):
        return EXIT_INTERRUPTED
    return 0
