"""What a check has at hand: plugin processes, sandboxes, a baseline to compare with.

`case(ID)` registers the check of a case in `CHECKS`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.plugin.catalog.manifest import Manifest
from penstock_kit.conformance.calls import RefusedError, call
from penstock_kit.conformance.cases import Case
from penstock_kit.conformance.declaration import ConnectorDeclaration
from penstock_kit.conformance.process import Plugin, start_plugin_process
from penstock_kit.conformance.results import NotApplicableError, RuleBrokenError, require
from penstock_kit.conformance.rows import canonical_text
from penstock_kit.conformance.sandbox import Sandbox, create_sandbox
from penstock_kit.conformance.source_task import (
    ReadOptions,
    SourceRow,
    SourceTask,
    Trace,
    open_source,
)

_EXTRA_ROWS_S: Final = 0.2
"""Time in which a source that does not end may send more rows than are declared."""


@dataclass(slots=True)
class PluginUnderTest:
    """The plugin of a run: its manifest, and a process that the cases share which do not end it."""

    manifest: Manifest
    folder: Path
    runtime_dir: Path
    is_folder: bool
    stack: AsyncExitStack
    timeout_s: float
    description: plugin_pb.DescribeResponse = field(default_factory=plugin_pb.DescribeResponse)
    _plugin: Plugin | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def start_plugin(self, **options: Any) -> AsyncIterator[Plugin]:
        """Start another process, and connect to it."""
        async with start_plugin_process(self.manifest, self.runtime_dir, **options) as plugin:
            await plugin.connect()
            yield plugin

    async def shared_plugin(self) -> Plugin:
        """Return the process that cases share; a new one when the last one has ended."""
        async with self._lock:
            if self._plugin is None or self._plugin.exit_code is not None:
                self._plugin = await self.stack.enter_async_context(self.start_plugin())
            return self._plugin

    async def describe(self) -> plugin_pb.DescribeResponse:
        """Return the answer of Describe; the call is made once."""
        if not self.description.connectors:
            plugin = await self.shared_plugin()
            request = plugin_pb.DescribeRequest()
            self.description = await call(plugin.plugins.Describe, request, plugin.metadata)
        return self.description


SMALL_BATCHES: Final = {"max_batch_rows": 7}
"""Options of most tasks: many small batches, so that checkpoints lie between them."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """An undisturbed read of all rows, and its rows as they are compared."""

    trace: Trace
    canonical_rows: list[str]


class Bench:
    """One connector under test. The cases of the process have a bench without a connector."""

    def __init__(
        self,
        plugin_under_test: PluginUnderTest,
        spec: plugin_pb.ConnectorSpec | None = None,
        declaration: ConnectorDeclaration | None = None,
    ) -> None:
        self.plugin_under_test = plugin_under_test
        self._spec = spec
        self._declaration = declaration
        self._stack = AsyncExitStack()
        self._baseline: Baseline | RuleBrokenError | None = None
        self._baseline_lock = asyncio.Lock()
        self._sandbox: Sandbox | None = None
        self._tasks = 0
        self._lock = asyncio.Lock()

    @property
    def spec(self) -> plugin_pb.ConnectorSpec:
        """The plugin's description of the connector."""
        assert self._spec is not None  # noqa: S101 - only checks of connectors use it
        return self._spec

    @property
    def name(self) -> str:
        """The connector's name, empty for the process."""
        return self._spec.name if self._spec else ""

    @property
    def kind(self) -> str:
        """`source` or `sink`; empty for the process."""
        kind = self._spec.kind if self._spec else plugin_pb.KIND_UNSPECIFIED
        return {plugin_pb.KIND_SOURCE: "source", plugin_pb.KIND_SINK: "sink"}.get(kind, "")

    @property
    def is_bounded(self) -> bool:
        """Whether the source ends by itself with the declared configuration."""
        return self.spec.source.bounded and not self.declaration.endless

    @property
    def declaration(self) -> ConnectorDeclaration:
        """The author's declaration of the connector.

        Raises:
            NotApplicableError: there is none.
        """
        if self._declaration is None:
            raise NotApplicableError("it has no declaration")
        return self._declaration

    def supports(self, case: Case) -> bool:
        """Return whether the connector has the ability that a case needs."""
        if not case.needs:
            return True
        spec = self.spec
        if hasattr(spec.source, case.needs):
            return bool(getattr(spec.source, case.needs))
        modes = {plugin_pb.CommitMode.Name(mode) for mode in spec.sink.commit_modes}
        return any(f"COMMIT_MODE_{mode}" in modes for mode in case.needs.split("|"))

    def task_id(self) -> str:
        """Return a new task id."""
        self._tasks += 1
        return f"{self.name}-{self._tasks}"

    def read_options(self, **more: Any) -> ReadOptions:
        """Return the options of a new task."""
        return ReadOptions(
            task_id=self.task_id(), timeout_s=self.plugin_under_test.timeout_s, **more
        )

    async def shared_plugin(self) -> Plugin:
        """Return the process that the cases share."""
        return await self.plugin_under_test.shared_plugin()

    @asynccontextmanager
    async def start_plugin(self, **options: Any) -> AsyncIterator[Plugin]:
        """Start a process for one case."""
        async with self.plugin_under_test.start_plugin(**options) as plugin:
            yield plugin

    @asynccontextmanager
    async def new_sandbox(self) -> AsyncIterator[Sandbox]:
        """Create a sandbox for one case."""
        async with create_sandbox(self.declaration, self.plugin_under_test.folder) as sandbox:
            yield sandbox

    @asynccontextmanager
    async def sandbox(self) -> AsyncIterator[Sandbox]:
        """Return the sandbox that the cases of a source share; a new one where reads change it."""
        if self.spec.source.needs_commit:
            async with self.new_sandbox() as sandbox:
                yield sandbox
            return
        async with self._lock:
            if self._sandbox is None:
                self._sandbox = await self._stack.enter_async_context(self.new_sandbox())
        yield self._sandbox

    async def baseline(self) -> Baseline:
        """Return the result of an undisturbed read, which is made once.

        Raises:
            RuleBrokenError: the read failed; the same error for every case that needs it.
        """
        async with self._baseline_lock:
            if self._baseline is None:
                self._baseline = await self._read_baseline()
        if isinstance(self._baseline, RuleBrokenError):
            raise RuleBrokenError(str(self._baseline))
        return self._baseline

    async def _read_baseline(self) -> Baseline | RuleBrokenError:
        plugin = await self.shared_plugin()
        try:
            async with (
                self.sandbox() as sandbox,
                open_source(plugin, sandbox, self.read_options(**SMALL_BATCHES)) as task,
            ):
                trace = await self.read_all(task)
                return Baseline(trace, self.canonical_rows(trace.rows, sandbox))
        except RuleBrokenError as error:
            return error
        except RefusedError as error:
            return RuleBrokenError(f"reading ended with an error: {error}")

    async def read_all(self, task: SourceTask, before: int = 0) -> Trace:
        """Read the rows after the first `before` ones, to the end; also rows that are too many."""
        if self.is_bounded:
            await task.read(sys.maxsize)
            require(task.trace.drained, "a bounded source ended its stream without Drained")
            return task.trace
        if not self.declaration.rows:
            raise NotApplicableError("`rows` is not declared")
        await task.read(self.declaration.rows - before)
        for ready in await task.collect_ready(_EXTRA_ROWS_S):
            await task.fetch_rows(ready)
        return task.trace

    def canonical_rows(self, rows: Sequence[SourceRow], sandbox: Sandbox) -> list[str]:
        """Return rows as they are compared: by partition, in order, normalized."""
        omitted = self.declaration.volatile
        texts = [
            (one.partition, f"{one.dataset} {canonical_text(one.row, omitted)}") for one in rows
        ]
        texts.sort(
            key=lambda pair: sandbox.normalize(pair[0])
        )  # stable: rows of a partition stay in order
        return [sandbox.normalize(f"{partition} {text}") for partition, text in texts]

    async def close(self) -> None:
        """Remove the shared sandbox."""
        await self._stack.aclose()


Check: TypeAlias = Callable[[Bench, Case], Awaitable[None]]

CHECKS: Final[dict[str, Check]] = {}
"""Checks by the id of their case."""


def case(id_: str) -> Callable[[Check], Check]:
    """Register a function as the check of a case. It raises where the plugin breaks the case."""

    def register(check: Check) -> Check:
        if id_ in CHECKS:
            raise ValueError(f"case {id_} has two checks")
        CHECKS[id_] = check
        return check

    return register
