"""A cluster in memory: the real state machine of the scheduler, workers and a store that only
pretend.

Time is a number of steps. A worker takes an assignment in when it arrives, a few steps later; it
needs a few steps to let a task go. Every start and every end of a task is noted, so that who runs
what is known from the tasks themselves, never from a status.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from penstock.model.connector import (
    Connector,
    ConnectorKind,
    Partition,
    TargetState,
    TaskPlan,
    TaskState,
    TaskStatus,
)
from penstock.model.errors import Diagnostic, ErrorClass
from penstock.scheduler.state.cluster import Cluster, ClusterSettings, WorkerAssignment
from penstock.scheduler.state.desired_state import (
    DesiredConnector,
    build_task_specs,
    digest_config,
    is_monitor_id,
)
from penstock.scheduler.state.records import OwnedTask
from penstock.scheduler.state.workers import Member, Report


@dataclass
class Held:
    """A task on a worker."""

    epoch: int
    state: TaskState = TaskState.RUNNING
    diagnostic: Diagnostic | None = None
    ends: int | None = None


@dataclass
class Moves:
    """What happened to tasks: how often each was started, and rules that were broken."""

    starts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


class FakeWorker:
    """Holds tasks as a worker would. `slow` is how many steps a task needs to stop."""

    def __init__(self, member: Member, moves: Moves, slow: int = 0) -> None:
        self.member, self.slow = member, slow
        self.seen = 0
        self.held: dict[str, Held] = {}
        self.wanted: dict[str, int] = {}
        self._reported: dict[str, TaskStatus] = {}
        self._moves = moves

    def take(self, assign: WorkerAssignment, now: int) -> None:
        """Take an assignment in; an older one than seen is ignored."""
        if assign.revision < self.seen:
            return
        self.seen = assign.revision
        self.wanted = {task.task_id: task.epoch for task in assign.tasks}
        for id_, held in self.held.items():
            if self.wanted.get(id_) != held.epoch and held.ends is None:
                held.ends = now + self.slow
        self.advance(now)

    def advance(self, now: int) -> None:
        """Let go of what has stopped, start what is wanted and not held."""
        for id_ in [id_ for id_, h in self.held.items() if h.ends is not None and h.ends <= now]:
            del self.held[id_]
        for id_, epoch in self.wanted.items():
            if id_ not in self.held:
                self.held[id_] = Held(epoch)
                self._moves.starts[id_] += 1

    def fail(self, task_id: str, kind: ErrorClass) -> None:
        """Let a task fail."""
        held = self.held.get(task_id)
        if held is not None and held.ends is None:
            fenced = kind is ErrorClass.FENCED
            held.state = TaskState.STOPPED if fenced else TaskState.FAILED
            held.diagnostic = Diagnostic("test.failed", "it was told to", kind)

    def running(self) -> list[str]:
        """Return the tasks that have not let go: one that is STOPPED has."""
        return [id_ for id_, held in self.held.items() if held.state is not TaskState.STOPPED]

    def report(self, *, whole: bool = False) -> Report:
        """Say what is held, or what has changed since the last report."""
        tasks = {
            id_: TaskStatus(id_, "", held.epoch, held.state, held.diagnostic)
            for id_, held in self.held.items()
        }
        before, self._reported = self._reported, tasks
        if whole:
            return Report(self.member.id, self.seen, tasks)
        changed = {id_: one for id_, one in tasks.items() if before.get(id_) != one}
        released = frozenset(before.keys() - tasks.keys())
        return Report(self.member.id, self.seen, changed, released)


class Simulation:
    """Workers, a store, and a leader that may change."""

    def __init__(self, seed: int = 0, settings: ClusterSettings | None = None) -> None:
        self.random = random.Random(seed)
        self.settings = settings or ClusterSettings()
        self.moves = Moves()
        self.now = 0
        self.revision = 1
        self.workers: dict[str, FakeWorker] = {}
        self.store: dict[str, OwnedTask] = {}
        self.connectors: dict[str, DesiredConnector] = {}
        self.inbox: list[tuple[int, str, WorkerAssignment]] = []
        self.drained: frozenset[str] = frozenset()
        self.fail_writes = 0
        self.lose_answers = 0
        self.late = 0
        self.rounds = 0
        self.cluster = self.lead()

    def lead(self) -> Cluster:
        """Let another leader take over: all it knows is what is stored and what it is told."""
        self.cluster = Cluster(self.settings, random.Random(self.random.random()))
        self.cluster.load_records(dict(self.store), self.revision)
        self.inbox.clear()  # a worker has one session; what an older one sent is not read any more
        self._tell()
        for worker in self.workers.values():
            self._open(worker)
        return self.cluster

    def join(self, name: str, labels: Mapping[str, str] | None = None, slow: int = 0) -> str:
        """Let a worker come; returns its id."""
        self.revision += 1
        member = Member(f"{name}.{self.revision}", name, "", labels or {})
        self.workers[member.id] = FakeWorker(member, self.moves, slow)
        self._tell()
        self._open(self.workers[member.id])
        return member.id

    def lose(self, worker: str) -> None:
        """Let a worker end without a word, and its lease with it."""
        del self.workers[worker]
        self.inbox = [message for message in self.inbox if message[1] != worker]
        self._tell()

    def drain(self, *workers: str) -> None:
        """Ask for workers to be emptied."""
        self.drained = frozenset(workers)
        self.cluster.workers.set_drained(self.drained)

    def create(self, name: str, tasks: int, *, monitor: bool = False, **config: str) -> str:
        """Make a connector, or change the number of its tasks; returns its generation."""
        self.revision += 1
        old = self.connectors.get(name)
        generation = old.generation if old else f"{name}:{self.revision}"
        texts = old.connector.config if old and not config else config
        connector = Connector(
            name, texts, ConnectorKind.SOURCE, TargetState.RUNNING, generation, self.revision
        )
        plans = tuple(TaskPlan(f"{generation}-{n}", (Partition({"p": n}),)) for n in range(tasks))
        form = digest_config(connector)
        self.connectors[name] = DesiredConnector(connector, plans, self.revision, form, monitor)
        self._tell()
        return generation

    def target(self, name: str, state: TargetState) -> None:
        """Say what a connector should do."""
        self.revision += 1
        old = self.connectors[name]
        connector = replace(old.connector, target_state=state, revision=self.revision)
        self.connectors[name] = replace(old, connector=connector)
        self._tell()

    def delete(self, name: str) -> None:
        """Remove a connector."""
        self.revision += 1
        del self.connectors[name]
        self._tell()

    def step(self, *, report: bool = True) -> bool:
        """Let a step of time pass; tells whether anything was written or sent."""
        self.now += 1
        due = [message for message in self.inbox if message[0] <= self.now]
        self.inbox = [message for message in self.inbox if message[0] > self.now]
        for _, worker, assign in due:
            self.workers[worker].take(assign, self.now)
        for worker in self.workers.values():
            worker.advance(self.now)
            if report:
                self.cluster.record_report(worker.report(), self.now)
        acted = self.turn()
        self.check()
        return acted or bool(self.inbox)

    def turn(self) -> bool:
        """Let the leader decide, write and send."""
        writes = self.cluster.decide_writes(self.now)
        for write in writes:
            if self.fail_writes:
                self.fail_writes -= 1
                self.cluster.load_records(dict(self.store), self.revision)
                return True
            self.revision += 1
            for id_, record in write.records.items():
                stored = self.store[id_].epoch if id_ in self.store else 0
                if stored != write.epochs[id_]:
                    self.moves.violations.append(f"{id_}: written over another one's record")
                if record is None:
                    del self.store[id_]
                else:
                    self.store[id_] = OwnedTask(record, self.revision)
            if self.lose_answers:  # it is stored, and the leader does not know
                self.lose_answers -= 1
                self.cluster.load_records(dict(self.store), self.revision)
                return True
            self.cluster.record_write(write, self.revision)
        sent = self.cluster.take_assignments()
        for assign in sent:
            delay = self.random.randint(0, self.late)
            self.inbox.append((self.now + delay, assign.worker, assign))
        self.inbox.sort(key=lambda message: message[2].revision)
        self.rounds += bool(writes)
        return bool(writes or sent)

    def settle(self, most: int = 1000) -> int:
        """Let time pass until nothing happens any more; returns the steps."""
        quiet = 0
        for steps in range(most):
            quiet = 0 if self.step() or self._stopping() or self._restarting() else quiet + 1
            if quiet > 2:
                return steps
        raise AssertionError(f"not settled after {most} steps")

    def arrive(self) -> None:
        """Let all that is under way arrive and stop, while the leader does nothing but listen."""
        moving = True
        while moving:
            self.now += 1
            due = [message for message in self.inbox if message[0] <= self.now]
            self.inbox = [message for message in self.inbox if message[0] > self.now]
            for _, worker, assign in due:
                self.workers[worker].take(assign, self.now)
            for worker in self.workers.values():
                worker.advance(self.now)
                self.cluster.record_report(worker.report(), self.now)
            self.check()
            moving = bool(self.inbox) or self._stopping()

    def check(self) -> None:
        """Note each task that two workers hold."""
        owners = Counter(id_ for worker in self.workers.values() for id_ in worker.running())
        self.moves.violations += [f"{id_}: {n} owners" for id_, n in owners.items() if n > 1]

    def running(self) -> dict[str, str]:
        """Return which worker runs which task, as the workers know it."""
        return {id_: w.member.id for w in self.workers.values() for id_ in w.running()}

    def loads(self) -> dict[str, int]:
        """Return how many tasks each worker has, idle ones too."""
        return {
            worker.member.id: sum(not is_monitor_id(id_) for id_ in worker.running())
            for worker in self.workers.values()
        }

    def wanted(self) -> set[str]:
        """Return the tasks that should run."""
        return {spec.id for wanted in self.connectors.values() for spec in build_task_specs(wanted)}

    def _stopping(self) -> bool:
        return any(h.ends is not None for w in self.workers.values() for h in w.held.values())

    def _restarting(self) -> bool:
        restarts = self.cluster.restarts
        return restarts.next_due_at(self.now) is not None or bool(restarts.due_restarts(self.now))

    def _tell(self) -> None:
        members: Iterable[Member] = [worker.member for worker in self.workers.values()]
        self.cluster.update_members(members, self.revision, self.now)
        self.cluster.update_connectors(list(self.connectors.values()), self.revision)
        self.cluster.workers.set_drained(self.drained)

    def _open(self, worker: FakeWorker) -> None:
        self.cluster.workers.open_session(worker.member.id)
        self.cluster.record_report(worker.report(whole=True), self.now)
