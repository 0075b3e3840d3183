"""Two epochs, fifty clients, several instances, clients that die: offsets are linearizable."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest

from penstock.offset import Commit, commits, compaction
from support import offset_history as history
from support.offset_history import OK, STALE, History

G, OLD, NEW, PAIRS, STEPS = "g1", 5, 9, 25, 6
BESIDE = ["a", "b"]
"""Names of partitions beside the one that is looked at: with them a commit is a journal."""


class Storm:
    """Fifty owners of twenty-five partitions against each other, on instances of one store."""

    def __init__(self, room, moved, instances, seed):
        self.rng = random.Random(seed)
        self.rooms = [room, *(room.another() for _ in range(instances - 1))]
        self.moved, self.history = moved, History()
        self.start = asyncio.Event()

    async def run(self):
        """Run until the new owners are done and the old ones know that they are fenced."""
        async with asyncio.TaskGroup() as group:
            for pair in range(PAIRS):
                group.create_task(self.old_owner(pair))
                group.create_task(self.new_owner(pair))
        for room in self.rooms[1:]:
            await room.folder.close()
        return self.history

    async def old_owner(self, pair):
        task, refused = f"g1-{pair}", 0
        while not await self.claim(pair, task, OLD):
            pass
        for number in range(1, 10 * STEPS):
            refused += await self.commit(pair, task, OLD, number) == STALE
            await self.read(pair)
            if number == 3:
                self.start.set()
            if refused >= 3:
                return

    async def new_owner(self, pair):
        task = f"g1-{pair + 1000 * self.moved}"
        await self.start.wait()
        while await self.claim(pair, task, NEW) != OK:
            pass
        for number in range(1, STEPS + 1):
            while await self.commit(pair, task, NEW, number) != OK:
                pass
            await self.read(pair)

    async def claim(self, pair, task, epoch):
        room = self.rng.choice(self.rooms)
        what = history.Claim(task, epoch)
        return await self.mortal(pair, what, room.commits.claim(G, task, epoch))

    async def commit(self, pair, task, epoch, number):
        names = [f"p{pair}", *(f"p{pair}{name}" for name in self.rng.choice(([], [], BESIDE)))]
        offsets = dict.fromkeys(names, b"%d %d" % (epoch, number))
        room = self.rng.choice(self.rooms)
        what = history.Commit(task, epoch, number)
        return await self.mortal(pair, what, room.commits.commit(Commit(G, task, epoch, offsets)))

    async def read(self, pair):
        async def value():
            found = await self.rng.choice(self.rooms).edits.get(G, [f"p{pair}"])
            body = found.get(f"p{pair}")
            return None if body is None else tuple(map(int, body.split()))

        await self.history.call(f"p{pair}", history.Read(), value())

    async def mortal(self, pair, what, doing):
        """Do a call; now and then whoever makes it dies in the middle."""
        calling = asyncio.ensure_future(doing)
        recorded = asyncio.ensure_future(self.history.call(f"p{pair}", what, calling))
        if self.rng.random() < 0.05:
            for _ in range(self.rng.randrange(6)):
                await asyncio.sleep(0)
            calling.cancel()
        with suppress(asyncio.CancelledError):
            return await recorded
        return ""


@pytest.fixture(autouse=True)
def journaled(monkeypatch):
    """Makes a journal of every commit of more than two partitions."""
    monkeypatch.setattr(commits, "MAX_DIRECT_PARTITIONS", 2)
    monkeypatch.setattr(compaction, "BATCH_SIZE", 30)


@pytest.mark.parametrize("moved", [False, True], ids=["same task", "partition moved"])
@pytest.mark.parametrize("instances", [1, 2])
def test_offsets_are_linearizable(room, moved, instances):
    async def test(room):
        found = await Storm(room, moved, instances, random.randrange(1 << 30)).run()
        assert found.unexplained() == {}
        assert found.accepted[OLD] >= PAIRS
        assert found.refused >= 3 * PAIRS
        assert found.lost
        final = await room.edits.get(G, [f"p{i}" for i in range(PAIRS)])
        assert set(final.values()) == {b"%d %d" % (NEW, STEPS)}

    room(test)


@pytest.mark.parametrize("moved", [False, True], ids=["same task", "partition moved"])
def test_the_checker_turns_red_when_the_epoch_check_is_broken(room, arm, moved):
    """The twin of the test above."""

    async def test(room):
        arm("offset.epoch_check=break")
        assert (await Storm(room, moved, 1, seed=1).run()).unexplained()

    room(test)
