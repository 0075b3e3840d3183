"""One instance of the scheduler, and its terms as the leader.

`Leader` is one term: the state machine with its store, its sessions and its plans. Everything that
happens is passed to the cluster at once. A single coroutine takes turns: decide, store, send. Two
turns never overlap, and what happens during a turn is handled by the next one.

`Scheduler` is the instance: it leads, term after term, or knows which instance does.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from penstock.model.backoff import Backoff
from penstock.model.errors import FencedError, PenstockError, RetriableError
from penstock.model.events import MAX_EVENTS, Event
from penstock.model.logs import MAX_STORED_LINES, StoredLogLine
from penstock.model.metrics import ProcessMetric, metrics_from_statistics
from penstock.model.wall_clock import wall_clock_us
from penstock.scheduler.leader import stored_state
from penstock.scheduler.leader.connector_plans import ConnectorPlans, PlanningLoop, pause_s
from penstock.scheduler.leader.decision_log import (
    describe_drain,
    describe_members,
    describe_write,
)
from penstock.scheduler.leader.leadership import Leadership, leader_starting, not_leader
from penstock.scheduler.leader.sessions import Outbox, Roster, Sessions, SharedNames, member_gone
from penstock.scheduler.leader.stored_plans import PlanStore
from penstock.scheduler.leader.stored_state import NumberedLogStore, StoredState
from penstock.scheduler.leader.worker_logs import LogSource, WorkerLogs
from penstock.scheduler.state.cluster import Cluster, ClusterSettings, RecordWrite
from penstock.scheduler.state.desired_state import DesiredConnector
from penstock.scheduler.state.events import (
    EventLimit,
    EventLog,
    encode_events,
    events_between_leaders,
    events_of_report,
)
from penstock.scheduler.state.log_lines import LogLines, encode_log_lines
from penstock.scheduler.state.records import EVENT_PREFIX, LOG_LINE_PREFIX
from penstock.scheduler.state.restarts import RestartRequests
from penstock.scheduler.state.statuses import derive_connector_status
from penstock.scheduler.state.workers import Member, Report
from penstock.store.port import Store

log = logging.getLogger(__name__)


BATCH_DELAY_S: Final = 0.01
"""Seconds between the first change and its turn: changes that happen together (the reports of all
workers about one round) are handled together. Longer delays every move."""

FIRST_RETRY_DELAY_S: Final = 0.1
MAX_RETRY_DELAY_S: Final = 2.0
"""Seconds between turns that failed because the store is away."""

MAX_TURN_INTERVAL_S: Final = 5.0
"""Seconds between turns without a change: lag is measured, and a missed change is found."""

TURN_TIMEOUT_S: Final = 10.0
"""Seconds that a call waits for the turn that handles it."""


LAST_WRITE_TIMEOUT_S: Final = 1.0
"""Seconds for the last events of a term. Longer delays the next leader where the store is away."""


@dataclass(frozen=True, slots=True)
class LeaderSettings:
    """The settings of a leader.

    `session_lease_s`: seconds for which a worker counts as alive after its session has ended, where
    membership is by session. None: membership is by lease, set by `update_members`.
    """

    cluster: ClusterSettings = field(default_factory=ClusterSettings)
    session_lease_s: float | None = None


class Leader:
    """One term as the leader. `run()` runs once, until the term ends."""

    def __init__(
        self,
        leadership: Leadership,
        store: Store,
        plans: ConnectorPlans,
        settings: LeaderSettings,
        log_source: LogSource | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare to lead. `store` is read; writes go through the leadership. `log_source` reads
        the logs of workers; without one, their lines do not outlive them.
        """
        self._leadership, self._store, self._clock = leadership, store, clock
        rng = random.Random()  # noqa: S311 - spreads restarts in time, protects nothing
        self.cluster = Cluster(settings.cluster, rng)
        self.sessions = Sessions()
        self.events = EventLog()
        self._event_limit = EventLimit()
        self.log_lines = LogLines()
        self._event_store = NumberedLogStore[Event](
            leadership, store, EVENT_PREFIX, MAX_EVENTS, encode_events
        )
        self._log_line_store = NumberedLogStore[StoredLogLine](
            leadership, store, LOG_LINE_PREFIX, MAX_STORED_LINES, encode_log_lines, "worker"
        )
        self._log_source = log_source
        policy, on_change = settings.cluster.restart_policy, self.update_connectors
        stored = PlanStore(leadership, store)
        self._planning = PlanningLoop(policy, rng, stored, leadership, plans, on_change, clock)
        self.plan_schedule = self._planning.schedule
        self._restart_requests = RestartRequests()
        self._roster = Roster(settings.session_lease_s)
        self._waits_for_lost = settings.cluster.rebalance_delay_s > 0
        self._shared_names = SharedNames()
        self._drained: set[str] = set()
        self._names: dict[str, str] = {}
        self._unknown = {"assignments", "connectors", "workers"}
        self._is_stale = self._has_ended = False
        self._changed = asyncio.Event()
        self._started_turns = self._done_turns = self._failed_turns = 0
        self._turn_done = asyncio.Condition()

    async def run(self) -> None:
        """Lead until another instance does, or until cancelled.

        Raises:
            FencedError: another instance leads.
            PenstockError: the store refuses, or is not readable.
        """
        causes: list[BaseException] = []
        try:
            await self._planning.load(self._store, await self._load())
            async with asyncio.TaskGroup() as group:
                group.create_task(self._planning.run())
                if self._log_source is not None:
                    logs = WorkerLogs(
                        self._log_source, self._connected_addresses, self.log_lines.add
                    )
                    group.create_task(logs.run())
                await self._take_turns(group)
        except* FencedError as errors:
            causes = _flatten(errors)
        except* PenstockError as errors:
            causes = causes or _flatten(errors)
        finally:
            await self._store_rest()
            await self._end()
        if causes:
            raise causes[0]

    def statistics(self) -> dict[str, int]:
        """Return the counts of its turns, its failed turns, and its open sessions."""
        turns, failed = self._done_turns, self._failed_turns
        return {"turns": turns, "failed": failed, "sessions": len(self.sessions)}

    def require_known(self, what: str) -> None:
        """Refuse an answer about the `assignments`, `connectors` or `workers` before they are
        known: a new leader would answer that there are none.

        Raises:
            RetriableError: `scheduler.starting`.
        """
        if what in self._unknown:
            raise leader_starting(what)

    def update_members(self, members: Iterable[Member], revision: int) -> None:
        """Set the workers that are alive by lease. `revision` must be that of the list, even when
        the list did not change.
        """
        self._roster.set_leased(members, revision)
        self.wake()

    def update_connectors(self, connectors: Iterable[DesiredConnector], revision: int) -> None:
        """Set the connectors with their plans, as of a revision."""
        self.cluster.update_connectors(connectors, revision)
        self._names |= {g: one.connector.name for g, one in self.cluster.connectors.items()}
        self.plan_schedule.retain(self.cluster.connectors)
        self._unknown.discard("connectors")
        self.wake()

    def open_session(self, member: Member) -> Outbox:
        """Begin the session of a worker."""
        self.declare(member)
        self.cluster.workers.open_session(member.id)
        return self.sessions.open(member.id)

    def declare(self, member: Member) -> None:
        """Record what a worker declares of itself: name, labels, capacity, draining."""
        if self._roster.declare(member):
            self.wake()

    def record_report(self, report: Report) -> None:
        """Record which tasks a worker holds."""
        session = self.cluster.workers.sessions.get(report.worker)
        worker = self._name(report.worker)
        if session is not None and session.has_reported:
            known = {id_: session.tasks[id_] for id_ in report.tasks if id_ in session.tasks}
            self._add_events(events_of_report(known, report.tasks, worker))
        elif session is not None and "assignments" not in self._unknown:
            states = self.events.last_states()
            self._add_events(events_between_leaders(report.tasks, states, worker))
        if self.cluster.record_report(report, self._clock()):
            self.wake()

    def _connected_addresses(self) -> dict[str, str]:
        workers = self.cluster.workers
        members = (workers.members[id_] for id_ in workers.sessions if id_ in workers.members)
        return {member.id: member.address for member in members if member.address}

    def _name(self, worker: str) -> str:
        member = self.cluster.workers.members.get(worker)
        return (member.name if member else "") or worker

    def _add_events(self, events: Iterable[Event]) -> None:
        found = self._event_limit.admit(events, self._clock())
        if found:
            self.events.add(found, wall_clock_us() // 1000)
            self.wake()

    def close_session(self, worker: str, outbox: Outbox) -> None:
        """End the session of a worker. It keeps its tasks until its membership ends."""
        if self.sessions.close(worker, outbox):
            self.cluster.workers.close_session(worker)
            self._roster.record_closed(worker, self._clock())
            self.wake()

    async def set_drained(self, worker: str, *, drain: bool) -> None:
        """Drain a worker, or let it have tasks again. Durable, and seen by all, when it returns."""
        await stored_state.store_drain(self._leadership, worker, drain=drain)
        (self._drained.add if drain else self._drained.discard)(worker)
        self._add_events([describe_drain(self._name(worker), drain=drain)])
        await self.wait_for_turn()

    async def wait_for_turn(self) -> None:
        """Wait until a turn that began after this call has ended.

        Raises:
            RetriableError: `deadline.exceeded`: the store may be away.
        """
        turn = self._started_turns + 1
        self.wake()
        try:
            async with asyncio.timeout(TURN_TIMEOUT_S), self._turn_done:
                await self._turn_done.wait_for(lambda: self._done_turns >= turn or self._has_ended)
        except TimeoutError:
            raise RetriableError(
                "deadline.exceeded",
                f"stage scheduler.turn took longer than {TURN_TIMEOUT_S:g} s",
                fix="Check that the store of the scheduler is reachable.",
            ) from None
        self._refuse_after_end()

    def request_replan(self, generation: str) -> None:
        """Plan a connector again, because its monitor requested it."""
        if generation in self.cluster.connectors:
            self.plan_schedule.request_replan(generation)
            self.wake()

    def wake(self) -> None:
        """Start a turn soon, because something changed."""
        self._changed.set()

    async def _load(self) -> StoredState:
        """Read the stored state, except plans: those in memory are the ones in force."""
        state = await stored_state.load_state(self._store)
        self.cluster.load_records(state.owned, state.revision)
        self.cluster.load_completed(state.completed)
        self._planning.load_records(state.plan_records)
        self._restart_requests.load(state.accepted_restarts)
        for generation, accepted in state.accepted_restarts.items():
            if accepted.replan:
                self.plan_schedule.request_now(generation)
        self._drained = set(state.drained)
        self.events.load(state.events)
        self.log_lines.load(state.log_lines)
        owners = {owned.record.worker: owned.record.name for owned in state.owned.values()}
        self._roster.expect((Member(*owner) for owner in owners.items()), self._clock())
        self._is_stale = False
        self._unknown.discard("assignments")
        return state

    async def _take_turns(self, group: asyncio.TaskGroup) -> None:
        backoff = Backoff(FIRST_RETRY_DELAY_S, MAX_RETRY_DELAY_S)
        while True:
            self._changed.clear()
            self._started_turns += 1
            began_s = time.thread_time()
            try:
                await self._take_turn(group)
            except RetriableError as error:  # the outcome may be unknown, so all is read again
                log.warning("a round could not be stored: %s", error)
                self._is_stale = True
                self._failed_turns += 1
                await asyncio.sleep(backoff.delay_s)
                backoff.advance()
                continue
            backoff.reset()
            async with self._turn_done:
                self._done_turns = self._started_turns
                self._turn_done.notify_all()
            spent_s = time.thread_time() - began_s
            await self._wait(pause_s(spent_s))

    async def _take_turn(self, group: asyncio.TaskGroup) -> None:
        if self._is_stale:
            await self._load()
        self._planning.publish()
        now = self._clock()
        alive = self._roster.alive(now, self.cluster.revision)
        if alive is None or "connectors" in self._unknown:
            return  # a decision on a part of the input would stop the rest
        before = self.cluster.workers.members
        gone = self.cluster.update_members(*alive, now)
        members = self.cluster.workers.members
        if "workers" in self._unknown:  # those that own tasks were there before this leader
            owners = {owned.record.worker for owned in self.cluster.owned.values()}
            before = {id_: member for id_, member in members.items() if id_ in owners}
        self._record_decisions(describe_members(before, members))
        self._unknown.discard("workers")
        for worker in gone:
            # it has stopped its tasks; what it reports in this session is no longer read
            self.sessions.end(worker, member_gone(worker))
        self._warn_of_shared_names()
        self.cluster.workers.set_drained(frozenset(self._drained))
        await self._accept_restart_requests(now)
        await self._forget_completed(self.cluster.find_outdated_completions())
        for write in self.cluster.decide_writes(now):
            revision = await stored_state.store_round(self._leadership, write)
            self._log_write(write)
            self.cluster.record_write(write, revision)
        self.cluster.rebalances.observe(now, leaving=bool(self.cluster.leaving))
        for assignment in self.cluster.take_assignments():
            self.sessions.send(assignment)
        self._planning.start_due(group, self.cluster, self.wake, now)
        await self._store_completions()
        await self._delete_gone()
        self.events.add(self._event_limit.summarize(now), wall_clock_us() // 1000)
        await self._event_store.store(self.events)
        # with the next turn, which comes within seconds: they are no reason for one
        await self._log_line_store.store(self.log_lines)

    def _log_write(self, write: RecordWrite) -> None:
        cluster = self.cluster
        living = cluster.workers.members.keys()
        self._record_decisions(describe_write(write, cluster.owned, self._names, living))

    def _record_decisions(self, events: Sequence[Event]) -> None:
        for event in events:
            log.info("%s", event.message)
        self._add_events(events)

    async def _delete_gone(self) -> None:
        """Delete the stored entries of connectors and drained workers that no longer exist."""
        absent = [id_ for id_ in self._drained if self.cluster.workers.is_absent(id_)]
        connectors = self.cluster.connectors
        gone = {
            *self._planning.remove_gone(connectors),
            *self._restart_requests.remove_gone(connectors),
        }
        await stored_state.delete_gone(self._leadership, gone, absent)
        await self._planning.delete_gone_plans(connectors)
        known = {*connectors, *(owned.record.generation for owned in self.cluster.owned.values())}
        self._names = {id_: name for id_, name in self._names.items() if id_ in known}
        self._drained.difference_update(absent)

    def _warn_of_shared_names(self) -> None:
        """Log names that workers with a session share. Without a session, a lease may be that of an
        earlier process, which has just restarted under the same name.
        """
        if not self._waits_for_lost:
            return
        workers = self.cluster.workers
        connected = (workers.members[id_] for id_ in workers.sessions if id_ in workers.members)
        for name, ids in self._shared_names.find_new(connected).items():
            log.warning(
                "workers %s share the name %r: rebalance.delay does not wait for them. Give each "
                "its own instance.name; the default is the name of the host.",
                " and ".join(ids),
                name,
            )

    async def _accept_restart_requests(self, now: float) -> None:
        """Accept the requests of operators, and restart the tasks that are still pending."""
        cluster, schedule = self.cluster, self.plan_schedule
        new = self._restart_requests.accept_new(
            cluster.connectors,
            lambda desired: derive_connector_status(cluster, schedule, desired),
            cluster.has_reports_of,
        )
        for generation, accepted in list(new):
            await self._forget_completed(accepted.tasks)  # before: a request is carried out once
            stored = await stored_state.store_accepted_restarts(
                self._leadership, generation, accepted
            )
            self._restart_requests.record_accepted(generation, stored)
            if stored.replan:
                schedule.request_now(generation)
        cluster.request_restarts(self._restart_requests.pending_tasks(cluster.owned), now)

    async def _store_completions(self) -> None:
        """Store which tasks have completed."""
        completed = self.cluster.find_completed()
        await stored_state.store_completions(self._leadership, completed)
        self.cluster.record_completed(completed)

    async def _forget_completed(self, task_ids: Iterable[str]) -> None:
        known = self.cluster.forget_completed(task_ids)
        await stored_state.delete_completions(self._leadership, known)

    async def _wait(self, pause_s: float) -> None:
        """Wait for a change, and then for others that come with it: at least `pause_s`."""
        now = self._clock()
        due = (
            self.cluster.next_due_at(now),
            self.plan_schedule.next_due_at(now),
            self._roster.next_due_at(),
        )
        waits = [time_ - now for time_ in due if time_ is not None]
        with suppress(TimeoutError):  # wait_for would lose a cancellation that comes with a change
            async with asyncio.timeout(max(BATCH_DELAY_S, min([MAX_TURN_INTERVAL_S, *waits]))):
                await self._changed.wait()
        await asyncio.sleep(max(BATCH_DELAY_S, pause_s))

    async def _store_rest(self) -> None:
        """Store what happened since the last turn, if this instance leads still: it resigns."""
        if "assignments" in self._unknown or not self._leadership.is_leader():
            return
        with suppress(PenstockError, TimeoutError):
            async with asyncio.timeout(LAST_WRITE_TIMEOUT_S):
                await self._event_store.store(self.events)
                await self._log_line_store.store(self.log_lines)

    async def _end(self) -> None:
        self._has_ended = True
        self.sessions.end_all(not_leader(self._leadership.leader_address()))
        async with self._turn_done:
            self._turn_done.notify_all()

    def _refuse_after_end(self) -> None:
        if self._has_ended:
            raise not_leader(self._leadership.leader_address())


def _flatten(errors: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    flat: list[BaseException] = []
    for error in errors.exceptions:
        flat += _flatten(error) if isinstance(error, BaseExceptionGroup) else [error]
    return flat


class Scheduler:
    """One instance. Its owner runs `lead()` each time that the instance was elected, and passes the
    members by `update_members` whenever they change.
    """

    def __init__(self, leadership: Leadership, make_leader: Callable[[], Leader]) -> None:
        """`make_leader` creates the leader of one term. It knows nothing of earlier terms."""
        self._leadership, self._make_leader = leadership, make_leader
        self._leader: Leader | None = None
        self._has_led = False
        self._members: tuple[tuple[Member, ...], int] | None = None

    async def lead(self) -> None:
        """Lead until another instance does; then it returns. Cancel it to resign.

        Raises:
            PenstockError: it cannot continue, for instance because its store is not readable.
        """
        leader = self._leader = self._make_leader()
        self._has_led = True
        try:
            if self._members is not None:
                leader.update_members(*self._members)
            await leader.run()
        except FencedError:
            return
        finally:
            self._leader = None

    def update_members(self, members: Iterable[Member], revision: int) -> None:
        """Set the workers that are alive by lease, as of a revision."""
        self._members = (tuple(members), revision)
        if self._leader is not None:
            self._leader.update_members(*self._members)

    @property
    def leadership(self) -> Leadership:
        """Which instance leads."""
        return self._leadership

    def leader(self) -> Leader:
        """Return the leader, if it is this instance.

        Raises:
            RetriableError: `scheduler.not_leader`, with the address of the leader, or
                `scheduler.starting`: this instance leads, and has not begun.
        """
        if self._leader is None or not self._leadership.is_leader():
            raise self._leader_error()
        return self._leader

    def metrics(self) -> Iterator[ProcessMetric]:
        """Yield the metrics of the leader; none while this instance does not lead."""
        if self._leader is not None:
            yield from metrics_from_statistics("leader", self._leader.statistics())

    def _leader_error(self) -> PenstockError:
        """Return the error for a caller of the wrong instance, or of the right one too early."""
        if not self._has_led and self._leadership.is_leader():
            return leader_starting("cluster")
        return not_leader(self._leadership.leader_address())
