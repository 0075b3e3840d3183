"""Fifty clients of two epochs, while the offset service is killed: the history is linearizable."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, ExitStack, contextmanager

import pytest

from penstock.client import OffsetClient, service_client
from penstock.model import faults
from support.etcd import EtcdServers
from support.offset_history import OK, STALE, Claim, Commit, History, Read
from support.offset_process import OffsetProcess
from support.postgresql import PostgresqlServer

G, OLD, NEW, PAIRS, STEPS, KILLS = "g1", 5, 9, 25, 8, 4
BESIDE = 120
"""Partitions of a commit beside the one that is looked at: with them it is a journal."""

INSTANCES = {"sqlite": 1, "etcd": 2, "postgresql": 2}


@contextmanager
def services(kind, folder):
    """Run a store, and instances of the service on it."""
    with ExitStack() as stack:
        if kind == "sqlite":
            store = f"sqlite:{folder}/state.db"
        elif kind == "etcd":
            servers = stack.enter_context(EtcdServers(folder))
            store = f"etcd:{','.join(servers.endpoints)}"
        else:
            server = stack.enter_context(PostgresqlServer())
            store = server.settings().url.reveal()
        yield [
            stack.enter_context(OffsetProcess(folder, f"o{number}", store))
            for number in range(INSTANCES[kind])
        ]


class Storm:
    """Old and new owners of twenty-five partitions."""

    def __init__(self, processes, clients):
        self.processes, self.clients = processes, clients
        self.history, self.start = History(), asyncio.Event()

    async def run(self, kills):
        """Run until the new owners are done and the old ones know that they are fenced."""
        async with asyncio.TaskGroup() as group:
            for pair in range(PAIRS):
                group.create_task(self.old_owner(pair))
                group.create_task(self.new_owner(pair))
            group.create_task(self.killer(kills))
        return self.history

    async def killer(self, kills):
        """Kill an instance whenever some more commits were taken, and start it again."""
        accepted = self.history.accepted
        for number in range(1, kills + 1):
            while accepted[OLD] + accepted[NEW] < number * 2 * PAIRS:
                await asyncio.sleep(0.005)
            process = random.choice(self.processes)
            process.kill()
            await asyncio.to_thread(process.start)

    async def old_owner(self, pair):
        refused = 0
        while not await self.claim(pair, OLD):
            pass
        for number in range(1, 1000):
            refused += await self.commit(pair, OLD, number) == STALE
            await self.read(pair)
            if number == 2:
                self.start.set()
            if refused >= 3:
                return

    async def new_owner(self, pair):
        await self.start.wait()
        while await self.claim(pair, NEW) != OK:
            pass
        for number in range(1, STEPS + 1):
            while await self.commit(pair, NEW, number) != OK:
                pass
            await self.read(pair)

    async def claim(self, pair, epoch):
        what = Claim(f"g1-{pair}", epoch)
        return await self.called(pair, what, self.client().claim(G, what.task, epoch))

    async def commit(self, pair, epoch, number):
        what = Commit(f"g1-{pair}", epoch, number)
        names = [f"p{pair}", *(f"p{pair}/{n}" for n in range(random.choice((0, 0, BESIDE))))]
        offsets = {name: {"epoch": epoch, "number": number} for name in names}
        return await self.called(pair, what, self.client().commit(G, what.task, epoch, offsets))

    async def read(self, pair):
        async def value():
            found = (await self.client().get(G, [f"p{pair}"])).get(f"p{pair}")
            return (found["epoch"], found["number"]) if found else None

        await self.called(pair, Read(), value())

    async def called(self, pair, what, doing):
        answer = await self.history.call(f"p{pair}", what, doing)
        if not answer:  # the service is away
            await asyncio.sleep(0.02)
        return answer

    def client(self):
        return random.choice(self.clients)


@pytest.fixture(autouse=True)
def no_repeats(monkeypatch):
    """A call that a client repeats by itself may have happened twice: here it is one."""
    monkeypatch.setattr(service_client, "MAX_ATTEMPTS", 1)


def storm(kind, folder, kills):
    async def main():
        with services(kind, folder) as processes:
            async with AsyncExitStack() as stack, asyncio.timeout(100):
                opened = [OffsetClient(one.address, 5.0) for one in processes]
                clients = [await stack.enter_async_context(one) for one in opened]
                return await Storm(processes, clients).run(kills)

    return asyncio.run(main())


@pytest.mark.parametrize("kind", INSTANCES)
def test_offsets_are_linearizable_while_the_service_is_killed(tmp_path, kind):
    found = storm(kind, tmp_path, KILLS)
    assert found.unexplained() == {}
    assert found.lost
    assert found.refused >= 3 * PAIRS
    assert found.accepted[NEW] >= PAIRS * STEPS


def test_the_checker_turns_red_when_the_epoch_check_is_broken(tmp_path, monkeypatch):
    """The twin of the test above."""
    monkeypatch.setenv(faults.VARIABLE, "offset.epoch_check=break")
    monkeypatch.setattr(f"{__name__}.STALE", OK)  # else the old owners would never end
    assert storm("sqlite", tmp_path, 0).unexplained()
