"""What one life of a task is made of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.model.connector import CommitMode, TaskPlan
from penstock.model.numbers import PluginNumber
from penstock.model.stream import PreparedTxn
from penstock.worker.batching import FlushRules
from penstock.worker.commit import OffsetWriter
from penstock.worker.letters import LetterRules, Letters
from penstock.worker.ports import Announcer, Chain, Engine, ReadStream, WriteStream
from penstock.worker.trying import DEFAULT, Retries


@dataclass(frozen=True, slots=True)
class Claim:
    """Where a claimed task stands in the offset service."""

    last_prepared: PreparedTxn | None
    recover: bool


class TaskOffsets(OffsetWriter, Protocol):
    """The offset service, as one task at one epoch sees it."""

    async def claim(self) -> Claim:
        """Fence older epochs."""

    async def get(self, partition_ids: list[str]) -> dict[str, Mapping[str, Any]]:
        """Read the offsets of partitions; those never committed are absent."""

    async def every(self) -> dict[str, Mapping[str, Any]]:
        """Read all offsets of the connector's generation."""


async def _never() -> None:
    await asyncio.Event().wait()


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What a run is made of. `open_reader` gets the plan with its offsets filled in; `held` is what
    the run keeps alive beside its ends; `changed` returns when another run has to begin, because
    secrets that this one was made with are no longer the right ones; `letters` makes what takes the
    bad rows of a read end, `retries` says how often errors are tried again that may pass;
    `plugin_version` is that of the source, or of the sink; `plugin_numbers`
    tells what the plugins at its ends have measured; `is_alone`: these plugins serve no other task,
    until `release` is called.
    """

    plan: TaskPlan
    epoch: int
    commit_mode: CommitMode
    rules: FlushRules
    stall: float
    drift: Announcer
    chain: Chain
    engine: Engine
    offsets: TaskOffsets
    writer: WriteStream
    open_reader: Callable[[TaskPlan], ReadStream]
    held: AbstractContextManager[None] = field(default_factory=nullcontext)
    changed: Callable[[], Coroutine[Any, Any, None]] = _never
    letters: Callable[[ReadStream], Letters] = lambda _: Letters(LetterRules())
    retries: Retries = DEFAULT
    plugin_version: str = ""
    plugin_numbers: Callable[[], tuple[PluginNumber, ...]] = tuple
    is_alone: bool = False
    release: Callable[[], None] = lambda: None
