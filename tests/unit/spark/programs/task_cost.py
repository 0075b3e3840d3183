"""Prints the CPU milliseconds of a Python task: `task_cost.py FOLDER DAEMON_MODULE`.

Counted is all that the daemon and its forks use while tiny jobs run, over the number of tasks.
"""

import asyncio
import sys
from pathlib import Path

import psutil
import pyarrow as pa

from penstock.model.step import Step
from penstock.model.ticket import SlotTicket, Ticket
from penstock.spark.engine import Engine
from penstock.spark.settings import EngineSettings

JOBS = 20


def used(jvm: int) -> float:
    """CPU seconds of everything that the JVM has started."""
    return sum(
        times.user + times.system
        for child in psutil.Process(jvm).children(recursive=True)
        for times in [child.cpu_times()]
    )


async def main(folder: Path, daemon: str) -> None:
    settings = EngineSettings(
        master="local[1,1]",
        slots=1,
        local_dir=folder,
        extra={"spark.python.daemon.module": daemon},
    )
    engine = Engine(settings)
    await engine.start()
    steps = [Step(where="x > 0")]  # for the JVM: a lane is one Python task for all
    plan = engine.build("t", pa.schema([("x", pa.int64())]), steps, 1)
    ticket = Ticket("t", 1, 1, (SlotTicket(0, 0, {"kind": "empty"}, {"kind": "discard"}),))
    for _ in range(5):
        await engine.run(plan, ticket)
    pid = engine._jvm.process.pid
    before = used(pid)
    for _ in range(JOBS):
        await engine.run(plan, ticket)
    print(1e3 * (used(pid) - before) / JOBS, flush=True)
    await engine.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
