"""Live-row inspections of a task: samples of its micro-batches for users who inspect it.

An inspection is bounded in rows, bytes and time. Rows that its reader does not take in time are
counted, not kept. A task without inspections does no extra work.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from penstock.aio import cancel_and_wait
from penstock.model.errors import (
    ConfigError,
    PenstockError,
    RetriableError,
    error_from_diagnostic,
    nearest_names,
)
from penstock.model.inspection import (
    InspectedRow,
    InspectedRows,
    InspectRules,
    RowStage,
    Stage,
    list_stage_names,
)
from penstock.model.step import Step
from penstock.model.stream import BatchReady, StreamSchema
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.worker.ports import Chain, Engine, Plan, SourceReader

log = logging.getLogger(__name__)


MAX_INSPECTIONS: Final = 8
"""Concurrent inspections of one task (invariant 12)."""

MAX_SAMPLE_ROWS: Final = 50
"""Rows of one sample. More enlarge the report, and no reader keeps up with them."""

MAX_PENDING_ROWS: Final = 200
"""Rows that wait for a reader. More would be old when they are read."""

SAMPLE_INTERVAL_S: Final = 0.25
"""Time between two samples of a task. Shorter costs the task throughput (a sample is another job of
about 20 ms); longer makes an inspection sluggish.
"""


class Inspection:
    """One inspection. Created by `Inspections.open`."""

    def __init__(self, rules: InspectRules, clock: Callable[[], float]) -> None:
        self.rules = rules
        self._clock, self._until = clock, clock() + rules.seconds
        self._rows: list[InspectedRow] = []
        self._left = rules.rows
        self._missed = self._taken = 0
        self._over: PenstockError | None = None
        self._news = asyncio.Event()

    def wanted_rows(self) -> int:
        """Return how many rows the next sample may have: 0 when the reader lags behind."""
        return min(self._left, MAX_PENDING_ROWS - len(self._rows), MAX_SAMPLE_ROWS)

    def add_rows(self, rows: Sequence[InspectedRow]) -> None:
        """Add the rows of a sample."""
        some = rows[: self.wanted_rows()]
        self._rows += [row.truncate(self.rules.row_bytes) for row in some]
        self._left -= len(some)
        self._taken += len(some)
        self._news.set()

    def count_missed(self, rows: int) -> None:
        """Count the rows of a finished micro-batch that were not in its sample."""
        self._missed += max(0, rows - self._taken)
        self._taken = 0

    def close(self, why: PenstockError) -> None:
        """End the inspection with an error after the rows that are pending."""
        self._over = why
        self._news.set()

    async def read(self) -> AsyncIterator[InspectedRows]:
        """Iterate over the sampled rows until the limit of rows or time is reached.

        Raises:
            RetriableError: `worker.task_left`.
            ConfigError: `worker.no_stage`.
        """
        while self._clock() < self._until:
            if self._rows:
                rows, self._rows = tuple(self._rows), []
                missed, self._missed = self._missed, 0
                yield InspectedRows(rows, missed)
            elif self._over is not None:
                raise self._over
            elif not self._left:
                return
            else:
                await self._wait()

    async def _wait(self) -> None:
        self._news.clear()
        try:
            async with asyncio.timeout(max(0.0, self._until - self._clock())):
                await self._news.wait()
        except TimeoutError:
            return


class Inspections:
    """The inspections of one task."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._inspections: set[Inspection] = set()
        self._next = 0.0
        self._transforms: Sequence[str] | None = None

    def set_transforms(self, transforms: Sequence[str]) -> None:
        """Set the chain from now on. Inspections of a stage that it lacks are closed."""
        self._transforms = transforms
        for inspection in self._inspections:
            if self._is_missing(inspection.rules.stage):
                inspection.close(_no_stage(inspection.rules.stage, transforms))

    @contextmanager
    def open(self, rules: InspectRules) -> Iterator[Inspection]:
        """Start an inspection that ends with the block.

        Raises:
            RetriableError: `worker.too_many_looks`.
            ConfigError: `worker.no_stage`.
        """
        if self._transforms is not None and self._is_missing(rules.stage):
            raise _no_stage(rules.stage, self._transforms)
        if len(self._inspections) >= MAX_INSPECTIONS:
            raise RetriableError(
                "worker.too_many_looks",
                f"the task has {MAX_INSPECTIONS} inspections, the maximum",
                fix="Retry when one of them has ended.",
            )
        inspection = Inspection(rules.within_limits(), self._clock)
        self._inspections.add(inspection)
        try:
            yield inspection
        finally:
            self._inspections.discard(inspection)

    def sample_requests(self) -> dict[Stage, InspectRules]:
        """Return what to sample of the next micro-batch, by stage. Empty without an inspection, or
        while the last sample is fresh.
        """
        if not self._inspections or self._clock() < self._next:
            return {}
        found: dict[Stage, InspectRules] = {}
        for inspection in self._inspections:
            rules = found.get(
                inspection.rules.stage, replace(inspection.rules, rows=0, row_bytes=0)
            )
            found[inspection.rules.stage] = replace(
                rules,
                rows=max(rules.rows, inspection.wanted_rows()),
                row_bytes=max(rules.row_bytes, inspection.rules.row_bytes),
            )
        self._next = self._clock() + SAMPLE_INTERVAL_S
        return {stage: rules for stage, rules in found.items() if rules.rows}

    def add_sample(self, stage: Stage, rows: Sequence[InspectedRow]) -> None:
        """Pass a sample to the inspections of a stage."""
        for inspection in self._inspections:
            if inspection.rules.stage == stage:
                inspection.add_rows(rows)

    def record_batch(self, rows_read: int, rows_written: int) -> None:
        """Record a finished micro-batch. How many rows passed behind a transform is not known, but
        at least as many as were written.
        """
        for inspection in self._inspections:
            inspection.count_missed(
                rows_read if inspection.rules.stage is RowStage.READ else rows_written
            )

    def close(self) -> None:
        """End all inspections: the task leaves this worker."""
        for inspection in self._inspections:
            inspection.close(_left())

    def _is_missing(self, stage: Stage) -> bool:
        return isinstance(stage, str) and stage not in (self._transforms or ())


def _no_stage(stage: Stage, transforms: Sequence[str]) -> ConfigError:
    names = list_stage_names(transforms)
    near = nearest_names(str(stage), names)
    guess = f"Did you mean {' or '.join(near)}? " if near else ""
    return ConfigError(
        "worker.no_stage",
        f"the chain of the task has no transform {str(stage)[:200]!r}",
        fix=f"{guess}Valid stages, in order: {', '.join(names)}.",
        config_path="transforms",
        suggestion=near[0] if near else "",
    )


def _left() -> RetriableError:
    return RetriableError(
        "worker.task_left",
        "the task ended on this worker, or restarts",
        fix="Find its worker with `penstock connector status`, and inspect it there.",
    )


SAMPLE_TIMEOUT_S: Final = 1.0
"""Time that a finished micro-batch waits for its sample. Then its batches are released and cannot
be fetched again. Longer costs throughput; shorter misses the first sample, whose plan has to be
analysed.
"""


SamplePlans: TypeAlias = dict[Stage, tuple[Plan, str]]
"""Cached plans by stage, each with the name of the dataset at that stage."""


@dataclass(slots=True)
class SampleSource:
    """What a sample can be taken of: batches of one schema, with its way through the chain."""

    schema: StreamSchema
    dataset: str
    steps: tuple[Step, ...]
    plans: SamplePlans
    batches: Sequence[BatchReady] = field(default=())


class Sampler:
    """Samples the micro-batches of one run of a task."""

    def __init__(
        self,
        engine: Engine,
        reader: SourceReader,
        inspections: Inspections,
        chain: Chain,
        *,
        task_id: str,
        epoch: int,
        stall_timeout_s: float,
    ) -> None:
        self._engine, self._reader, self._inspections, self._chain = (
            engine,
            reader,
            inspections,
            chain,
        )
        self._name, self._epoch, self._stall_timeout_s = f"{task_id}#look", epoch, stall_timeout_s
        self._turn = 0

    @asynccontextmanager
    async def sample_during(
        self, sources: Sequence[SampleSource], lag: float
    ) -> AsyncIterator[None]:
        """Sample a micro-batch that runs in the block, if there is an inspection."""
        wanted = self._inspections.sample_requests()
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
            await asyncio.wait(samples, timeout=SAMPLE_TIMEOUT_S)
        finally:
            await cancel_and_wait(*samples)

    async def _sample(
        self, stage: Stage, rules: InspectRules, source: SampleSource, lag: float
    ) -> None:
        batches = choose_batches(source.batches, rules.rows, self._turn)
        try:
            plan, topic = await self._plan(stage, source)
            (report,) = await self._engine.run(plan, self._ticket(batches, rules), lag=lag)
            if report.error is not None:
                raise error_from_diagnostic(report.error)
        except PenstockError as error:  # the micro-batch fails for the same reason and reports it
            log.debug("no sample of %s: %s", self._name, error)
            return
        self._inspections.add_sample(stage, _rows(report, topic, batches[0].partition_id))

    async def _plan(self, stage: Stage, source: SampleSource) -> tuple[Plan, str]:
        found = source.plans.get(stage)
        if found is None:
            topic, steps = self._steps_to(stage, source)
            plan = await asyncio.to_thread(
                self._engine.build, self._name, source.schema.arrow, steps, 1
            )
            found = source.plans[stage] = plan, topic
        return found

    def _steps_to(self, stage: Stage, source: SampleSource) -> tuple[str, tuple[Step, ...]]:
        """Return the name of the dataset at a stage, and the steps up to it."""
        schema = source.schema
        match stage:
            case RowStage.READ:
                return schema.dataset, ()
            case RowStage():
                return source.dataset, source.steps
        way = self._chain.until(stage).compile(schema.dataset, schema.arrow)
        return way.dataset, way.steps

    def _ticket(self, batches: Sequence[BatchReady], rules: InspectRules) -> Ticket:
        read = self._reader.ticket([one.seq for one in batches], batches[0].schema_id)
        write = {"kind": "live_rows", "rows": rules.rows, "row_bytes": rules.row_bytes}
        slots = (SlotTicket(0, sum(one.rows for one in batches), read, write),)
        return Ticket(self._name, self._epoch, 0, slots, self._stall_timeout_s)


def choose_batches(batches: Sequence[BatchReady], rows: int, turn: int) -> list[BatchReady]:
    """Return the first batches of one partition that have `rows` rows, because each chosen batch is
    fetched again. Partitions take turns.
    """
    partitions = list(dict.fromkeys(batch.partition_id for batch in batches))
    partition = partitions[turn % len(partitions)]
    found: list[BatchReady] = []
    for batch in batches:
        if batch.partition_id == partition and sum(one.rows for one in found) < rows:
            found.append(batch)
    return found


def _rows(report: SlotReport, topic: str, partition: str) -> list[InspectedRow]:
    return [
        InspectedRow(topic, partition, offset, ts_us, text, cut)
        for text, cut, offset, ts_us in report.detail["rows"]
    ]
