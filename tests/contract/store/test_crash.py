"""What was acknowledged is there after kill -9, at any moment, again and again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.store.sqlite import SqliteStore

_WRITER = """
import asyncio, sys
from pathlib import Path
from penstock.store.port import Check
from penstock.store.sqlite import SqliteStore

async def one(store, round_, lane):
    n = 0
    while True:
        n += 1
        pair = [(f"{round_}/{lane}/{n}/a", b"x" * 100), (f"{round_}/{lane}/{n}/b", b"x" * 5000)]
        await store.write([Check(key, 0) for key, _ in pair], pair)
        print(f"{round_}/{lane}/{n}", flush=True)

async def main(path, round_):
    store = await SqliteStore.open(Path(path))
    await asyncio.gather(*(one(store, round_, lane) for lane in range(8)))

asyncio.run(main(*sys.argv[1:]))
"""


def _run_and_kill(path: Path, round_: int, fault: str = "") -> list[str]:
    """Return what a writer had acknowledged when it was killed."""
    environment = {**os.environ, **({"PENSTOCK_FAULTS": fault} if fault else {})}
    with subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path), str(round_)],
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    ) as writer:
        assert writer.stdout is not None
        lines = []
        for line in writer.stdout:
            lines.append(line.strip())
            if not fault and len(lines) == 150 + 37 * round_:
                writer.send_signal(signal.SIGKILL)
        writer.wait(30)
    assert writer.returncode == -signal.SIGKILL
    return lines


def _missing(path: Path, acknowledged: list[str]) -> tuple[list[str], list[str]]:
    """Return what was acknowledged and is not there, and pairs of which only half is there."""

    async def read() -> set[str]:
        store = await SqliteStore.open(path)
        try:
            page = await store.range("", limit=1_000_000)
            return {entry.key for entry in page.entries}
        finally:
            await store.close()

    keys = asyncio.run(read())
    lost = [place for place in acknowledged if not {f"{place}/a", f"{place}/b"} <= keys]
    halves = [key for key in keys if (key[:-1] + ("b" if key[-1] == "a" else "a")) not in keys]
    return lost, halves


def test_acknowledged_writes_survive_kill_9_in_a_loop(tmp_path):
    path = tmp_path / "state.db"
    acknowledged: list[str] = []
    for round_ in range(5):
        acknowledged += _run_and_kill(path, round_)
        assert _missing(path, acknowledged) == ([], [])
    assert len(acknowledged) > 1000


@pytest.mark.parametrize("point", ["store.committing", "store.committed"])
def test_a_kill_around_the_commit_loses_no_acknowledged_write_and_tears_none(tmp_path, point):
    path = tmp_path / "state.db"
    acknowledged = _run_and_kill(path, 0, f"{point}=kill@40")
    assert acknowledged
    assert _missing(path, acknowledged) == ([], [])


def test_the_checker_sees_a_lost_write(tmp_path):
    path = tmp_path / "state.db"
    acknowledged = _run_and_kill(path, 0)
    assert _missing(path, [*acknowledged, "0/0/999999"]) == (["0/0/999999"], [])
