"""`penstock dev PIPELINE`: run a pipeline, again whenever its file or a plugin's files change.

The services and Spark stay warm, so a change is a second away from its rows. Offsets stay, too: the
connector resumes where it was; `--fresh` forgets them at the start.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock.aio import run_until_first
from penstock.cli.errors import print_diagnostic, print_error
from penstock.cli.pipeline_paths import make_absolute, open_state_dir
from penstock.cli.process import TASK_FAILURE_LOGGERS, JvmLostError, PreviousProcess, run_process
from penstock.cli.progress import print_status, status_line
from penstock.connector_config.validation import store_connector, validate_connector
from penstock.model.connector import ENDED_STATES, Connector, TaskState, TaskStatus
from penstock.model.errors import Diagnostic, PenstockError
from penstock.pipeline_files.connector_file import read_pipeline
from penstock.plugin.catalog.registry import find_plugin_folders, fingerprint_folder
from penstock.standalone.node import Node, run_connectors
from penstock.standalone.settings import pipeline_settings

POLL_INTERVAL_S: Final = 0.3
"""Time between two scans of the files. Less costs CPU, more is felt after each save."""

_STARTING: Final = "starting the services, Spark and the plugins"


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("pipeline", type=Path, help="YAML or JSON file: source, transforms, sink")
    parser.add_argument(
        "--plugins",
        type=Path,
        action="append",
        default=[],
        help="folder with plugin.toml, or with such folders; default: that of the pipeline",
    )
    parser.add_argument("--state", type=Path, help="state folder; default: that of its name")
    parser.add_argument(
        "--fresh", action="store_true", help="forget the offsets and state of earlier runs"
    )
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the pipeline until interrupted."""
    make_absolute(arguments, "pipeline", "state", "plugins")
    return run_process(
        lambda previous: _run(arguments, previous),
        stopped_code=0,
        printed=TASK_FAILURE_LOGGERS,
        folder=arguments.pipeline.parent,
    )


async def _run(arguments: argparse.Namespace, previous: PreviousProcess) -> int:
    folders = [folder.resolve() for folder in arguments.plugins or [arguments.pipeline.parent]]
    fresh = arguments.fresh and not previous.exists
    state_dir = open_state_dir(arguments, "dev", fresh=fresh)
    settings = pipeline_settings(
        [arguments.pipeline.parent], state_dir, folders, {"plugin.reload": "0"}
    )
    async with AsyncExitStack() as stack:
        stage = _StageLine()
        stack.callback(stage.clear)
        stage.show(_STARTING)
        node = await stack.enter_async_context(Node(settings))
        await run_connectors(node, [])
        changes = _FileWatcher(node, arguments.pipeline, folders, stage)
        try:
            await run_until_first(
                changes.watch(), _TaskReporter(stage).watch(node), node.wait_until_lost()
            )
        finally:
            stage.clear()
    raise JvmLostError


@dataclass(slots=True)
class _StageLine:
    """The status line until rows move, one stage after another."""

    stage: str = ""
    _line: ExitStack = field(default_factory=ExitStack)

    def show(self, stage: str) -> None:
        self.clear()
        self.stage = stage
        self._line.enter_context(status_line(stage))

    def clear(self) -> None:
        self.stage = ""
        self._line.close()


@dataclass(slots=True)
class _FileWatcher:
    """Applies the pipeline file to the node, at the start and after each change of the files."""

    node: Node
    pipeline: Path
    plugin_folders: list[Path]
    stage: _StageLine
    _applied: Connector | None = None

    async def watch(self) -> None:
        before: tuple[str, ...] = ()
        while True:
            now = await asyncio.to_thread(self._fingerprints)
            if now == before:
                await asyncio.sleep(POLL_INTERVAL_S)
                continue
            if before:
                print_status("changed: running it again")
            before = now
            self.stage.show(_STARTING)
            try:
                await self._apply()
            except PenstockError as error:
                self.stage.clear()
                print_error(error)
                print_status("waiting for a change")

    def _fingerprints(self) -> tuple[str, ...]:
        stat = self.pipeline.stat() if self.pipeline.exists() else None
        file = f"{stat.st_mtime_ns} {stat.st_size}" if stat else ""
        plugins = (
            f"{plugin}: {fingerprint_folder(plugin)}"
            for folder in self.plugin_folders
            for plugin in find_plugin_folders(folder)
        )
        return (file, *plugins, *_functions(self.pipeline.parent))

    async def _apply(self) -> None:
        await self.node.worker.reload_plugins()
        connector = read_pipeline(self.pipeline)
        validated, findings = await validate_connector(self.node.config, connector)
        for finding in findings:
            print_diagnostic(finding)
        if self._applied == validated:
            await self.node.config.request_restart(validated.name, include_tasks=True)
        else:
            await store_connector(self.node.config, validated)
        self._applied = validated


def _functions(folder: Path) -> Iterator[str]:
    for file in sorted(folder.glob("*.py")):
        with suppress(OSError):  # an editor's link to nowhere, or a file that is just replaced
            yield f"{file}: {file.stat().st_mtime_ns}"


@dataclass(slots=True)
class _TaskReporter:
    """Prints how many rows the tasks have written, and each of their errors once."""

    stage: _StageLine
    _rows_written: dict[str, int] = field(default_factory=dict)
    _printed: dict[str, Diagnostic | None] = field(default_factory=dict)

    async def watch(self, node: Node) -> None:
        async for task in node.worker.watch_tasks(interval_s=0.5):
            self._report(task)

    def _report(self, task: TaskStatus) -> None:
        if self._printed.get(task.task_id) != task.diagnostic:
            self._printed[task.task_id] = task.diagnostic
            if task.diagnostic is not None:
                self.stage.clear()
                print_diagnostic(task.diagnostic)
        before = self._rows_written.get(task.task_id, 0)
        self._rows_written[task.task_id] = task.rows_written
        if task.rows_written > before or task.state in ENDED_STATES:
            self.stage.clear()
        elif self.stage.stage == _STARTING and task.state is TaskState.RUNNING:
            self.stage.show("waiting for rows")
        if task.rows_written > before:
            print_status(f"{task.rows_written:,} rows written")
