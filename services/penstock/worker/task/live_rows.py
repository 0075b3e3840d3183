"""Who looks at the rows of a task, and what each has seen. Nearly always nobody: nothing is done.

A look is one person's: bounded in rows, bytes and time. Rows that its reader does not take in time
are counted, never kept.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from penstock.model.errors import ConfigError, PenstockError, RetriableError, error_of, nearest
from penstock.model.live_rows import Looked, LookedRow, LookRules, RowStage, Stage, stage_names
from penstock.model.step import Step
from penstock.model.stream import BatchReady, StreamSchema
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.worker.ports import Chain, Engine, Plan, ReadStream

log = logging.getLogger(__name__)


MOST_LOOKS: Final = 8
"""People who look at one task at once (invariant 12)."""

AT_ONCE: Final = 50
"""Rows of one sample. More make the report large, and nobody reads so fast."""

WAITING: Final = 200
"""Rows that wait for a reader. More are old before they are read."""

EVERY: Final = 0.25
"""Seconds between two samples of a task. Shorter costs the task rows (a sample is one more job of
some 20 ms), longer is felt by whoever looks."""


class Look:
    """One look. Made by `Looks.open`."""

    def __init__(self, rules: LookRules, clock: Callable[[], float]) -> None:
        self.rules = rules
        self._clock, self._until = clock, clock() + rules.seconds
        self._rows: list[LookedRow] = []
        self._left = rules.rows
        self._missed = self._taken = 0
        self._over: PenstockError | None = None
        self._news = asyncio.Event()

    def wants(self) -> int:
        """Return how many rows there is room for now: none for a reader that is behind."""
        return min(self._left, WAITING - len(self._rows), AT_ONCE)

    def show(self, rows: Sequence[LookedRow]) -> None:
        """Hand a sample of a micro-batch on."""
        some = rows[: self.wants()]
        self._rows += [row.fitted(self.rules.row_bytes) for row in some]
        self._left -= len(some)
        self._taken += len(some)
        self._news.set()

    def passed(self, rows: int) -> None:
        """Note that a micro-batch is through; what it showed is known."""
        self._missed += max(0, rows - self._taken)
        self._taken = 0

    def end(self, why: PenstockError) -> None:
        """Show nothing more than what is there."""
        self._over = why
        self._news.set()

    async def words(self) -> AsyncIterator[Looked]:
        """Iterate over what there is to see, until the rows or the time are used up.

        Raises:
            RetriableError: `worker.task_left`.
            ConfigError: `worker.no_stage`.
        """
        while self._clock() < self._until:
            if self._rows:
                rows, self._rows = tuple(self._rows), []
                missed, self._missed = self._missed, 0
                yield Looked(rows, missed)
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


class Looks:
    """The looks at one task."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looks: set[Look] = set()
        self._next = 0.0
        self._transforms: Sequence[str] | None = None

    def begin(self, transforms: Sequence[str]) -> None:
        """Take note of the chain that rows pass from now on; what it lacks is not looked at."""
        self._transforms = transforms
        for look in self._looks:
            if self._lacks(look.rules.stage):
                look.end(_no_stage(look.rules.stage, transforms))

    @contextmanager
    def open(self, rules: LookRules) -> Iterator[Look]:
        """Look for the time of the body.

        Raises:
            RetriableError: `worker.too_many_looks`.
            ConfigError: `worker.no_stage`.
        """
        if self._transforms is not None and self._lacks(rules.stage):
            raise _no_stage(rules.stage, self._transforms)
        if len(self._looks) >= MOST_LOOKS:
            raise RetriableError(
                "worker.too_many_looks",
                f"{MOST_LOOKS} look at this task already",
                fix="Wait until one has ended.",
            )
        look = Look(rules.bounded(), self._clock)
        self._looks.add(look)
        try:
            yield look
        finally:
            self._looks.discard(look)

    def wanted(self) -> dict[Stage, LookRules]:
        """Return what a sample of the next micro-batch should have, by stage; nothing while nobody
        looks, or the sample before is fresh.
        """
        if not self._looks or self._clock() < self._next:
            return {}
        found: dict[Stage, LookRules] = {}
        for look in self._looks:
            rules = found.get(look.rules.stage, replace(look.rules, rows=0, row_bytes=0))
            found[look.rules.stage] = replace(
                rules,
                rows=max(rules.rows, look.wants()),
                row_bytes=max(rules.row_bytes, look.rules.row_bytes),
            )
        self._next = self._clock() + EVERY
        return {stage: rules for stage, rules in found.items() if rules.rows}

    def show(self, stage: Stage, rows: Sequence[LookedRow]) -> None:
        """Show a sample to those who look at a stage."""
        for look in self._looks:
            if look.rules.stage == stage:
                look.show(rows)

    def moved(self, rows_read: int, rows_written: int) -> None:
        """Note that a micro-batch has moved. How many rows came behind a transform is not known:
        no fewer than were written.
        """
        for look in self._looks:
            look.passed(rows_read if look.rules.stage is RowStage.READ else rows_written)

    def end(self) -> None:
        """End all looks: the task is over here."""
        for look in self._looks:
            look.end(_left())

    def _lacks(self, stage: Stage) -> bool:
        return isinstance(stage, str) and stage not in (self._transforms or ())


def _no_stage(stage: Stage, transforms: Sequence[str]) -> ConfigError:
    names = stage_names(transforms)
    near = nearest(str(stage), names)
    guess = f"Did you mean {' or '.join(near)}? " if near else ""
    return ConfigError(
        "worker.no_stage",
        f"the chain of the task has no transform {str(stage)[:200]!r}",
        fix=f"{guess}Its stages are, in order: {', '.join(names)}.",
        config_path="transforms",
        suggestion=near[0] if near else "",
    )


def _left() -> RetriableError:
    return RetriableError(
        "worker.task_left",
        "the task has ended on this worker, or begins anew",
        fix="Ask the scheduler which worker has it, and look there.",
    )


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
