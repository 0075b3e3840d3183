"""Any sequence of joins, leaves, creates, deletes, resizes, failed rounds and leader changes: one
owner at most, balanced, sticky, settled within two rounds (S4).
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from bench.simulated import Simulation
from penstock.model.connector import TargetState
from penstock.model.errors import ErrorClass
from penstock.scheduler.state import assignment, rebalance
from penstock.scheduler.state.assignment import assign_tasks
from penstock.scheduler.state.desired_state import is_monitor_id

NAMES = st.sampled_from(["orders", "users", "events", "metrics"])


class Storm(RuleBasedStateMachine):
    """A cluster to which things happen while others still go on."""

    workers: Bundle[str] = Bundle("workers")

    def __init__(self) -> None:
        super().__init__()
        self.mesh = Simulation()
        self.mesh.late = 2

    @rule(target=workers, slow=st.integers(0, 3), n=st.integers(0, 9))
    def join(self, slow, n):
        return self.mesh.join(f"n{n}.{self.mesh.revision}", slow=slow)

    @rule(worker=consumes(workers))
    def lose(self, worker):
        self.mesh.lose(worker)

    @rule(target=workers, worker=consumes(workers))
    def bounce(self, worker):
        name = self.mesh.workers[worker].member.name
        self.mesh.lose(worker)
        return self.mesh.join(name)

    @rule(worker=workers)
    def drain(self, worker):
        if len(self.mesh.workers) > 1:
            self.mesh.drain(worker)

    @rule()
    def drain_nobody(self):
        self.mesh.drain()

    @rule(name=NAMES, tasks=st.integers(1, 7), monitor=st.booleans())
    def create_or_resize(self, name, tasks, monitor):
        self.mesh.create(name, tasks, monitor=monitor)

    @rule(name=NAMES, n=st.integers(0, 2))
    def reconfigure(self, name, n):
        if name in self.mesh.connectors:
            number = len(self.mesh.connectors[name].plans)
            monitor = self.mesh.connectors[name].has_monitor
            self.mesh.create(name, number, monitor=monitor, topic=f"t{n}")

    @rule(name=NAMES, state=st.sampled_from(TargetState))
    def target(self, name, state):
        if name in self.mesh.connectors and state:
            self.mesh.target(name, state)

    @rule(name=NAMES)
    def delete(self, name):
        if name in self.mesh.connectors:
            self.mesh.delete(name)

    @rule(rounds=st.integers(1, 2))
    def fail_rounds(self, rounds):
        self.mesh.fail_writes = rounds

    @rule(answers=st.integers(1, 2))
    def lose_answers(self, answers):
        """Writes that are stored, although their outcome is not known."""
        self.mesh.lose_answers = answers

    @rule()
    def another_leader(self):
        self.mesh.lead()

    @rule(kind=st.sampled_from([ErrorClass.RETRIABLE, ErrorClass.CONFIG, ErrorClass.FENCED]))
    def fail_a_task(self, kind):
        running = self.mesh.running()
        if running:
            task = min(running)
            self.mesh.workers[running[task]].fail(task, kind)

    @rule(report=st.booleans())
    def step(self, report):
        self.mesh.step(report=report)

    @rule(target=workers)
    def settle(self):
        self.mesh.fail_writes, self.mesh.lose_answers = 0, 0
        self.mesh.settle()
        self.check_settled()
        return multiple()

    @rule()
    def converge(self):
        """When all that is under way has arrived, two rounds are enough."""
        mesh = self.mesh
        mesh.fail_writes, mesh.lose_answers, mesh.late = 0, 0, 0
        slow = {id_: worker.slow for id_, worker in mesh.workers.items()}
        for worker in mesh.workers.values():
            worker.slow = 0
        mesh.arrive()
        fails = (
            mesh.cluster.restarts.next_due_at(mesh.now),
            mesh.cluster.restarts.due_restarts(mesh.now),
        )
        before = mesh.rounds
        mesh.settle()
        if fails == (None, {}):
            assert mesh.rounds - before <= 2
        self.check_settled()
        mesh.late = 2
        for id_, worker in mesh.workers.items():
            worker.slow = slow[id_]

    @rule(target=workers)
    def join_settled(self):
        """Who comes to a quiet cluster takes its share, and nothing else moves."""
        mesh = self.mesh
        mesh.fail_writes, mesh.lose_answers = 0, 0
        mesh.settle()
        before = Counter(mesh.moves.starts)
        owned = {id_: one.record.worker for id_, one in mesh.store.items()}
        id_ = mesh.join(f"j{mesh.revision}")
        mesh.settle()
        able = len(mesh.workers.keys() - mesh.drained)
        monitors = sum(map(is_monitor_id, owned))
        share = -(-(len(owned) - monitors) // able) + -(-monitors // able)
        moved = mesh.moves.starts - before
        if able > 1:
            assert len(moved) <= share, "more moved than must"
            assert set(moved.values()) <= {1}
            assert {mesh.store[task].record.worker for task in moved} <= {id_}
        self.check_settled()
        return id_

    @rule(worker=consumes(workers))
    def lose_settled(self, worker):
        """Of a quiet cluster that loses a worker, its tasks move, and no other one does."""
        mesh = self.mesh
        mesh.fail_writes, mesh.lose_answers = 0, 0
        mesh.settle()
        before = Counter(mesh.moves.starts)
        its = {id_ for id_, one in mesh.store.items() if one.record.worker == worker}
        mesh.lose(worker)
        mesh.settle()
        moved = mesh.moves.starts - before
        if mesh.workers.keys() - mesh.drained:
            assert moved == Counter(its)
        self.check_settled()

    def check_settled(self):
        mesh = self.mesh
        able = {id_ for id_ in mesh.workers if id_ not in mesh.drained}
        running = mesh.running()
        waits = mesh.cluster.restarts.delayed_tasks(mesh.now)
        if able:
            assert mesh.wanted() - waits <= set(running), "a task is missing"
            assert set(running) <= mesh.wanted(), "a task is too many"
            for kind in (False, True):  # tasks, monitors
                counts = Counter(
                    o.record.worker for id_, o in mesh.store.items() if is_monitor_id(id_) is kind
                )
                loads = [counts[id_] for id_ in able]
                assert max(loads) - min(loads) <= 1
        else:
            assert running == {}
        before = Counter(mesh.moves.starts)
        mesh.settle()
        assert mesh.moves.starts == before, "something moved without need"
        assert set(mesh.store) <= mesh.wanted()

    @invariant()
    def one_owner(self):
        self.mesh.check()
        assert self.mesh.moves.violations == []


Storm.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestStorm = Storm.TestCase


def storm():
    """Run a storm that only has to find what is broken."""
    found = settings(
        max_examples=300,
        stateful_step_count=40,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
    )
    run_state_machine_as_test(Storm, settings=found)


def ignore_owners(tasks, workers, owners):
    return assign_tasks(tasks, workers, dict(sorted(owners.items())[::2]))


@pytest.mark.parametrize("broken", ["sticky", "even", "unique", "final"])
def test_a_broken_assignment_is_found(broken, monkeypatch, arm):
    """The twins: each promise that the storm checks is broken on purpose, and it goes red."""
    match broken:
        case "sticky":
            monkeypatch.setattr(rebalance, "assign_tasks", ignore_owners)
        case "even":
            monkeypatch.setattr(assignment._Load, "move_one", lambda _: False)
        case "unique":
            arm("scheduler.renounce_check=break")
        case _:
            monkeypatch.setattr(assignment._Load, "keep", lambda *_: False)
    with pytest.raises((AssertionError, ExceptionGroup)):
        storm()
