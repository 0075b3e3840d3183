"""What a case has at hand: a plugin that runs, fresh ones, worlds, a trial to compare with."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from penstock.api.connector.v1 import plugin_service_pb2 as plugin_pb
from penstock.conformance.calls import RefusedError, call
from penstock.conformance.cases import Case
from penstock.conformance.declared import Declared
from penstock.conformance.process import Plugin, started
from penstock.conformance.reading import Order, Reading, Taken, Trace, reading
from penstock.conformance.rows import text_of
from penstock.conformance.verdict import NotApplicableError, RuleBrokenError, require
from penstock.conformance.world import World, world
from penstock.plugin.installed.manifest import Manifest


@dataclass(slots=True)
class Grounds:
    """What all connectors of a run share: the manifest, and a process for what leaves it whole."""

    manifest: Manifest
    folder: Path
    runtime_dir: Path
    is_folder: bool
    stack: AsyncExitStack
    patience: float
    description: plugin_pb.DescribeResponse = field(default_factory=plugin_pb.DescribeResponse)
    _shared: Plugin | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def fresh(self, **how: Any) -> AsyncIterator[Plugin]:
        """Start a process of one's own, and dial it."""
        async with started(self.manifest, self.runtime_dir, **how) as plugin:
            await plugin.connect()
            yield plugin

    async def shared(self) -> Plugin:
        """Return the process that cases share; another one when the last one ended."""
        async with self._lock:
            if self._shared is None or self._shared.exit_code is not None:
                self._shared = await self.stack.enter_async_context(self.fresh())
            return self._shared

    async def describe(self) -> plugin_pb.DescribeResponse:
        """Ask the plugin what it is, once."""
        if not self.description.connectors:
            plugin = await self.shared()
            request = plugin_pb.DescribeRequest()
            self.description = await call(plugin.plugins.Describe, request, plugin.metadata)
        return self.description


SMALL: Final = {"max_batch_rows": 7}
"""How most tasks are opened: many small batches, so that there is something between them."""


@dataclass(frozen=True, slots=True)
class Trial:
    """An undisturbed reading, and its rows as they are compared."""

    trace: Trace
    texts: list[str]


class Bench:
    """One connector on trial. The cases of the process have one without a connector."""

    def __init__(
        self,
        grounds: Grounds,
        spec: plugin_pb.ConnectorSpec | None = None,
        declared: Declared | None = None,
    ) -> None:
        self.grounds = grounds
        self._spec = spec
        self._declared = declared
        self._stack = AsyncExitStack()
        self._trial: Trial | RuleBrokenError | None = None
        self._trying = asyncio.Lock()
        self._world: World | None = None
        self._tasks = 0
        self._lock = asyncio.Lock()

    @property
    def spec(self) -> plugin_pb.ConnectorSpec:
        """What the plugin says about the connector."""
        assert self._spec is not None  # noqa: S101 - only cases of connectors ask
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
    def ends(self) -> bool:
        """Whether the source ends by itself, as it is configured."""
        return self.spec.source.bounded and not self.declared.endless

    @property
    def declared(self) -> Declared:
        """What the author declares.

        Raises:
            NotApplicableError: nothing.
        """
        if self._declared is None:
            raise NotApplicableError("nothing is declared of it")
        return self._declared

    def wants(self, case: Case) -> bool:
        """Tell whether a case is for a connector with these abilities."""
        if not case.needs:
            return True
        spec = self.spec
        if hasattr(spec.source, case.needs):
            return bool(getattr(spec.source, case.needs))
        modes = {plugin_pb.CommitMode.Name(mode) for mode in spec.sink.commit_modes}
        return any(f"COMMIT_MODE_{wanted}" in modes for wanted in case.needs.split("|"))

    def task_id(self) -> str:
        """Return the id of a task that no other case has."""
        self._tasks += 1
        return f"{self.name}-{self._tasks}"

    def order(self, **more: Any) -> Order:
        """Return how a task of its own is opened."""
        return Order(task_id=self.task_id(), patience=self.grounds.patience, **more)

    async def plugin(self) -> Plugin:
        """Return the process that cases share."""
        return await self.grounds.shared()

    @asynccontextmanager
    async def fresh(self, **how: Any) -> AsyncIterator[Plugin]:
        """Start a process of the case's own."""
        async with self.grounds.fresh(**how) as plugin:
            yield plugin

    @asynccontextmanager
    async def own_world(self) -> AsyncIterator[World]:
        """Make a world that no other case has."""
        async with world(self.declared, self.grounds.folder) as made:
            yield made

    @asynccontextmanager
    async def world(self) -> AsyncIterator[World]:
        """Return the world that cases of a source share, where reading leaves it as it is."""
        if self.spec.source.needs_commit:
            async with self.own_world() as made:
                yield made
            return
        async with self._lock:
            if self._world is None:
                self._world = await self._stack.enter_async_context(self.own_world())
        yield self._world

    async def trial(self) -> Trial:
        """Return what one undisturbed reading gave, made once.

        Raises:
            RuleBrokenError: not even that was possible; the same for every case that needs it.
        """
        async with self._trying:
            if self._trial is None:
                self._trial = await self._try()
        if isinstance(self._trial, RuleBrokenError):
            raise RuleBrokenError(str(self._trial))
        return self._trial

    async def _try(self) -> Trial | RuleBrokenError:
        plugin = await self.plugin()
        try:
            async with self.world() as made, reading(plugin, made, self.order(**SMALL)) as task:
                trace = await self.read_all(task)
                return Trial(trace, self.texts(trace.rows, made))
        except RuleBrokenError as error:
            return error
        except RefusedError as error:
            return RuleBrokenError(f"reading ended with an error: {error}")

    async def read_all(self, task: Reading, before: int = 0) -> Trace:
        """Read all rows but those that were read before, to the end: also what is too much."""
        if self.ends:
            await task.read(sys.maxsize)
            require(task.trace.drained, "a bounded source ended its stream without Drained")
            return task.trace
        if not self.declared.rows:
            raise NotApplicableError("`rows` does not declare how many rows there are")
        await task.read(self.declared.rows - before)
        if not task.trace.drained:
            await task.drain()
        return task.trace

    def texts(self, rows: Sequence[Taken], where: World) -> list[str]:
        """Return rows as they are compared: by partition, in order, without what a world adds."""
        left_out = self.declared.volatile
        made = [(one.partition, f"{one.dataset} {text_of(one.row, left_out)}") for one in rows]
        made.sort(key=lambda pair: where.neutral(pair[0]))  # stable: order within stays
        return [where.neutral(f"{partition} {text}") for partition, text in made]

    async def close(self) -> None:
        """Let go of the shared world."""
        await self._stack.aclose()
