"""Two epochs, fifty concurrent clients: offsets never go back, and what is stale is refused.

A history of every call is kept and checked afterwards; the same run with the check broken on
purpose shows that the checker would notice.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from dataclasses import dataclass, field

import pytest

from penstock.model.errors import PenstockError
from penstock.offset import Commit, Commits

G, OLD, NEW, PAIRS, STEPS = "g1", 5, 9, 25, 20


@dataclass
class History:
    """What happened, in the order of one clock; a call is from `began` to `ended`."""

    clock: itertools.count = field(default_factory=itertools.count)
    commits: list[tuple[int, int, str, int, bool]] = field(default_factory=list)
    """began, ended, partition, epoch, accepted"""
    reads: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """partition → (epoch, number) in the order they were read"""
    fenced_at: dict[str, int] = field(default_factory=dict)
    """partition → when the new owner was first acknowledged"""
    under_way: asyncio.Event = field(default_factory=asyncio.Event)
    """set when the old owners are in the middle of their work"""

    def record(self, began: int, partition: str, epoch: int, *, accepted: bool) -> None:
        """Add a commit that has just ended."""
        self.commits.append((began, next(self.clock), partition, epoch, accepted))
        if len(self.commits) == 10 * PAIRS:
            self.under_way.set()

    def violations(self) -> list[str]:
        """Return everything that must not be."""
        wrong = [
            f"{partition}: a commit of epoch {epoch} that began at {began} was taken, "
            f"a newer one was acknowledged at {self.fenced_at[partition]}"
            for began, _, partition, epoch, accepted in self.commits
            if accepted and epoch < NEW and began > self.fenced_at.get(partition, 1 << 60)
        ]
        for partition, values in self.reads.items():
            pairs = itertools.pairwise(values)
            wrong += [f"{partition}: {a} was followed by {b}" for a, b in pairs if b < a]
        return wrong


async def old_owner(commits, history, task, partition, rng):
    """Commits as long as it is let, and a while longer: it does not know that it is fenced."""
    refused = 0
    for number in range(1, 10_000):
        began = next(history.clock)
        code = await taken(commits, Commit(G, task, OLD, {partition: b"%d %d" % (OLD, number)}))
        assert code in {"", "offset.stale_epoch", "offset.contended"}
        refused += code == "offset.stale_epoch"
        if code != "offset.contended":
            history.record(began, partition, OLD, accepted=not code)
        new_done = history.fenced_at.get(f"{partition} done")
        if refused >= 5 or (new_done and began > new_done + 200):
            return
        for _ in range(rng.randrange(3)):
            await asyncio.sleep(0)


async def taken(commits, step):
    """Return the code that a commit was refused with; empty when it was taken."""
    try:
        await commits.commit(step)
    except PenstockError as error:
        return error.code
    return ""


async def new_owner(commits, history, task, partition, start):
    """Takes over in the middle of things."""
    await start.wait()
    await commits.claim(G, task, NEW)
    for number in range(1, STEPS + 1):
        began = next(history.clock)
        step = Commit(G, task, NEW, {partition: b"%d %d" % (NEW, number)})
        while code := await taken(commits, step):
            assert code == "offset.contended"
        history.record(began, partition, NEW, accepted=True)
        history.fenced_at.setdefault(partition, next(history.clock))
    history.fenced_at[f"{partition} done"] = next(history.clock)


async def observer(edits, history, partitions, done):
    while not done.is_set():
        for partition, value in (await edits.get(G, partitions)).items():
            epoch, number = map(int, value.split())
            history.reads.setdefault(partition, []).append((epoch, number))


async def storm(room, moved: bool, instances: int, seed: int) -> History:
    """Run fifty owners of twenty-five partitions against each other."""
    rng = random.Random(seed)
    history, done = History(), asyncio.Event()
    services = [Commits(room.store) for _ in range(instances)]
    partitions = [f"p{i}" for i in range(PAIRS)]
    old_tasks = [f"g1-{i}" for i in range(PAIRS)]
    new_tasks = [f"g1-{(i + 1000) if moved else i}" for i in range(PAIRS)]
    for task in old_tasks:
        await services[0].claim(G, task, OLD)
    watching = asyncio.create_task(observer(room.edits, history, partitions, done))
    async with asyncio.TaskGroup() as group:
        start = asyncio.Event()
        for old, new, partition in zip(old_tasks, new_tasks, partitions, strict=True):
            one, two = rng.choice(services), rng.choice(services)
            group.create_task(old_owner(one, history, old, partition, rng))
            group.create_task(new_owner(two, history, new, partition, start))
        await history.under_way.wait()
        start.set()
    done.set()
    await watching
    return history


@pytest.mark.parametrize("moved", [False, True], ids=["same task", "partition moved"])
@pytest.mark.parametrize("instances", [1, 2])
def test_offsets_never_go_back_and_the_stale_are_refused(room, moved, instances):
    async def test(room):
        history = await storm(room, moved, instances, seed=random.randrange(1 << 30))
        assert history.violations() == []
        assert sum(accepted for *_, epoch, accepted in history.commits if epoch == OLD) >= PAIRS
        assert sum(not accepted for *_, accepted in history.commits) >= 5 * PAIRS
        final = await room.edits.get(G, [f"p{i}" for i in range(PAIRS)])
        assert set(final.values()) == {b"%d %d" % (NEW, STEPS)}

    room(test)


@pytest.mark.parametrize("moved", [False, True], ids=["same task", "partition moved"])
def test_the_checker_turns_red_when_the_epoch_check_is_broken(room, arm, moved):
    """The twin of the test above."""

    async def test(room):
        arm("offset.epoch_check=break")
        history = await storm(room, moved, 1, seed=1)
        wrong = history.violations()
        assert any("was taken" in line for line in wrong)
        assert any("was followed by" in line for line in wrong)

    room(test)
