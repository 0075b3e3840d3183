"""Fault points: free unless armed, armed only by the environment, refused when misspelt."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from penstock.model import faults
from penstock.model.errors import ConfigError, RetriableError


def _run(program, environment):
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, check=False)


@pytest.fixture
def arm():
    """Arms as a start with that environment would; disarms afterwards."""
    yield lambda text: faults.load({faults.VARIABLE: text})
    faults.load({})


def test_an_unarmed_point_does_nothing():
    assert faults.hit("worker.sink_written") is False
    assert faults.hits("worker.sink_written") == 0


@pytest.mark.timed("a fault point stands in the hot path")
def test_an_unarmed_point_costs_next_to_nothing():
    hit = faults.hit
    began = time.perf_counter()
    for _ in range(100_000):
        hit("worker.sink_written")
    assert time.perf_counter() - began < 0.1  # 1 µs each, on the slowest machine


def test_break_returns_true_and_only_at_its_point(arm):
    arm("offset.epoch_check=break")
    assert faults.hit("offset.epoch_check") is True
    assert faults.hit("worker.acked") is False
    assert faults.hits("offset.epoch_check") == 1


def test_raise_at_the_nth_hit_and_only_there(arm):
    arm("worker.acked=raise@3")
    assert [faults.hit("worker.acked") for _ in range(2)] == [False, False]
    with pytest.raises(RetriableError, match=r"fault\.injected.*worker\.acked"):
        faults.hit("worker.acked")
    assert faults.hit("worker.acked") is False
    assert faults.hits("worker.acked") == 4


def test_several_points_are_armed_at_once(arm):
    arm(" worker.sink_written=raise@2 , worker.acked=break,")
    assert faults.hit("worker.acked")
    assert not faults.hit("worker.sink_written")


def test_hang_in_a_coroutine_stops_only_that_coroutine(arm):
    arm("worker.acking=hang")

    async def main():
        hanging = asyncio.create_task(faults.reach("worker.acking"))
        assert await faults.reach("worker.acked") is False
        done, _ = await asyncio.wait({hanging}, timeout=0.05)
        assert not done
        hanging.cancel()

    asyncio.run(main())


@pytest.mark.parametrize("how", ["faults.hit('worker.acked')", "asyncio.run(two())"])
def test_kill_ends_the_process_as_a_power_cut_would(how):
    program = (
        "import asyncio\n"
        "from penstock.model import faults\n"
        "async def two():\n"
        "    await faults.reach('worker.acked')\n"
        f"{how}\n{how}\n"
        "print('still here')\n"
    )
    environment = {**os.environ, faults.VARIABLE: "worker.acked=kill@2"}
    done = _run(program, environment)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == b""


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("worker.sink_writen=kill", "fault.unknown_point", "Did you mean worker.sink_writ"),
        ("nonsense=kill", "fault.unknown_point", "worker.acked"),
        ("worker.acked=explode", "fault.unknown_action", "kill, raise, hang, break"),
        ("worker.acked", "fault.malformed", "POINT=ACTION"),
        ("worker.acked=kill@0", "fault.malformed", "POINT=ACTION"),
        ("worker.acked=kill@x", "fault.malformed", "POINT=ACTION"),
    ],
)
def test_a_misspelt_fault_is_refused_with_the_valid_names(text, code, told):
    with pytest.raises(ConfigError) as caught:
        faults.parse(text)
    assert caught.value.code == code
    assert told in str(caught.value)


def test_a_misspelt_point_keeps_a_process_from_starting():
    environment = {**os.environ, faults.VARIABLE: "worker.nothing=kill"}
    program = "import penstock.model.faults"
    done = _run(program, environment)
    assert done.returncode == 1
    assert b"fault.unknown_point" in done.stderr


def test_every_point_in_the_code_is_published():
    """A misspelt point in the code would never fire."""
    import re
    from pathlib import Path

    import penstock

    (root,) = penstock.__path__
    used = {
        name
        for file in Path(root).rglob("*.py")
        for name in re.findall(r"faults\.(?:hit|reach)\(\s*\"([^\"]+)\"", file.read_text())
    }
    assert used <= set(faults.POINTS)
