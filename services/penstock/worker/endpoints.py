"""Which ends a connector's kind has, and how one run of a task opens them.

source: plugin → topic · sink: topic → plugin · pipeline: plugin → plugin · mirror: topic → topic
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.client import OffsetClient
from penstock.model.connector import ConnectorKind, TaskPlan
from penstock.model.stream import Offsets, PreparedTxn
from penstock.plugin import (
    PluginHost,
    PluginMonitor,
    PluginNumbers,
    PluginReadStream,
    PluginWriteStream,
)
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.worker.config.resolved_config import LETTERS_END, Design, acquire
from penstock.worker.dead_letters.publishing import Lettered
from penstock.worker.dead_letters.replay import LetterStream
from penstock.worker.planning.monitor import watch_of
from penstock.worker.ports import Announcer, ReadStream, Watch, WriteStream
from penstock.worker.task.run_spec import Claim
from penstock.worker.task.schema_drift import Drift

_READS_PLUGIN = frozenset({ConnectorKind.SOURCE, ConnectorKind.PIPELINE})
_WRITES_PLUGIN = frozenset({ConnectorKind.SINK, ConnectorKind.PIPELINE})


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends of one run: the write end, and how to open the read end once offsets are known;
    between them, what decides on columns that the write end has not. `numbers` are those that
    plugins have of themselves.
    """

    writer: Lettered
    drift: Announcer
    open_reader: Callable[[TaskPlan], ReadStream]
    numbers: tuple[PluginNumbers, ...] = ()


class EndMaker:
    """Makes the ends of tasks, and what watches them, out of plugins and topics."""

    def __init__(self, host: PluginHost, topics: EmbeddedTopics) -> None:
        self._host, self._topics = host, topics

    async def make(
        self, design: Design, plan: TaskPlan, epoch: int, *, places: bool = False, owner: str = ""
    ) -> Ends:
        """Return the ends of a run; plugin processes are started when they are not up. With
        `places`, rows of topics tell where they stand. With `owner`, source and sink have
        processes of their own.
        """
        numbers: list[PluginNumbers] = []
        rows = await self._writer(design, plan, numbers, owner)
        writer = Lettered(rows, await self._letters(design, plan), design.letters_to)
        drift = Drift(design.settings.drift, rows)
        reader = await self._reader(design, epoch, numbers, places=places, owner=owner)
        return Ends(writer, drift, reader, tuple(numbers))

    async def read_end(
        self, design: Design, epoch: int, *, places: bool = False
    ) -> Callable[[TaskPlan], ReadStream]:
        """Return what opens a read end alone."""
        return await self._reader(design, epoch, [], places=places)

    async def watch(self, design: Design) -> Watch:
        """Return what sees partitions appear at the read end."""
        if design.kind in _READS_PLUGIN:
            process, target = await acquire(self._host, design, "source")
            return PluginMonitor(process, target, design.settings.tasks_max)
        return watch_of(self._topics, design)

    async def _writer(
        self, design: Design, plan: TaskPlan, numbers: list[PluginNumbers], owner: str
    ) -> WriteStream:
        if design.kind in _WRITES_PLUGIN:
            process, target = await acquire(self._host, design, "sink", owner)
            numbers.append(told := PluginNumbers(process.plugin, "sink"))
            return PluginWriteStream(process, target, plan, numbers=told)
        settings = design.settings
        return self._topics.writer(
            plan.task_id,
            settings.topic_partitions,
            settings.topic_retention,
            require=design.reach.require_topic,
        )

    async def _letters(self, design: Design, plan: TaskPlan) -> WriteStream | None:
        """Return what takes dead letters; None where there is no place for them."""
        # beside the task, not as it: both may be written by one plugin, and to one table
        beside = TaskPlan(f"{plan.task_id}-letters")
        if design.parts.letters:
            process, target = await acquire(self._host, design, LETTERS_END)
            return PluginWriteStream(process, target, beside)
        if design.letters_to:
            return self._topics.writer(beside.task_id, 1, require=design.reach.require_topic)
        return None

    async def _reader(
        self,
        design: Design,
        epoch: int,
        numbers: list[PluginNumbers],
        *,
        places: bool,
        owner: str = "",
    ) -> Callable[[TaskPlan], ReadStream]:
        settings = design.settings
        if (replay := settings.replay) is not None:
            design.reach.require_topic(design.letters_to)
            rows = self._topics.rows(design.letters_to)
            return lambda plan: LetterStream(rows, plan.partitions, replay.changes)
        if design.kind in _READS_PLUGIN:
            process, target = await acquire(self._host, design, "source", owner)
            numbers.append(told := PluginNumbers(process.plugin, "source"))
            credit = settings.credit_bytes
            return lambda plan: PluginReadStream(
                process, target, plan, epoch, credit_bytes=credit, numbers=told
            )

        def opened(plan: TaskPlan) -> ReadStream:
            for topic in {str(one.key["topic"]) for one in plan.partitions}:
                design.reach.require_topic(topic, "topics")
            return self._topics.reader(
                plan.partitions, settings.offset_reset, settings.credit_bytes, places=places
            )

        return opened


@dataclass(slots=True)
class ServiceOffsets:
    """The offset service, as one life of a task at one epoch sees it."""

    client: OffsetClient
    generation: str
    task_id: str
    epoch: int
    _claim: int = 0

    async def claim(self) -> Claim:
        """Fence older epochs, and what earlier lives have on their way."""
        claim = await self.client.claim(self.generation, self.task_id, self.epoch)
        self._claim = claim.number
        return Claim(claim.last_prepared, claim.recover)

    async def get(self, partition_ids: list[str]) -> dict[str, Mapping[str, Any]]:
        """Read the offsets of partitions; those never committed are absent."""
        return dict(await self.client.get(self.generation, partition_ids))

    async def every(self) -> dict[str, Mapping[str, Any]]:
        """Read all offsets of the generation."""
        return {id_: offset async for id_, offset in self.client.list(self.generation)}

    async def commit(
        self, offsets: Offsets, prepared: PreparedTxn | None, applied_txn_id: int
    ) -> None:
        """Store offsets and prepared state in one fenced write."""
        await self.client.commit(
            self.generation,
            self.task_id,
            self.epoch,
            offsets,
            prepared,
            applied_txn_id,
            self._claim,
        )
