"""Keeps the plans of all connectors up to date while an instance leads.

- `ConnectorFeed` follows the connectors of the config service, with their plans in force
- `ConnectorPlans` makes plans: a worker with the plugin returns the partitions, `update_plans`
  divides them so that as few tasks as possible change, and the config service stores the result. A
  record of the scheduler holds the configuration that the plans were made for, so a crash between
  the two writes only means that the plans are made again
- `PlanningLoop` runs both, for the connectors that `PlanSchedule` names
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, Protocol

from penstock.client import ConfigClient, WorkerClient
from penstock.model.admin import PlannedConnector
from penstock.model.backoff import RestartPolicy
from penstock.model.connector import ApplyAction, Connector, TaskPlan
from penstock.model.errors import (
    Diagnostic,
    FencedError,
    InternalError,
    PenstockError,
    error_from_diagnostic,
)
from penstock.rpc.channels import Dial, open_channel
from penstock.rpc.deadlines import deadline
from penstock.scheduler.leader.leadership import Leadership
from penstock.scheduler.leader.stored_state import store_plan_record
from penstock.scheduler.state.cluster import Cluster
from penstock.scheduler.state.desired_state import (
    MAX_TASKS,
    DesiredConnector,
    digest_config,
    plan_content,
    plan_too_large,
    too_many_tasks,
)
from penstock.scheduler.state.plans import PlanRequest, PlanSchedule, update_plans
from penstock.scheduler.state.records import PlanRecord
from penstock.scheduler.state.statuses import (
    has_unknown_lag,
    reported_statuses,
    unknown_lag_warning,
)
from penstock.wire.connector import PLAN

log = logging.getLogger(__name__)


PLAN_TIMEOUT_S: Final = 60.0
"""Seconds for a plan: a plugin may have to start, and may query a database for its tables. Longer
keeps one of the few planning slots busy; shorter fails a slow but healthy database."""


APPLY_TIMEOUT_S: Final = 150.0
"""Seconds for changes of external systems: longer than the plugin has for them."""

MAX_PLAN_BYTES: Final = 8 << 20
"""Bytes of the plan of one task. It is sent in one message, and gRPC refuses messages of more than
16 MiB: a worker would get no assignment at all."""


class Planner(Protocol):
    """Splits a connector into tasks."""

    async def plan(self, address: str, connector: Connector) -> PlannedConnector:
        """Return the plans that the worker at an address makes."""

    async def apply(
        self, address: str, connector: Connector, action: ApplyAction, last: Connector | None
    ) -> None:
        """Let the worker at an address create or change the resources of a connector in external
        systems. `last` has the configuration that was applied last.
        """


class WorkerPlanner:
    """Calls workers, each over a channel that is closed again: plans are rarely made."""

    def __init__(self, dial: Dial = open_channel) -> None:
        """`dial` opens channels to workers."""
        self._dial = dial

    async def plan(self, address: str, connector: Connector) -> PlannedConnector:
        """Return the plans that the worker at an address makes."""
        async with WorkerClient(address, PLAN_TIMEOUT_S, self._dial) as worker:
            return await worker.plan(connector)

    async def apply(
        self, address: str, connector: Connector, action: ApplyAction, last: Connector | None
    ) -> None:
        """Let the worker at an address create or change the resources of a connector in external
        systems. `last` has the configuration that was applied last.
        """
        async with WorkerClient(address, APPLY_TIMEOUT_S, self._dial) as worker:
            applied = await worker.apply(connector, action, last)
        for found in applied.diagnostics:
            log.warning("connector %s: %s", connector.name, error_from_diagnostic(found))


class ConnectorPlans:
    """Reads, makes and stores the plans of connectors."""

    def __init__(self, config: ConfigClient, planner: Planner | None = None) -> None:
        """`config` stores the plans; the caller closes it. `planner` is by default whichever worker
        a request names.
        """
        self.config = config
        self._planner = planner or WorkerPlanner()

    async def read(
        self, connector: Connector, records: Mapping[str, PlanRecord]
    ) -> DesiredConnector:
        """Return a connector with its plans in force."""
        stored = await self.config.list_plans(connector.name, connector.generation)
        epoch = stored[0].epoch if stored else 0
        record = records.get(connector.generation)
        planned_for = record.config if record is not None and record.epoch == epoch else ""
        has_monitor = record is not None and record.monitor
        plans = tuple(one.plan for one in stored)
        return DesiredConnector(connector, plans, epoch, planned_for, has_monitor)

    async def apply(
        self, request: PlanRequest, record: PlanRecord, leadership: Leadership
    ) -> PlanRecord:
        """Let plugins apply what changed of a connector to external systems; returns the new
        record. It is stored at once, because the plan that follows may fail.

        Raises:
            PenstockError: it could not be applied, or not be stored.
        """
        connector = request.connector
        if request.action is None:
            return record
        last = await self._last_applied(connector, record.applied)
        async with deadline(f"scheduler.apply of {connector.name}", APPLY_TIMEOUT_S):
            await self._planner.apply(request.address, connector, request.action, last)
        applied = replace(record, applied=connector.version)
        await store_plan_record(leadership, connector.generation, applied)
        return applied

    async def make(
        self, request: PlanRequest, record: PlanRecord, leadership: Leadership
    ) -> PlanRecord:
        """Plan a connector and store its plans; returns the new record.

        Raises:
            PenstockError: it could not be planned, or not be stored.
        """
        connector = request.connector
        config = {**connector.config, "tasks.max": str(request.tasks)}
        async with deadline(f"scheduler.plan of {connector.name}", PLAN_TIMEOUT_S):
            made = await self._planner.plan(request.address, replace(connector, config=config))
        # in a thread: a hundred thousand partitions take a second, and the lease must be renewed
        plans = await asyncio.to_thread(_divide, request, made.plans)
        epoch = await self._store(request, plans)
        planned = PlanRecord(digest_config(connector), epoch, made.monitor, record.applied)
        await store_plan_record(leadership, connector.generation, planned)
        return planned

    async def _last_applied(self, connector: Connector, version: int) -> Connector | None:
        if not version:
            return None
        try:
            revision = await self.config.get_revision(connector.name, version)
        except PenstockError as error:
            if error.code != "config.revision_not_found":  # old revisions are deleted
                raise
            return None
        return replace(connector, kind=revision.kind, config=revision.config, version=version)

    async def _store(self, request: PlanRequest, plans: Sequence[TaskPlan]) -> int:
        """Store plans, unless they equal those in force; returns their epoch."""
        connector = request.connector
        if request.old and _contents(plans) == _contents(request.old):
            stored = await self.config.list_plans(connector.name, connector.generation)
            if stored and _contents([one.plan for one in stored]) == _contents(plans):
                return stored[0].epoch
        return await self.config.put_plans(connector.name, connector.generation, plans)


def _divide(request: PlanRequest, fresh: Sequence[TaskPlan]) -> tuple[TaskPlan, ...]:
    """Return the plans that follow the old ones, if they are within the limits."""
    plans = update_plans(request.connector.generation, request.old, fresh, request.tasks)
    if len(plans) > MAX_TASKS:
        raise error_from_diagnostic(too_many_tasks(len(plans)))
    for plan in plans:
        size = PLAN.to_proto(plan).ByteSize()
        if size > MAX_PLAN_BYTES:
            raise error_from_diagnostic(plan_too_large(plan.task_id, size, MAX_PLAN_BYTES))
    return plans


def _contents(plans: Sequence[TaskPlan]) -> dict[str, object]:
    return {plan.task_id: plan_content(plan) for plan in plans}


LIST_INTERVAL_S: Final = 30.0
"""Seconds after which connectors are listed although no watch reported a change: a watch may lose
one. Shorter loads the config service for nothing, longer leaves a lost change unseen."""

MAX_CONCURRENT_READS: Final = 16
"""Connectors whose plans are read concurrently. A new leader reads those of all connectors; fewer
let it start later, more overload the config service."""

RETRY_DELAY_S: Final = 0.5
"""Seconds between attempts while the config service is away. Running tasks continue meanwhile."""


class ConnectorFeed:
    """Passes the connectors to `on_change` whenever they change. Cancel `run` to end it."""

    def __init__(
        self,
        plans: ConnectorPlans,
        records: Mapping[str, PlanRecord],
        on_change: Callable[[Iterable[DesiredConnector], int], None],
    ) -> None:
        """`records` are the known plan records; they may change while this runs."""
        self._plans, self._records, self._on_change = plans, records, on_change
        self._known: dict[str, DesiredConnector] = {}
        self._stale: set[str] = set()
        self._hint, self._listed = asyncio.Event(), asyncio.Event()
        self._revision = 0

    def invalidate(self, generation: str) -> None:
        """Read the plans of a connector again: there are new ones."""
        self._stale.add(generation)
        self._hint.set()

    async def run(self) -> None:
        """List the connectors at once, at every hint, and at an interval."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            while True:
                self._hint.clear()
                try:
                    await self._list()
                except PenstockError as error:
                    log.warning("cannot list the connectors: %s", error)
                    self._hint.set()
                    await asyncio.sleep(RETRY_DELAY_S)
                await self._wait()

    async def _list(self) -> None:
        listing = await self._plans.config.list()
        stale, self._stale = self._stale, set()
        known: dict[str, DesiredConnector] = {}
        try:
            for start in range(0, len(listing.connectors), MAX_CONCURRENT_READS):
                some = listing.connectors[start : start + MAX_CONCURRENT_READS]
                for desired in await asyncio.gather(*(self._read(one, stale) for one in some)):
                    known[desired.generation] = desired
        except PenstockError:
            self._stale |= stale
            raise
        self._known, self._revision = known, listing.revision
        self._listed.set()
        self._on_change(known.values(), listing.revision)

    async def _read(self, connector: Connector, stale: Container[str]) -> DesiredConnector:
        known = self._known.get(connector.generation)
        is_unchanged = known is not None and known.connector == connector
        if known is not None and is_unchanged and connector.generation not in stale:
            return known
        return await self._plans.read(connector, self._records)

    async def _watch(self) -> None:
        await self._listed.wait()
        while True:
            try:
                # From the listed revision on: a watch from now on would miss the changes between
                # the list and the start of the watch.
                async for _ in self._plans.config.watch(self._revision):
                    self._hint.set()
            except PenstockError as error:
                log.debug("the watch of the connectors ended: %s", error)
            self._hint.set()
            await asyncio.sleep(RETRY_DELAY_S)

    async def _wait(self) -> None:
        with suppress(TimeoutError):  # wait_for would lose a cancellation that comes with a hint
            async with asyncio.timeout(LIST_INTERVAL_S):
                await self._hint.wait()


MAX_CONCURRENT_PLANS: Final = 8
"""Connectors that are planned concurrently. More load the workers with plugins that start; fewer
let one slow database delay all others."""


class PlanningLoop:
    """Follows the connectors (`run`), and makes the plans that are due (`start_due`)."""

    def __init__(
        self,
        policy: RestartPolicy,
        rng: random.Random,
        leadership: Leadership,
        plans: ConnectorPlans,
        on_change: Callable[[Iterable[DesiredConnector], int], None],
        clock: Callable[[], float],
    ) -> None:
        """`on_change` gets the connectors whenever they change; `rng` spreads retries in time."""
        self.schedule = PlanSchedule(policy, rng)
        self._leadership, self._clock = leadership, clock
        self._records: dict[str, PlanRecord] = {}
        self._plans = plans
        self._feed = ConnectorFeed(plans, self._records, on_change)
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_PLANS)
        self._warned: set[str] = set()

    def load(self, records: Mapping[str, PlanRecord]) -> None:
        """Set the stored plan records, by generation."""
        self._records.clear()
        self._records.update(records)

    def remove_gone(self, connectors: Mapping[str, DesiredConnector]) -> list[str]:
        """Forget the connectors that no longer exist, and return their generations."""
        gone = [generation for generation in self._records if generation not in connectors]
        for generation in gone:
            del self._records[generation]
        return gone

    async def run(self) -> None:
        """Follow the connectors until cancelled."""
        await self._feed.run()

    def start_due(
        self, group: asyncio.TaskGroup, cluster: Cluster, on_done: Callable[[], None], now: float
    ) -> None:
        """Start to make the plans that are due; each calls `on_done` at its end."""
        self._observe_lag(cluster, now)
        self._warned &= cluster.connectors.keys()
        connectors = cluster.connectors.values()
        for request in self.schedule.due_requests(connectors, cluster.workers, now):
            group.create_task(self._make(request, on_done))

    async def _make(self, request: PlanRequest, on_done: Callable[[], None]) -> None:
        generation = request.connector.generation
        try:
            async with self._slots:
                record = self._records.get(generation, PlanRecord())
                record = await self._plans.apply(request, record, self._leadership)
                self._records[generation] = record
                planned = await self._plans.make(request, record, self._leadership)
        except FencedError:
            raise
        except PenstockError as error:
            self._record_failure(request, error.diagnostic)
        except Exception as error:
            # an unexpected error fails this connector alone (invariant 8)
            log.exception("connector %s cannot be planned", request.connector.name)
            why = InternalError("scheduler.plan", repr(error)[:500]).diagnostic
            self._record_failure(request, why)
        else:
            self._records[generation] = planned
            self.schedule.record_success(generation, request.worker, planned, self._clock())
            self._feed.invalidate(generation)
        on_done()

    def _record_failure(self, request: PlanRequest, why: Diagnostic) -> None:
        log.warning("connector %s cannot be planned: %s", request.connector.name, why)
        self.schedule.record_failure(request, why, self._clock())

    def _warn_of_unknown_lag(self, desired: DesiredConnector) -> None:
        """Log once that `lag.target` of a connector has no effect. Its status contains it, too."""
        if desired.generation not in self._warned:
            self._warned.add(desired.generation)
            log.warning("connector %s: %s", desired.connector.name, unknown_lag_warning(desired))

    def _observe_lag(self, cluster: Cluster, now: float) -> None:
        """Pass the progress of the connectors to the schedule whose number of tasks follows lag."""
        for desired in cluster.connectors.values():
            if not self.schedule.scales_by_lag(desired):
                continue
            if has_unknown_lag(cluster, desired):
                self._warn_of_unknown_lag(desired)
            reported = reported_statuses(cluster, desired)
            statuses = [status for status in reported if status is not None]
            is_known = len(statuses) == len(reported) and all(s.rows_left >= 0 for s in statuses)
            rows_left = sum(status.rows_left for status in statuses) if is_known else -1
            rows_moved = sum(status.rows_written for status in statuses)
            self.schedule.observe_progress(desired, rows_left, rows_moved, now)
