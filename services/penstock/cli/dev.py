"""`penstock dev PIPELINE`: a pipeline that runs anew whenever its file or a plugin's files change.

The services and Spark stay warm, so a change is a second away from its rows. Offsets stay too: the
connector goes on where it was; `--fresh` forgets them at the start.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock.cli.errors import print_diagnostic, print_error
from penstock.cli.process import ENDED_TASKS, Earlier, JvmLostError, hosted
from penstock.cli.run import state_of
from penstock.cli.waiting import waiting
from penstock.model.connector import ENDED, Connector, TaskState, TaskStatus
from penstock.model.errors import Diagnostic, PenstockError
from penstock.pipeline_files.pipeline import read_pipeline
from penstock.plugin.installed.registry import fingerprint, plugin_folders
from penstock.standalone.node import Node
from penstock.standalone.reconcile import run_only, validate
from penstock.standalone.settings import node_settings

LOOK_EVERY: Final = 0.3
"""Seconds between looks at the files. Less costs CPU, more is felt after each save."""


_STARTS: Final = "starting the services, Spark and the plugins"


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
    parser.add_argument("--state", type=Path, help="state folder; default: one per pipeline file")
    parser.add_argument("--fresh", action="store_true", help="forget where the last run stopped")
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the verb, until it is interrupted."""
    return hosted(lambda earlier: _run(arguments, earlier), ended=0, printed=ENDED_TASKS)


async def _run(arguments: argparse.Namespace, earlier: Earlier) -> int:
    folders = [folder.resolve() for folder in arguments.plugins or [arguments.pipeline.parent]]
    state: Path = arguments.state or state_of(arguments.pipeline, "dev")
    if arguments.fresh and not earlier.resumed:
        shutil.rmtree(state, ignore_errors=True)
    paths = ",".join(map(str, folders))
    settings, _ = node_settings(
        {"state.dir": str(state), "plugin.path": paths, "plugin.reload": "0"}
    )
    async with AsyncExitStack() as stack:
        sign = _Sign()
        stack.callback(sign.end)
        sign.show(_STARTS)
        node = await stack.enter_async_context(Node(settings))
        await run_only(node, [])
        lost = asyncio.create_task(node.lost())
        telling = asyncio.create_task(_Telling(sign).follow(node))
        changing = asyncio.create_task(_Changes(node, arguments.pipeline, folders, sign).follow())
        try:
            watched = {lost, telling, changing}
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            for ended in (changing, telling, lost):
                if ended.done():
                    ended.result()
        finally:
            sign.end()
            for one in (changing, telling, lost):
                one.cancel()
            await asyncio.gather(changing, telling, lost, return_exceptions=True)
    raise JvmLostError


@dataclass(slots=True)
class _Sign:
    """What is waited for until rows move, one stage after the other; nothing once they do."""

    stage: str = ""
    _shown: ExitStack = field(default_factory=ExitStack)

    def show(self, stage: str) -> None:
        """Show a stage in place of the one before."""
        self.end()
        self.stage = stage
        self._shown.enter_context(waiting(stage))

    def end(self) -> None:
        """Show nothing."""
        self.stage = ""
        self._shown.close()


@dataclass(slots=True)
class _Changes:
    """Lets the node run what the files say, each time they say something else."""

    node: Node
    pipeline: Path
    folders: list[Path]
    sign: _Sign
    _stored: Connector | None = None

    async def follow(self) -> None:
        before: tuple[str, ...] = ()
        while True:
            now = await asyncio.to_thread(self._marks)
            if now == before:
                await asyncio.sleep(LOOK_EVERY)
                continue
            if before:
                say("changed: running it anew")
            before = now
            self.sign.show(_STARTS)
            try:
                await self._apply()
            except PenstockError as error:
                self.sign.end()
                print_error(error)
                say("waiting for a change")

    def _marks(self) -> tuple[str, ...]:
        stat = self.pipeline.stat() if self.pipeline.exists() else None
        file = f"{stat.st_mtime_ns} {stat.st_size}" if stat else ""
        return (file, *(mark for folder in self.folders for mark in _marks_of(folder)))

    async def _apply(self) -> None:
        await self.node.worker.reload_plugins()
        connector = read_pipeline(self.pipeline)
        checked, findings = await validate(self.node, connector)
        for finding in findings:
            print_diagnostic(finding)
        if self._stored == checked:
            await self.node.config.restart(checked.name, include_tasks=True)
        else:
            await self.node.config.put(checked)
        self._stored = checked


def _marks_of(folder: Path) -> list[str]:
    return [f"{plugin}: {fingerprint(plugin)}" for plugin in plugin_folders(folder)]


@dataclass(slots=True)
class _Telling:
    """Says how many rows were written, and what goes wrong, once each."""

    sign: _Sign
    _written: dict[str, int] = field(default_factory=dict)
    _said: dict[str, Diagnostic | None] = field(default_factory=dict)

    async def follow(self, node: Node) -> None:
        async for task in node.worker.watch_tasks(every=0.5):
            self._tell(task)

    def _tell(self, task: TaskStatus) -> None:
        if self._said.get(task.task_id) != task.diagnostic:
            self._said[task.task_id] = task.diagnostic
            if task.diagnostic is not None:
                self.sign.end()
                print_diagnostic(task.diagnostic)
        before = self._written.get(task.task_id, 0)
        self._written[task.task_id] = task.rows_written
        if task.rows_written > before or task.state in ENDED:
            self.sign.end()
        elif self.sign.stage == _STARTS and task.state is TaskState.RUNNING:
            self.sign.show("waiting for rows")
        if task.rows_written > before:
            say(f"{task.rows_written:,} rows written")


def say(text: str) -> None:
    """Tell a person what happens, on standard error."""
    print(text, file=sys.stderr, flush=True)
