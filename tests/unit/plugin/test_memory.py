"""A plugin that has too much memory is ended with a code of its own; nobody else is."""

import asyncio
import mmap
import os
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.model.errors import PenstockError
from penstock.plugin.host import PluginHost
from penstock.plugin.process import local_process
from penstock.plugin.streams.source_stream import PluginSourceStream

MIB = 1 << 20
LIMIT = 192 * MIB


def score_of(process):
    """How soon the kernel takes it."""
    return int(Path(f"/proc/{process}/oom_score_adj").read_text())


async def grow(process, target):
    """Let it eat until it is ended, which may be before it answers."""
    with suppress(PenstockError):
        await process.validate(target)
    async with asyncio.timeout(60):
        await process.exited


def test_the_next_look_is_due_when_the_rest_can_be_full():
    assert local_process.next_check_delay(2 << 30, 1 << 30) == pytest.approx(0.5)
    assert local_process.next_check_delay(100 * MIB, 99 * MIB) == pytest.approx(0.02)
    assert local_process.next_check_delay(1 << 40, 0) == 1.0


def test_what_is_kept_counts_and_what_is_only_reserved_does_not():
    before = local_process.measure_memory(os.getpid())
    with mmap.mmap(-1, 256 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as reserved:
        assert local_process.measure_memory(os.getpid()) - before < 32 * MIB
        reserved.write(b"x" * (64 * MIB))
        assert local_process.measure_memory(os.getpid()) - before >= 60 * MIB


def test_a_process_that_is_gone_has_none():
    assert local_process.measure_memory(2**22 + 1) == 0


@pytest.mark.parametrize("config", [{"eat": "256"}, {"feed a child": "256"}])
def test_a_plugin_that_grows_too_large_is_ended_and_told(kit, run, config):
    async def scenario():
        process = await kit.start(max_memory_bytes=LIMIT)
        beside = await kit.start(max_memory_bytes=LIMIT)
        try:
            await grow(process, kit.target(**config))
            with pytest.raises(PenstockError) as caught:
                await process.validate(kit.target())
            assert beside.alive
            assert await beside.validate(kit.target())
        finally:
            await process.stop(0)
            await beside.stop(0.5)
        return caught.value

    error = run(scenario())
    assert error.code == "plugin.memory_exceeded"
    assert "192 MiB are allowed" in str(error)
    assert error.diagnostic.config_path == "plugin.memory.max"


def test_a_call_that_was_under_way_is_told_the_same(kit, run):
    async def scenario():
        async with kit.running(max_memory_bytes=LIMIT) as process:
            with pytest.raises(PenstockError) as caught:
                await process.validate(kit.target(eat="400", hang="1"))
            return caught.value.code

    assert run(scenario()) == "plugin.memory_exceeded"


def test_a_stream_ends_with_it_and_another_plugins_goes_on(kit, run):
    async def opened(process, *script):
        target = kit.target(script=kit.script([kit.opened(), *script, {"hang": 1}]))
        stream = PluginSourceStream(process, target, kit.plan(), 1)
        await stream.open()
        return stream

    async def scenario():
        async with (
            kit.running(max_memory_bytes=LIMIT) as large,
            kit.running(max_memory_bytes=LIMIT) as small,
        ):
            other = await opened(small, kit.schema_frame())
            stream = await opened(large, {"eat": 256})
            with pytest.raises(PenstockError) as caught:
                [event async for event in stream]
            assert len([await anext(aiter(other))]) == 1
            await stream.close()
            await other.close()
            return caught.value.code

    assert run(scenario()) == "plugin.memory_exceeded"


def test_one_that_is_too_large_before_its_handshake_is_told_too(kit, run):
    with pytest.raises(PenstockError) as caught:
        run(kit.start("eats_at_start", max_memory_bytes=LIMIT))
    assert caught.value.code == "plugin.memory_exceeded"


def test_without_a_limit_none_is_ended(kit, run):
    async def scenario():
        async with kit.running() as process:
            await process.validate(kit.target(eat="256"))
            assert process.alive

    run(scenario())


def test_the_kernel_takes_a_plugin_before_its_host(kit, run):
    async def scenario():
        async with kit.running() as process:
            return score_of(process.pid)

    assert run(scenario()) > score_of("self")


def test_a_plugin_that_was_ended_for_its_memory_is_started_again(kit, run):
    async def scenario():
        host = PluginHost(
            kit.registry(), kit.runtime_dir, deadlines=kit.deadlines, max_memory_bytes=LIMIT
        )
        first = await host.acquire("source")
        await grow(first, kit.target(eat="256"))
        second = await host.acquire("source")
        assert second.pid != first.pid
        await host.close(0.5)

    run(scenario())
