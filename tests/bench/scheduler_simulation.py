"""100 workers, 10,000 tasks in memory: joins, losses, slow renounces, other leaders.

The state machine is the real one; workers and store pretend. What is counted comes from the tasks:
each start, and each moment in which two workers hold one task.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.model.errors import ErrorClass
from penstock.scheduler.state.cluster import ClusterSettings
from report import Report, arguments, percentile
from simulated import Simulation


@dataclass
class Found:
    """What happened when something happened."""

    starts: int
    restarted: int
    decided: float
    steps: int
    rounds: int


@dataclass
class Trial:
    """A simulated cluster, and how long its leader thought each time."""

    mesh: Simulation
    times: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        turn = self.mesh.turn

        def timed() -> bool:
            began = time.perf_counter()
            acted = turn()
            self.times.append(time.perf_counter() - began)
            return acted

        self.mesh.turn = timed  # type: ignore[method-assign]

    def watch(self, happens: Callable[[], object], lost: set[str] | None = None) -> Found:
        """Let something happen, and the cluster settle; count what moved.

        `restarted` are tasks that were started although they need not: neither lost nor moved.
        """
        mesh = self.mesh
        before, owners = Counter(mesh.moves.starts), mesh.running()
        rounds, at = mesh.rounds, len(self.times)
        happens()
        steps = mesh.settle()
        starts = mesh.moves.starts - before
        now = mesh.running()
        stayed = [id_ for id_ in starts if owners.get(id_) == now.get(id_) and id_ in owners]
        return Found(
            sum(starts.values()),
            len([id_ for id_ in stayed if id_ not in (lost or set())]),
            max(self.times[at:]) * 1000,
            steps,
            mesh.rounds - rounds,
        )


def small(report: Report) -> None:
    """3 → 4 workers with 120 tasks."""
    trial = Trial(Simulation())
    for n in range(3):
        trial.mesh.join(f"n{n}")
    for n in range(30):
        trial.mesh.create(f"c{n}", 4)
    trial.mesh.settle()
    found = trial.watch(lambda: trial.mesh.join("n3"))
    loads = trial.mesh.loads().values()
    report.add("3 → 4 workers, 120 tasks: moved", "tasks", found.starts, at_least=30, at_most=30)
    report.add("  never stopped", "tasks", 120 - found.starts, at_least=90)
    report.add("  spread", "tasks", max(loads) - min(loads), at_most=1)


def large(report: Report, workers: int, tasks: int, seed: int) -> None:
    """One thing after the other happens to a large cluster."""
    trial = Trial(Simulation(seed))
    mesh = trial.mesh
    for n in range(workers):
        mesh.join(f"n{n}")
    first = trial.watch(lambda: [mesh.create(f"c{n}", 50) for n in range(tasks // 50)])
    report.add(f"{tasks:,} tasks assigned first", "ms", first.decided)

    worker = next(iter(mesh.workers))
    lost = set(mesh.workers[worker].held)
    found = trial.watch(lambda: mesh.lose(worker), lost)
    report.add("one worker dies: longest turn", "ms", found.decided, at_most=200)
    moved = len(lost)
    report.add("  started elsewhere", "tasks", found.starts, at_least=moved, at_most=moved)
    report.add("  turns that wrote", "turns", found.rounds, at_most=2)

    for each in mesh.workers.values():
        each.slow = mesh.random.randint(0, 20)
    mesh.late = 5
    found = trial.watch(lambda: mesh.join("late"))
    report.add("one joins, stops take up to 20 steps: moved", "tasks", found.starts)
    report.add("  restarted without a move", "tasks", found.restarted, at_most=0)

    found = trial.watch(mesh.lead)
    report.add("another leader: restarted", "tasks", found.starts, at_most=0)
    report.add("  longest turn", "ms", found.decided)
    loads = mesh.loads().values()
    report.add("spread at the end", "tasks", max(loads) - min(loads), at_most=1)
    report.add("violations", "moments", len(mesh.moves.violations), at_most=0)


def storm(report: Report, workers: int, tasks: int, events: int, seed: int) -> None:
    """Everything at once: nobody waits for the cluster to settle."""
    mesh = Simulation(seed, ClusterSettings())
    trial = Trial(mesh)
    mesh.late = 4
    for n in range(workers):
        mesh.join(f"n{n}", slow=mesh.random.randint(0, 6))
    for n in range(tasks // 50):
        mesh.create(f"c{n}", 50)
    mesh.settle()
    for n in range(events):
        happen(mesh, n)
        for _ in range(mesh.random.randint(0, 4)):
            mesh.step(report=mesh.random.random() < 0.9)
    steps = mesh.settle()
    running, loads = mesh.running(), mesh.loads().values()
    waits = mesh.cluster.restarts.delayed_tasks(mesh.now)
    missing = len(mesh.wanted() - waits - running.keys()) + len(running.keys() - mesh.wanted())
    turns = [seconds * 1000 for seconds in trial.times]
    report.add(f"storm of {events} events: violations", "moments", len(mesh.moves.violations),
               at_most=0)  # fmt: skip
    report.add("  tasks missing or too many at the end", "tasks", missing, at_most=0)
    report.add("  spread at the end", "tasks", max(loads) - min(loads), at_most=1)
    report.add("  steps until it is quiet", "steps", steps)
    report.add("  turn p50", "ms", percentile(turns, 50))
    report.add("  turn p99", "ms", percentile(turns, 99))


def happen(mesh: Simulation, number: int) -> None:
    """Let one thing happen by chance."""
    kind = mesh.random.choice(["join", "lose", "bounce", "resize", "fail", "write", "lead"])
    some = mesh.random.choice(sorted(mesh.workers))
    match kind:
        case "join":
            mesh.join(f"s{number}", slow=mesh.random.randint(0, 6))
        case "lose":
            mesh.lose(some)
        case "bounce":
            name = mesh.workers[some].member.name
            mesh.lose(some)
            mesh.join(name)
        case "resize":
            mesh.create(mesh.random.choice(sorted(mesh.connectors)), mesh.random.randint(20, 80))
        case "fail":
            worker = mesh.workers[some]
            for id_ in sorted(worker.held)[:3]:
                worker.fail(id_, ErrorClass.RETRIABLE)
        case "write":
            mesh.fail_writes = 1
        case _:
            mesh.lead()


def main() -> int:
    """Simulate, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    facts = {"workers": options.workers, "tasks": options.tasks, "seed": options.seed}
    report = Report("scheduler, simulated", facts=facts)
    small(report)
    large(report, options.workers, options.tasks, options.seed)
    storm(report, options.workers, options.tasks, options.events, options.seed)
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
