"""The engine without Spark, for tests of everything around it: a start costs 0.5 s of CPU, one of
a JVM 5.

    python -m support.plain_engine run p.yaml

It is the command line, of which a worker has `PlainEngine`: the engine of the product, its queue,
jobs and cancellation included, on a session that runs the functions of a fused plan in processes of
`plain_workers` instead of Spark's Python workers. So rows take the way of every fused plan; a chain
that needs the JVM is refused. What Spark itself may do wrong (a lost JVM, a lost executor, two
attempts of one slot) is shown by tests with Spark: `unit/spark`, `chaos/test_kill_processes.py`,
`chaos/test_cluster_faults.py`, `chaos/test_cluster_storm.py`, `system/test_cluster_bounce.py`.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from pyspark import cloudpickle

import penstock.worker.runtime.worker as worker_process
from penstock.cli.__main__ import main
from penstock.spark import engine
from penstock.spark.jvm import engine_environment
from penstock.spark.partition_functions import TICKET_PROPERTY
from penstock.spark.settings import EngineSettings

TESTS: Final = Path(__file__).parents[1]
START_TIMEOUT_S: Final = 120.0


class PlainEngine(engine.Engine):
    """The engine of the product on `PlainJvm`."""

    async def _warm_up(self) -> None:
        """Nothing is cold."""


class PlainJvm:
    """What the engine uses of `penstock.spark.jvm.Jvm`. `process` forks the workers."""

    def __init__(self, settings: EngineSettings, on_spawn: Callable[[Any], object]) -> None:
        folder = settings.local_dir or Path(tempfile.mkdtemp(prefix="plain-"))
        folder.mkdir(parents=True, exist_ok=True)
        address = folder / "s"
        with (folder / "plain_workers.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "support.plain_workers", str(address)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**engine_environment(os.environ), "PYTHONPATH": os.pathsep.join(sys.path)},
                start_new_session=True,
            )
        on_spawn(self.process)
        assert self.process.stdout is not None
        if not self.process.stdout.readline():
            raise ChildProcessError("plain_workers ended before it listened")
        self.session = PlainSession(Workers(str(address), settings.most_lanes))

    def has_ended(self, within_s: float = 0.0) -> bool:
        """Tell whether the process has ended, or ends within this time."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(within_s)
        return self.process.returncode is not None

    def watch(self, on_end: Callable[[], object]) -> None:
        """Call `on_end` from another thread when the process has ended."""

        def wait() -> None:
            self.process.wait()
            on_end()

        threading.Thread(target=wait, daemon=True).start()

    def stop(self, timeout_s: float) -> None:
        """End the process, and the workers with it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout_s)


class PlainSession:
    """What plans use of a Spark session: `range(…).mapInArrow(…).collect()`."""

    def __init__(self, workers: Workers) -> None:
        self.sparkContext = PlainContext(workers)

    def createDataFrame(self, *_: object) -> None:  # noqa: N802 - Spark's name
        """There is no session to activate."""

    def range(self, _start: int, slots: int, *_: int) -> PlainFrame:
        """Return the slots of a plan."""
        return PlainFrame(self.sparkContext, slots)


class PlainFrame:
    """The slots of a plan, and the function that runs for each."""

    def __init__(
        self, context: PlainContext, slots: int, function: Callable[..., Any] | None = None
    ) -> None:
        self._context, self._slots, self._function = context, slots, function

    def mapInArrow(self, function: Callable[..., Any], schema: object) -> PlainFrame:  # noqa: N802
        """Return the plan; a second function is one of a plan for the JVM."""
        if not isinstance(schema, str):
            raise NotImplementedError("this chain needs the JVM: run the test with Spark")
        return PlainFrame(self._context, self._slots, function)

    def collect(self) -> list[SimpleNamespace]:
        """Run all slots; returns their reports."""
        return self._context.collect(cloudpickle.dumps(self._function), self._slots)


class PlainContext:
    """Job groups and local properties, which belong to a thread, as Spark's do."""

    def __init__(self, workers: Workers) -> None:
        self._workers, self._local = workers, threading.local()

    def setJobGroup(self, group: str, *_: object, **__: object) -> None:  # noqa: N802
        """Name what this thread runs."""
        self._local.group = group

    def setLocalProperty(self, name: str, value: str) -> None:  # noqa: N802
        """Keep the ticket."""
        assert name == TICKET_PROPERTY
        self._local.ticket = value

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802
        """Kill the workers of a group."""
        self._workers.cancel(group)

    def statusTracker(self) -> Any:  # noqa: N802
        """Return a tracker that knows no job: nothing computes on after its worker was killed."""
        return SimpleNamespace(getJobIdsForGroup=lambda _group: [])

    def collect(self, function: bytes, slots: int) -> list[SimpleNamespace]:
        """Run a function for each slot of the ticket of this thread."""
        group, ticket = self._local.group, self._local.ticket
        with ThreadPoolExecutor(slots) as threads:
            calls = [
                threads.submit(self._workers.run, group, function, ticket, slot)
                for slot in range(slots)
            ]
            return [row for call in calls for row in call.result()]


class Workers:
    """Processes that run the loops of lanes, as many at a time as the engine has. They are kept."""

    def __init__(self, address: str, slots: int) -> None:
        self._address = address
        self._places = threading.BoundedSemaphore(slots)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._busy: dict[str, set[Connection]] = {}
        self._attempts = itertools.count()

    def run(self, group: str, function: bytes, ticket: str, slot: int) -> list[SimpleNamespace]:
        """Run a function for a slot; raises RuntimeError with the text of its exception."""
        with self._places, self._worker(group) as worker:
            worker.send(cloudpickle.dumps((function, ticket, slot, next(self._attempts))))
            answer = json.loads(worker.receive())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return [SimpleNamespace(**row) for row in answer["rows"]]

    def cancel(self, group: str) -> None:
        """Kill the workers that run slots of a group."""
        with self._lock:
            workers = list(self._busy.get(group, ()))
        for worker in workers:
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)

    @contextmanager
    def _worker(self, group: str) -> Iterator[Connection]:
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        worker = worker or Connection(self._address)
        with self._lock:
            self._busy.setdefault(group, set()).add(worker)
        try:
            yield worker
        except BaseException:
            worker.close()
            raise
        else:
            with self._lock:
                self._idle.append(worker)
        finally:
            with self._lock:
                self._busy[group].discard(worker)
                if not self._busy[group]:
                    del self._busy[group]


class Connection:
    """A socket to one worker; frames with their length."""

    def __init__(self, address: str | None = None, taken: socket.socket | None = None) -> None:
        self._socket = taken or socket.socket(socket.AF_UNIX)
        self.pid = 0
        if address is not None:
            self._socket.settimeout(START_TIMEOUT_S)
            self._socket.connect(address)
            self.pid = int(self.receive())
            self._socket.settimeout(None)

    def send(self, frame: bytes) -> None:
        """Send a frame."""
        self._socket.sendall(struct.pack("!I", len(frame)) + frame)

    def receive(self) -> bytes:
        """Return the next frame; raises EOFError when the other side has ended."""
        (length,) = struct.unpack("!I", self._read(4))
        return self._read(length)

    def close(self) -> None:
        """Close it; the worker ends."""
        self._socket.close()

    def _read(self, length: int) -> bytes:
        parts: list[bytes] = []
        while length:
            try:
                part = self._socket.recv(min(length, 1 << 20))
            except ConnectionError:
                part = b""
            if not part:
                raise EOFError("a Python worker exited unexpectedly")
            parts.append(part)
            length -= len(part)
        return b"".join(parts)


if __name__ == "__main__":
    engine.start_jvm = PlainJvm  # type: ignore[assignment] # has what the engine uses
    worker_process.Engine = PlainEngine  # type: ignore[misc] # a worker of this program has it
    sys.exit(main())
