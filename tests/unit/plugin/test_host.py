"""One process per plugin and connector, shared, restarted with back-off, ended with the host."""

import asyncio
import os
import signal
from collections import Counter
from dataclasses import replace

import pytest

from penstock.model.errors import PenstockError
from penstock.plugin.catalog.registry import Registry
from penstock.plugin.host import MAX_OWNERS, PluginHost, StartDelay


def test_backoff_doubles_to_its_longest():
    backoff, waits = StartDelay(), []
    for _ in range(9):
        backoff.record_failure(started_at=0, now=1)
        waits.append(backoff.delay(1))
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10])
    assert backoff.delay(6) == 5
    assert backoff.delay(60) == 0


def test_backoff_forgets_after_health():
    backoff = StartDelay()
    for _ in range(5):
        backoff.record_failure(started_at=0, now=1)
    backoff.record_failure(started_at=100, now=130)
    assert backoff.delay(130) == pytest.approx(0.1)


def test_backoff_stays_finite():
    backoff = StartDelay(failures=100_000)
    backoff.record_failure(started_at=0, now=0)
    assert backoff.delay(0) == 10


def test_tasks_share_one_process_and_one_start(kit, run):
    async def scenario():
        host = PluginHost(kit.registry(), kit.runtime_dir, deadlines=kit.deadlines)
        names = ["source", "org.example.Source", "scripted/source", "source"]
        processes = await asyncio.gather(*(host.acquire(name) for name in names))
        assert len({process.pid for process in processes}) == 1
        other = await host.acquire("sink")
        assert other.pid != processes[0].pid
        assert host.statistics()["scripted/source"] == {"starts": 1, "failures": 0}
        await host.close(0.5)
        assert not other.alive
        await host.close()

    run(scenario())


def test_a_task_may_have_a_process_of_its_own_until_it_is_released(kit, run):
    async def scenario():
        host = PluginHost(kit.registry(), kit.runtime_dir, deadlines=kit.deadlines)
        shared = await host.acquire("source")
        assert host.reserve("g-1")
        own = await host.acquire("source", task="g-1", owner="g-1")
        again = await host.acquire("source", task="g-1", owner="g-1")
        assert again.pid == own.pid != shared.pid
        os.kill(own.pid, signal.SIGKILL)
        await own.exited
        again = await host.acquire("source", task="g-1", owner="g-1")
        assert shared.alive
        host.release("g-1")
        await again.exited
        assert (await host.acquire("source")).pid == shared.pid
        await host.close(0.5)

    run(scenario())


def test_tasks_of_a_connector_may_share_a_process_with_no_other_one(kit, run):
    async def scenario():
        host = PluginHost(kit.registry(), kit.runtime_dir, deadlines=kit.deadlines)
        calls = [("g-0", "g"), ("g-1", "g"), ("h-0", "h"), ("f-0", ""), ("", "")]
        processes = [await host.acquire("source", "", *call) for call in calls]
        pids = [process.pid for process in processes]
        assert pids[0] == pids[1]
        assert pids[3] == pids[4]
        assert len(set(pids)) == 3
        host.release("g-0")
        assert processes[1].alive, "it is not the task's own"
        await host.close(0.5)

    run(scenario())


def test_more_tasks_than_a_process_takes_start_another_one(kit, run):
    manifest = kit.scripted()
    entry = replace(manifest.connectors[0], max_tasks=2)
    registry = Registry([replace(manifest, connectors=(entry,))])

    async def scenario():
        host = PluginHost(registry, kit.runtime_dir, deadlines=kit.deadlines)

        async def pid(task=""):
            return (await host.acquire("source", task=task)).pid

        pids = await asyncio.gather(*(pid(f"g-{n}") for n in range(5)))
        assert Counter(Counter(pids).values()) == {2: 2, 1: 1}
        assert await pid() == pids[0], "who is no task needs no room"
        assert await pid("g-3") == pids[3], "a task keeps its process"
        host.release("g-0")
        assert await pid("g-9") == pids[0], "and leaves its room to others"
        assert await pid("g-0") == pids[4]
        assert host.statistics()["scripted/source"]["starts"] == 3
        await host.close(0.5)

    run(scenario())


def test_only_a_few_tasks_have_processes_of_their_own_at_once(kit):
    host = PluginHost(kit.registry(), kit.runtime_dir)
    assert [host.reserve(f"g-{n}") for n in range(MAX_OWNERS + 1)] == [True] * MAX_OWNERS + [False]
    assert host.reserve("g-0")
    host.release("g-0")
    assert host.reserve("h-0")


def test_a_crashed_process_is_replaced_after_its_backoff(kit, run):
    async def scenario():
        host = PluginHost(kit.registry(), kit.runtime_dir, deadlines=kit.deadlines)
        first = await host.acquire("source")
        os.kill(first.pid, signal.SIGKILL)
        await first.exited
        asked = asyncio.get_running_loop().time()
        second = await host.acquire("source")
        assert asyncio.get_running_loop().time() - asked >= 0.1
        assert second.pid != first.pid
        assert host.statistics()["scripted/source"] == {"starts": 2, "failures": 1}
        await host.close(0.5)

    run(scenario())


def test_a_process_that_nobody_uses_is_ended_and_the_next_one_is_started_at_once(kit, run):
    async def scenario():
        host = PluginHost(
            kit.registry(), kit.runtime_dir, deadlines=kit.deadlines, idle_timeout_s=1
        )
        first = await host.acquire("source")
        first.connection.idle_timer.begin_use()  # as a stream does, for as long as it is open
        await asyncio.sleep(2)
        assert first.alive
        first.connection.idle_timer.end_use()
        await asyncio.wait_for(first.exited, 60)
        second = await host.acquire("source")
        assert second.pid != first.pid
        assert host.statistics()["scripted/source"] == {"starts": 2, "failures": 0}
        await host.close(0.5)

    run(scenario())


def test_a_plugin_that_cannot_start_is_not_tried_in_a_tight_loop(kit, run):
    async def scenario():
        host = PluginHost(kit.registry("exit"), kit.runtime_dir, deadlines=kit.deadlines)
        loop = asyncio.get_running_loop()
        started = loop.time()
        for _ in range(4):
            with pytest.raises(PenstockError, match="exited_early"):
                await host.acquire("source")
        assert loop.time() - started >= 0.1 + 0.2 + 0.4
        await host.close()

    run(scenario())


def test_one_caller_that_gives_up_does_not_end_the_start_of_others(kit, run):
    async def scenario():
        host = PluginHost(kit.registry(), kit.runtime_dir, deadlines=kit.deadlines)
        impatient = asyncio.create_task(host.acquire("source"))
        patient = asyncio.create_task(host.acquire("source"))
        await asyncio.sleep(0)
        impatient.cancel()
        assert (await patient).alive
        assert impatient.cancelled()
        await host.close(0.5)

    run(scenario())


def test_closing_ends_a_start_and_tells_who_waits(kit, run):
    async def scenario():
        host = PluginHost(kit.registry("silent"), kit.runtime_dir, deadlines=kit.deadlines)
        waiting = asyncio.create_task(host.acquire("source"))
        await kit.until(kit.processes)
        await host.close()
        for late in (waiting, host.acquire("source")):
            with pytest.raises(PenstockError, match="host_closed"):
                await late

    run(scenario())


def test_an_unknown_class_is_told_at_once(kit, run):
    async def scenario():
        host = PluginHost(kit.registry(), kit.runtime_dir)
        with pytest.raises(PenstockError, match="not_installed"):
            await host.acquire("sourse")
        assert [m.name for m in host.list_plugins()] == ["scripted"]
        await host.close()

    run(scenario())
