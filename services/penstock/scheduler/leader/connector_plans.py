"""Keeps the plans of all connectors up to date while an instance leads.

- `ConnectorFeed` follows the connectors of the config service
- `ConnectorPlans` makes plans: a worker with the plugin returns the partitions, and `update_plans`
  divides them so that as few tasks as possible change
- `PlanningLoop` joins the connectors with their plans. It has those made that `PlanSchedule` names,
  and stores them with the configuration that they were made for (`stored_plans`). The leader has
  all plans in memory: what it has stored is in force with its next turn
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Protocol

from penstock.client import ConfigClient, WorkerClient
from penstock.connector_config.keys import to_framework_names
from penstock.model.admin import PlannedConnector
from penstock.model.backoff import RestartPolicy
from penstock.model.connector import ApplyAction, Connector, ConnectorList, TaskPlan
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
from penstock.scheduler.leader.stored_plans import PlansInForce, PlanStore, load_plans
from penstock.scheduler.leader.stored_state import (
    StoredState,
    delete_keys,
    store_plan_record,
)
from penstock.scheduler.state.cluster import Cluster
from penstock.scheduler.state.desired_state import (
    MAX_TASKS,
    DesiredConnector,
    digest_config,
    is_monitor_id,
    plan_content,
    plan_too_large,
    plans_too_large,
    too_many_tasks,
)
from penstock.scheduler.state.plans import PlanRequest, PlanSchedule, update_plans
from penstock.scheduler.state.records import PlanRecord
from penstock.scheduler.state.statuses import (
    has_unknown_lag,
    reported_statuses,
    unknown_lag_warning,
)
from penstock.store.port import Store
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

MAX_PLANS_BYTES: Final = 64 << 20
"""Bytes of the plans of one connector, as stored (invariant 12). The leader has all of them in
memory."""


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


@dataclass(frozen=True, slots=True)
class MadePlans:
    """Plans that follow those in force, ordered by task number; `messages` is what is stored of
    them.
    """

    plans: tuple[TaskPlan, ...]
    messages: tuple[bytes, ...]
    monitor: bool = False


class ConnectorPlans:
    """Makes the plans of connectors."""

    def __init__(self, config: ConfigClient, planner: Planner | None = None) -> None:
        """`config` has the connectors; the caller closes it. `planner` is by default whichever
        worker a request names.
        """
        self.config = config
        self._planner = planner or WorkerPlanner()

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

    async def make(self, request: PlanRequest) -> MadePlans:
        """Plan a connector.

        Raises:
            PenstockError: it could not be planned.
        """
        connector = request.connector
        config = {**to_framework_names(connector.config), "tasks.max": str(request.tasks)}
        async with deadline(f"scheduler.plan of {connector.name}", PLAN_TIMEOUT_S):
            made = await self._planner.plan(request.address, replace(connector, config=config))
        # in a thread: a hundred thousand partitions take a second, and the lease must be renewed
        divided = await asyncio.to_thread(_divide, request, made.plans)
        return replace(divided, monitor=made.monitor)

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


def _divide(request: PlanRequest, fresh: Sequence[TaskPlan]) -> MadePlans:
    """Return the plans that follow the old ones, if they are within the limits."""
    plans = update_plans(request.connector.generation, request.old, fresh, request.tasks)
    if len(plans) > MAX_TASKS:
        raise error_from_diagnostic(too_many_tasks(len(plans)))
    messages, total = [], 0
    for plan in plans:
        message = PLAN.to_proto(plan).SerializeToString()
        total += len(message)
        if len(message) > MAX_PLAN_BYTES:
            raise error_from_diagnostic(plan_too_large(plan.task_id, len(message), MAX_PLAN_BYTES))
        if total > MAX_PLANS_BYTES:
            raise error_from_diagnostic(plans_too_large(MAX_PLANS_BYTES))
        messages.append(message)
    return MadePlans(plans, tuple(messages))


def _contents(plans: Sequence[TaskPlan]) -> dict[str, object]:
    return {plan.task_id: plan_content(plan) for plan in plans}


LIST_INTERVAL_S: Final = 30.0
"""Seconds after which connectors are listed although no watch reported a change: a watch may lose
one. Shorter loads the config service for nothing, longer leaves a lost change unseen."""

RETRY_DELAY_S: Final = 0.5
"""Seconds between attempts while the config service is away. Running tasks continue meanwhile."""


PACE: Final = 3.0
"""Pause after work on all connectors or tasks, in multiples of its CPU time: while a thousand
connectors are created, each change would otherwise be followed by work on all of them."""

MAX_PACE_S: Final = 0.5
"""Longest of these pauses. It delays what follows a change."""


def pause_s(spent_s: float) -> float:
    """Return the pause after work that took `spent_s` of CPU time."""
    return min(PACE * spent_s, MAX_PACE_S)


class ConnectorFeed:
    """Passes the connectors to `on_change` whenever they may have changed. Cancel `run` to end
    it.
    """

    def __init__(self, config: ConfigClient, on_change: Callable[[ConnectorList], None]) -> None:
        self._config, self._on_change = config, on_change
        self._hint, self._listed = asyncio.Event(), asyncio.Event()
        self._revision = 0

    async def run(self) -> None:
        """List the connectors at once, at every hint, and at an interval."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            while True:
                self._hint.clear()
                began_s = time.thread_time()
                try:
                    await self._list()
                except PenstockError as error:
                    log.warning("cannot list the connectors: %s", error)
                    self._hint.set()
                    await asyncio.sleep(RETRY_DELAY_S)
                await asyncio.sleep(pause_s(time.thread_time() - began_s))
                await self._wait()

    async def _list(self) -> None:
        listing = await self._config.list()
        self._revision = listing.revision
        self._listed.set()
        self._on_change(listing)

    async def _watch(self) -> None:
        await self._listed.wait()
        while True:
            try:
                # From the listed revision on: a watch from now on would miss the changes between
                # the list and the start of the watch.
                async for _ in self._config.watch(self._revision):
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
    """Follows the connectors (`run`), joins them with their plans (`publish`), and makes the plans
    that are due (`start_due`).
    """

    def __init__(
        self,
        policy: RestartPolicy,
        rng: random.Random,
        stored: PlanStore,
        leadership: Leadership,
        plans: ConnectorPlans,
        on_change: Callable[[Iterable[DesiredConnector], int], None],
        clock: Callable[[], float],
    ) -> None:
        """`on_change` gets the connectors with their plans whenever they change; `rng` spreads
        retries in time.
        """
        self.schedule = PlanSchedule(policy, rng)
        self._stored, self._leadership, self._clock = stored, leadership, clock
        self._records: dict[str, PlanRecord] = {}
        self._in_force: dict[str, PlansInForce] = {}
        self._leftovers: tuple[str, ...] = ()
        self._plans, self._on_change = plans, on_change
        self._feed = ConnectorFeed(plans.config, self._take_list)
        self._desired: dict[str, DesiredConnector] = {}
        self._revision = 0
        self._replanned: set[str] = set()
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_PLANS)
        self._warned: set[str] = set()

    async def load(self, store: Store, state: StoredState) -> None:
        """Read the plans of all connectors: once, at the start of a term."""
        loaded = await load_plans(store)
        self._in_force, self._leftovers = dict(loaded.by_generation), loaded.leftovers
        self.load_records(state.plan_records)
        planned = (id_ for id_, record in self._records.items() if record.epoch)
        for generation in [id_ for id_ in planned if id_ not in self._in_force]:
            self._keep_tasks(generation, state)

    def load_records(self, records: Mapping[str, PlanRecord]) -> None:
        """Set the stored plan records, by generation."""
        self._records.clear()
        self._records.update(records)

    def publish(self) -> None:
        """Pass on the connectors whose plans were replaced since the last call."""
        replanned, self._replanned = self._replanned & self._desired.keys(), set()
        for generation in replanned:
            self._desired[generation] = self._join(self._desired[generation].connector)
        if replanned:
            self._on_change(self._desired.values(), self._revision)

    def remove_gone(self, connectors: Mapping[str, DesiredConnector]) -> list[str]:
        """Forget the records of connectors that no longer exist, and return their generations."""
        gone = [generation for generation in self._records if generation not in connectors]
        for generation in gone:
            del self._records[generation]
        return gone

    async def delete_gone_plans(self, connectors: Mapping[str, DesiredConnector]) -> None:
        """Delete the stored plans of connectors that no longer exist."""
        await delete_keys(self._leadership, self._leftovers)
        self._leftovers = ()
        for generation in [id_ for id_ in self._in_force if id_ not in connectors]:
            await self._stored.delete_generation(generation)
            del self._in_force[generation]

    async def run(self) -> None:
        """Follow the connectors until cancelled."""
        await self._feed.run()

    def start_due(
        self, group: asyncio.TaskGroup, cluster: Cluster, on_done: Callable[[], None], now: float
    ) -> None:
        """Start to make the plans that are due; each calls `on_done` at its end."""
        self.publish()  # what was just planned would be planned again, after its old plans
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
                made = await self._plans.make(request)
                await self._store(request, record, made)
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
            self.schedule.record_success(generation, request.worker, self._clock())
        on_done()

    async def _store(self, request: PlanRequest, record: PlanRecord, made: MadePlans) -> None:
        """Store plans with their record. Plans that equal those in force keep their epoch."""
        generation = request.connector.generation
        config = digest_config(request.connector)
        record = replace(record, config=config, monitor=made.monitor)
        before = self._in_force.get(generation, PlansInForce())
        is_known = before.epoch > 0 and before.are_known
        is_equal = is_known and _contents(before.plans) == _contents(made.plans)
        # also stored: the outcome of an earlier write may have been unknown
        if is_equal and await self._stored.epoch_of(generation) == before.epoch:
            record = replace(record, epoch=before.epoch)
            await store_plan_record(self._leadership, generation, record)
        else:
            record = await self._stored.put(generation, record, made.messages)
            self._in_force[generation] = PlansInForce(record.epoch, made.plans)
        self._records[generation] = record
        self._replanned.add(generation)

    def _take_list(self, listing: ConnectorList) -> None:
        """Pass on the connectors of a list, with their plans."""
        if listing.revision < self._revision:
            return
        known, self._desired = self._desired, {}
        for connector in listing.connectors:
            before = known.get(connector.generation)
            is_unchanged = before is not None and before.connector == connector
            joined = before if before is not None and is_unchanged else self._join(connector)
            self._desired[connector.generation] = joined
        self._revision = listing.revision
        self._on_change(self._desired.values(), self._revision)

    def _join(self, connector: Connector) -> DesiredConnector:
        """Return a connector with its plans in force."""
        in_force = self._in_force.get(connector.generation, PlansInForce())
        record = self._records.get(connector.generation, PlanRecord())
        is_of_plans = in_force.are_known and record.epoch == in_force.epoch
        planned_for = record.config if is_of_plans else ""
        return DesiredConnector(
            connector, in_force.plans, in_force.epoch, planned_for, record.monitor
        )

    def _keep_tasks(self, generation: str, state: StoredState) -> None:
        """Let the tasks of a connector run on whose plans are not in this store, or cannot be read,
        until it is planned again. An earlier version stored plans with the configurations, which
        may be in PostgreSQL.
        """
        owned = (id_ for id_, one in state.owned.items() if one.record.generation == generation)
        plans = tuple(TaskPlan(id_) for id_ in owned if not is_monitor_id(id_))
        epoch = self._records[generation].epoch
        self._in_force[generation] = PlansInForce(epoch, plans, are_known=False)
        log.warning("generation %s is planned again: its plans are not in this store", generation)

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
