"""The offset service with very many partitions: load, commit, list, memory, in each store.

The service is a process of its own, and called as a worker calls it; what is listed in the end is
compared with what was committed. Commits come at a pace, as those of a task do: one every `--every`
seconds, of partitions chosen at random.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.client import OffsetClient
from penstock_kit.testing.process_tree import list_processes
from penstock_values.identity import partition_id
from report import Report, arguments, percentile
from running import working_folder
from support.etcd import EtcdServers
from support.offset_process import OffsetProcess
from support.postgresql import PostgresqlServer

GENERATION = "g1"
TASKS = 4
"""Tasks that load at once."""

DEADLINE = 60.0

QUIET = 0.03
"""CPU seconds in half a second of a service that rests."""


@dataclass(frozen=True)
class Size:
    """How much of everything, and the goals."""

    partitions: int
    load: int
    """partitions of a commit while loading"""
    touched: int
    """partitions of a commit afterwards"""
    goal_ms: float


SIZES = {
    "sqlite": Size(1_000_000, 10_000, 10_000, 250),
    "postgresql": Size(1_000_000, 10_000, 10_000, 250),
    "etcd": Size(100_000, 1_000, 100, 50),
}


class Partitions:
    """What was committed last of every partition."""

    def __init__(self, count: int) -> None:
        self.ids = [partition_id({"database": "shop", "table": f"t{n:07d}"}) for n in range(count)]
        self.last = [0] * count

    def offsets(self, which: list[int], number: int) -> dict[str, dict[str, int]]:
        """Return the offsets of a commit."""
        for one in which:
            self.last[one] = number
        return {self.ids[one]: {"position": number} for one in which}


@contextmanager
def store(kind: str, folder: Path) -> Iterator[str]:
    """Run what the store needs; yields where it is."""
    if kind == "sqlite":
        yield f"sqlite:{folder}/state.db"
    elif kind == "etcd":
        with EtcdServers(folder, 1, "--quota-backend-bytes", str(8 << 30), fsync=True) as servers:
            yield f"etcd:{','.join(servers.endpoints)}"
    else:
        with PostgresqlServer() as server:
            yield server.settings().url.reveal()


async def load(client: OffsetClient, partitions: Partitions, size: Size) -> None:
    """Commit every partition once, by a few tasks at once."""

    async def one(task: int) -> None:
        name = f"{GENERATION}-{task}"
        await client.claim(GENERATION, name, 1)
        for at in range(task * size.load, size.partitions, TASKS * size.load):
            which = list(range(at, min(at + size.load, size.partitions)))
            await client.commit(GENERATION, name, 1, partitions.offsets(which, 1))

    await asyncio.gather(*map(one, range(TASKS)))


async def commits(
    client: OffsetClient, partitions: Partitions, size: Size, number: int, every: float
) -> list[float]:
    """Commit so often; returns the milliseconds of each."""
    took = []
    rng = random.Random(1)
    for count in range(number):
        which = rng.sample(range(size.partitions), size.touched)
        offsets = partitions.offsets(which, count + 2)
        began = time.perf_counter()
        await client.commit(GENERATION, f"{GENERATION}-0", 1, offsets)
        took.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(max(0.0, every - took[-1] / 1000))
    return took


async def check(client: OffsetClient, partitions: Partitions) -> float:
    """List everything and compare it; returns the seconds that the list took."""
    began = time.monotonic()
    found = [offset["position"] async for _, offset in client.list(GENERATION)]
    took = time.monotonic() - began
    if found != partitions.last:
        raise SystemExit("what is listed is not what was committed")
    return took


async def rest(pid: int) -> None:
    """Wait until the service has nothing to do any more: what was committed is in its place."""
    used, before = list_processes()[pid].cpu, -1.0
    while used - before > QUIET:
        await asyncio.sleep(0.5)
        used, before = list_processes()[pid].cpu, used


def peak(pid: int) -> float:
    """Return the most memory that a process ever had, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


async def measure(report: Report, address: str, pid: int, options: argparse.Namespace) -> None:
    """Measure one service."""
    size = SIZES[options.store]
    size = replace(size, partitions=options.partitions or size.partitions)
    partitions = Partitions(size.partitions)
    async with OffsetClient(address, DEADLINE) as client:
        await client.get(GENERATION, [])
        began = time.monotonic()
        await load(client, partitions, size)
        report.add("load", "s", time.monotonic() - began, at_most=60)
        await rest(pid)
        report.add("load, and all in its place", "s", time.monotonic() - began, at_most=60)
        took = await commits(client, partitions, size, options.commits, options.every)
        name = f"commit of {size.touched:,}"
        report.add(f"{name}, p50", "ms", percentile(took, 50))
        report.add(f"{name}, p99", "ms", percentile(took, 99), at_most=size.goal_ms)
        report.add("list", "s", await check(client, partitions), at_most=20)
        report.add("memory at most", "MiB", peak(pid), at_most=300)
        began = time.monotonic()
        await client.reset("gone", GENERATION)
        report.add("reset", "s", time.monotonic() - began)
        if [one async for one in client.list(GENERATION)]:
            raise SystemExit("a reset left offsets")


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--store", choices=SIZES, default="sqlite")
    parser.add_argument("--partitions", type=int, help="fewer, for a quick look")
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--every", type=float, default=1.0)
    options = parser.parse_args()
    report = Report(f"offsets in {options.store}", facts={"every": f"{options.every:g} s"})
    with (
        working_folder(keep=options.keep) as folder,
        store(options.store, folder) as where,
        OffsetProcess(folder, "offset", where) as service,
    ):
        asyncio.run(measure(report, service.address, service.pid, options))
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
