"""Takes samples for those who look: one more small job beside a micro-batch, over a part of it.

Rows pass only through executors, so the sample is taken there, by a write end that returns some of
them as text with its report. A batch may be fetched again until it is released, so the job of the
micro-batch itself is as it always is: looking can neither change nor fail it (invariant 5).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from penstock.model.errors import PenstockError, error_of
from penstock.model.looks import LookedRow, LookRules, RowStage, Stage
from penstock.model.step import Step
from penstock.model.stream import BatchReady, StreamSchema
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.worker.looking import Looks
from penstock.worker.ports import Chain, Engine, Plan, ReadStream

log = logging.getLogger(__name__)

WITHIN: Final = 1.0
"""Seconds that a micro-batch waits for its sample after it has moved: then its batches are
released, and cannot be fetched any more. Longer costs rows, shorter misses the first sample, whose
plan has to be analysed."""


Plans: TypeAlias = dict[Stage, tuple[Plan, str]]
"""Kept plans, by what they look at, and what the dataset is called there."""


@dataclass(slots=True)
class Sampled:
    """What a sample may be taken of: a schema with its way through the chain, and batches."""

    schema: StreamSchema
    dataset: str
    steps: tuple[Step, ...]
    plans: Plans
    batches: Sequence[BatchReady] = field(default=())


class Sampler:
    """Samples the micro-batches of one run of a task."""

    def __init__(
        self,
        engine: Engine,
        reader: ReadStream,
        looks: Looks,
        chain: Chain,
        *,
        task_id: str,
        epoch: int,
        stall: float,
    ) -> None:
        self._engine, self._reader, self._looks, self._chain = engine, reader, looks, chain
        self._name, self._epoch, self._stall = f"{task_id}#look", epoch, stall
        self._turn = 0

    @asynccontextmanager
    async def beside(self, sources: Sequence[Sampled], lag: float) -> AsyncIterator[None]:
        """Take samples of a micro-batch that moves in the body, if anybody looks."""
        wanted = self._looks.wanted()
        if not wanted or not sources:
            yield
            return
        self._turn += 1
        source = sources[self._turn % len(sources)]  # each dataset has its turn
        samples = [
            asyncio.ensure_future(self._sample(stage, rules, source, lag))
            for stage, rules in wanted.items()
        ]
        try:
            yield
            await asyncio.wait(samples, timeout=WITHIN)
        finally:
            for sample in samples:
                sample.cancel()
            await asyncio.gather(*samples, return_exceptions=True)

    async def _sample(self, stage: Stage, rules: LookRules, source: Sampled, lag: float) -> None:
        batches = chosen(source.batches, rules.rows, self._turn)
        try:
            plan, topic = await self._plan(stage, source)
            (report,) = await self._engine.run(plan, self._ticket(batches, rules), lag=lag)
            if report.error is not None:
                raise error_of(report.error)
        except PenstockError as error:  # the micro-batch has the same, and says so
            log.debug("no sample of %s: %s", self._name, error)
            return
        self._looks.show(stage, _rows(report, topic, batches[0].partition_id))

    async def _plan(self, stage: Stage, source: Sampled) -> tuple[Plan, str]:
        found = source.plans.get(stage)
        if found is None:
            topic, steps = self._way(stage, source)
            plan = await asyncio.to_thread(
                self._engine.build, self._name, source.schema.arrow, steps, 1
            )
            found = source.plans[stage] = plan, topic
        return found

    def _way(self, stage: Stage, source: Sampled) -> tuple[str, tuple[Step, ...]]:
        """Return what the dataset is called at a stage, and the steps to there."""
        schema = source.schema
        match stage:
            case RowStage.READ:
                return schema.dataset, ()
            case RowStage():
                return source.dataset, source.steps
        way = self._chain.until(stage).compile(schema.dataset, schema.arrow)
        return way.dataset, way.steps

    def _ticket(self, batches: Sequence[BatchReady], rules: LookRules) -> Ticket:
        read = self._reader.ticket([one.seq for one in batches], batches[0].schema_id)
        write = {"kind": "look", "rows": rules.rows, "row_bytes": rules.row_bytes}
        slots = (SlotTicket(0, sum(one.rows for one in batches), read, write),)
        return Ticket(self._name, self._epoch, 0, slots, self._stall)


def chosen(batches: Sequence[BatchReady], rows: int, turn: int) -> list[BatchReady]:
    """Return the first batches of one partition that have so many rows: all that is chosen is
    fetched again. Each partition has its turn.
    """
    partitions = list(dict.fromkeys(batch.partition_id for batch in batches))
    partition = partitions[turn % len(partitions)]
    found: list[BatchReady] = []
    for batch in batches:
        if batch.partition_id == partition and sum(one.rows for one in found) < rows:
            found.append(batch)
    return found


def _rows(report: SlotReport, topic: str, partition: str) -> list[LookedRow]:
    return [
        LookedRow(topic, partition, offset, ts_us, text, cut)
        for text, cut, offset, ts_us in report.detail["rows"]
    ]
