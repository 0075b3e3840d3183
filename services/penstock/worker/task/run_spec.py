"""What one life of a task is made of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from penstock.model.connector import CommitMode, Partition, TaskPlan
from penstock.model.errors import ConfigError
from penstock.model.identity import parse_canonical, partition_key
from penstock.model.metrics import PluginNumber
from penstock.model.stream import Offsets, PreparedTxn, WriteOpened
from penstock.worker.dead_letters.rejected_rows import LetterRules, Letters
from penstock.worker.job_retries import DEFAULT, Retries
from penstock.worker.ports import Announcer, Chain, Engine, ReadStream, WriteStream
from penstock.worker.task.batching import FlushRules
from penstock.worker.task.commit import OffsetWriter


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


async def positioned(
    plan: TaskPlan, opened: WriteOpened, claim: Claim, stored: TaskOffsets, epoch: int
) -> TaskPlan:
    """Return a plan with the offsets to start from, from whoever is the authority for them.

    A sink that keeps offsets itself is, where its last transaction is another one than was stored:
    a crash came between the two, or its database went back in time. When it is the same, what is
    stored counts: people may have altered it since, and partitions may have been in other hands.
    What is taken from the sink is stored before anything else: its next transaction may be one of
    other partitions, and then nothing else knows of this one after a crash.
    """
    planned = {partition.id for partition in plan.partitions}
    offsets: Offsets
    offsets = await (stored.every() if plan.finds_others else stored.get(sorted(planned)))
    token, last = opened.committed, claim.last_prepared
    known = token is not None and last is not None and token.txn_id == last.txn_id
    if opened.commit_mode is CommitMode.SINK and token is not None and not known:
        ours = parse_canonical(token.token.decode())
        if not plan.finds_others:
            ours = {id_: offset for id_, offset in ours.items() if id_ in planned}
        newer = last is None or token.txn_id > last.txn_id
        await stored.commit(ours, PreparedTxn(token.txn_id, epoch) if newer else None, token.txn_id)
        offsets = {**offsets, **ours}
    found = sorted(offsets.keys() - planned) if plan.finds_others else []
    later = tuple(Partition(partition_key(id_)) for id_ in found)
    return replace(plan, partitions=tuple(_at(p, offsets) for p in (*plan.partitions, *later)))


def refuse_weaker(asked: CommitMode, opened: WriteOpened) -> None:
    """Refuse a weaker commit mode than was asked for: never a quiet downgrade (rule R13)."""
    if asked is not CommitMode.UNSPECIFIED and opened.commit_mode is not asked:
        raise ConfigError(
            "delivery.not_available",
            f"the write end works in {opened.commit_mode.name} mode, {asked.name} was asked for",
            fix="Choose a sink that supports it, or leave `delivery` out.",
            config_path="delivery",
        )


def _at(partition: Partition, offsets: Offsets) -> Partition:
    offset = offsets.get(partition.id)
    return partition if offset is None else replace(partition, offset=offset)
