"""Plugins: rows a second from a source to the worker in three languages, the host's memory for a
process, a crash until rows flow again, the conformance kit.

Rows are taken as an executor takes them, over the plugin's socket, checked and as Arrow, while the
plugin makes the next ones; they are counted and summed. Python's are 100 bytes; those of Go and
Node are the examples' (a number and a short text).
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import psutil
import pyarrow.compute as pc

from penstock.model.connector import Partition, Target, TaskPlan
from penstock.model.stream import BatchReady, EndOfStream, PartitionDone
from penstock.model.ticket import SlotTicket, Ticket
from penstock.plugin.catalog.manifest import Manifest, read_manifest
from penstock.plugin.limits import LaunchOptions
from penstock.plugin.process.plugin_process import PluginProcess
from penstock.plugin.process.startup import start_plugin
from penstock.plugin.streams.source_stream import PluginSourceStream
from penstock.spark.connector_io.source_reader import read_rows
from penstock_kit.testing import PenstockProcess
from report import ROOT, Report, arguments
from running import START, Output, document, working_folder

HERE: Final = Path(__file__).parent
AT_ONCE: Final = 8
"""Batches that are fetched by one call, as a slot of a busy task has them."""
PROCESSES: Final = 20


@asynccontextmanager
async def plugin(manifest: Manifest, connector: str, folder: Path) -> AsyncIterator[PluginProcess]:
    """Start a plugin, and end it."""
    entry = next(one for one in manifest.connectors if one.name == connector)
    process = await start_plugin(manifest, entry, LaunchOptions(folder))
    try:
        yield process
    finally:
        await process.stop(2)


class Taking:
    """What one reading took."""

    def __init__(self, stream: PluginSourceStream) -> None:
        """`stream` is open."""
        self._stream = stream
        self._ready: list[BatchReady] = []
        self.rows = self.bytes = self.sum = 0

    async def run(self) -> None:
        """Read to the end."""
        async for event in self._stream:
            match event:
                case BatchReady():
                    self._ready.append(event)
                    if len(self._ready) == AT_ONCE:
                        await self._take()
                case PartitionDone() | EndOfStream():
                    await self._take()

    async def _take(self) -> None:
        if not self._ready:
            return
        ready, self._ready = self._ready, []
        rows = sum(one.rows for one in ready)
        place = self._stream.ticket([one.seq for one in ready], ready[0].schema_id)
        await asyncio.to_thread(self._fetch, SlotTicket(0, rows, place, {}))
        self.bytes += sum(one.bytes for one in ready)
        await self._stream.release(ready[-1].seq)

    def _fetch(self, slot: SlotTicket) -> None:
        for batch in read_rows(Ticket("bench-0", 1, 1, (slot,)), slot):
            self.rows += batch.num_rows
            self.sum += pc.sum(batch.column(0)).as_py()


async def rows_a_second(
    manifest: Manifest, connector: str, rows: int, runs: int, folder: Path
) -> tuple[list[float], float]:
    """Return rows a second of each run, and bytes a row; the first run is for warming up."""
    figures = []
    async with plugin(manifest, connector, folder) as process:
        for epoch in range(1, runs + 2):
            config = {"limit": str(rows), "batch.rows": "10000"}
            target = Target(connector, "bench", config, {})
            planned = await process.plan(target, 1)
            stream = PluginSourceStream(process, target, plan(planned.partitions), epoch)
            began = time.perf_counter()
            await stream.open()
            taking = Taking(stream)
            await taking.run()
            took = time.perf_counter() - began
            await stream.close()
            if (taking.rows, taking.sum) != (rows, rows * (rows - 1) // 2):
                sys.exit(f"WRONG ROWS: {connector}: {taking.rows}, {taking.sum}")
            figures.append(rows / took)
    return figures[1:], taking.bytes / rows


def plan(partitions: Sequence[Partition]) -> TaskPlan:
    """Return the plan of one task of everything."""
    return TaskPlan("bench-0", tuple(replace(one, bounded=True) for one in partitions))


async def memory(manifest: Manifest, folder: Path) -> float:
    """Return the bytes by which the host grows for a plugin process."""
    us = psutil.Process()
    async with plugin(manifest, "ticks", folder):
        before = us.memory_info().rss
        started = [plugin(manifest, "ticks", folder) for _ in range(PROCESSES)]
        for one in started:
            await one.__aenter__()
        grown = us.memory_info().rss - before
        for one in started:
            await one.__aexit__(None, None, None)
    return grown / PROCESSES


def crash() -> float:
    """Kill a plugin's process, which had run well; return the seconds until a row that was made
    later is visible.
    """
    with working_folder() as folder:
        output = Output(folder / "out")
        ends = {
            "source": {"connector.class": "ticks"},
            "sink": {"connector.class": "file-sink", "file": str(output.file), "format": "jsonl"},
        }
        path = document(folder, "pipeline", {"name": "crash", **ends})
        words = ("run", path, "--state", folder / "state", "--plugins", HERE / "rows_plugin")
        with PenstockProcess(folder, *words, "--no-progress") as process:
            taken = _crash(process, output)
            process.stop()
        ids = [row["id"] for row in _rows(output)]
        if ids != list(range(len(ids))):
            sys.exit(f"WRONG OUTPUT: {len(ids)} rows, {len(set(ids))} numbers")
    return taken


def _crash(process: PenstockProcess, output: Output) -> float:
    began = time.time()
    process.wait_for(lambda: _newest(output) > began + 2, START, "rows for two seconds")
    command = [sys.executable, "-P", str(HERE / "rows_plugin/main.py")]
    found = [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == command]
    victim = max(found, key=lambda p: p.pid)  # it has the same name as what watches over it
    victim.kill()
    killed = time.time()
    while _newest(output) <= killed:
        if time.time() > killed + START:
            sys.exit("no row came after the crash")
        time.sleep(0.005)
    return time.time() - killed


def _newest(output: Output) -> float:
    rows = _rows(output)
    return float(rows[-1]["at"]) if rows else 0.0


def _rows(output: Output) -> list[dict[str, float]]:
    text = "".join(part.read_text(encoding="utf-8") for part in output.parts())
    return [json.loads(line) for line in text.split("\n")[:-1]]


def kit(words: Sequence[str]) -> float:
    """Return the seconds that the conformance kit takes for a connector."""
    began = time.monotonic()
    command = [sys.executable, "-m", "penstock.cli", "plugin", "test", "-o", "json", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)
    if not told["conforms"]:
        sys.exit(f"{words} does not conform: {done.stderr}")
    connectors = {one["connector"] for one in told["results"]} - {"", None}
    return (time.monotonic() - began) / len(connectors)


def go_numbers(folder: Path) -> Manifest:
    """Build the example in Go."""
    command = ["go", "build", "-o", str(folder / "numbers"), "./examples/numbers"]
    subprocess.run(command, cwd=ROOT / "connectors/go", check=True)
    shutil.copy(ROOT / "connectors/go/examples/numbers/plugin.toml", folder)
    return read_manifest(folder)


def node_numbers(folder: Path) -> Manifest:
    """Install the example in Node."""
    shutil.copytree(ROOT / "connectors/node", folder, symlinks=False, dirs_exist_ok=True)
    subprocess.run(["npm", "ci", "--ignore-scripts", "--silent"], cwd=folder, check=True)
    node = shutil.which("node") or "node"
    return replace(read_manifest(folder), command=(node, "{folder}/connector.js"))


async def measure(rows: int, runs: int, folder: Path, report: Report) -> None:
    """Measure what one process of Python can, as a worker does it."""
    ours = read_manifest(HERE / "rows_plugin")
    for place in ("go", "node", "r"):
        (folder / place).mkdir()
    go, node = go_numbers(folder / "go"), node_numbers(folder / "node")
    for name, manifest, connector, share, goal in (
        ("Python, from columns", ours, "columns", 1.0, 1_200_000),
        ("Python, from dicts", ours, "dicts", 0.2, 250_000),
        ("Go", go, "go-numbers", 2.0, 3_000_000),
        ("Node, JSON lines", node, "node-numbers", 0.2, 300_000),
    ):
        figures, size = await rows_a_second(
            manifest, connector, int(rows * share), runs, folder / "r"
        )
        report.add(name, "rows/s", *figures, at_least=goal, note=f"{size:.0f} bytes a row")
    grown = await memory(ours, folder / "r")
    report.add("host's memory for a process", "MB", grown / 1e6, at_most=3)


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of a reading")
    options = parser.parse_args()
    report = Report("plugins", facts={"rows": options.rows})
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    with tempfile.TemporaryDirectory(prefix="pb-", dir="/tmp") as folder:
        asyncio.run(measure(options.rows, options.runs, Path(folder), report))
    report.add("crash → rows flow", "s", *(crash() for _ in range(options.runs)), at_most=2)
    counter = ROOT / "connectors/python/examples/counter"
    example = ("--config", f"{counter}.conformance.toml", "python", f"{counter}.py")
    for name, words in (
        ("builtin", ("connectors/builtin/penstock_builtin",)),
        ("counter", example),
    ):
        report.add(f"kit, a connector of {name}", "s", kit(words), at_most=60)
    return report.finish(options)


if __name__ == "__main__":
    sys.exit(main())
