"""`bash deploy/local/cluster.sh start|status|stop`: a whole cluster with one command each."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from penstock.cli.__main__ import main
from penstock.client import ConfigClient
from penstock.cluster.local import PORTS, Ports, write_json
from penstock.model.connector import Connector, ConnectorKind
from penstock_kit.testing import Spans, check_delivery, find_leftovers, read_ledger, wait_until
from support.checkout import ROOT
from support.processes import free_ports

STARTED = 240.0
"""Seconds for a start with a cold Spark, on a busy machine."""

ROWS = 2000
WORKERS = ("worker-1", "worker-2", "worker-3")

pytestmark = pytest.mark.timeout(600)


class Commands:
    """The commands of a person, on one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # ports of this lane: the usual one of the REST API may be that of another lane's node
        folder.mkdir()
        write_json(folder / f"{PORTS}.json", asdict(Ports(*free_ports(3))))
        # short, because the path of a unix socket may have no more than 107 bytes
        self.scratch = Path(tempfile.mkdtemp(prefix="pst-"))
        small = {"PENSTOCK_SPARK_DRIVER_MEMORY": "512m", "PENSTOCK_SPARK_MASTER": "local[1,1]"}
        self.environment = {**os.environ, **small, "TMPDIR": str(self.scratch)}

    def __call__(self, doing: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run one of them."""
        return subprocess.run(
            ["bash", "deploy/local/cluster.sh", doing, "--dir", str(self.folder), *options],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=STARTED,
            check=False,
        )

    def processes(self) -> dict[str, tuple[int, str]]:
        """Return pid and address of each process, as `status` prints them."""
        rows = re.findall(r"^ ?(\S+) +(\d+) +yes +(\S+:\d+) ", self("status").stdout, re.MULTILINE)
        return {name: (int(pid), address) for name, pid, address in rows}


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    """The cluster outlives its command: so a process waits for our end, and stops it then."""
    commands = Commands(tmp_path / "cluster")
    stop = [sys.executable, "-m", "penstock.cli", "cluster", "stop", "--dir"]
    with subprocess.Popen(
        ["sh", "-c", 'read folder; cat; exec "$@" "$folder"', "sh", *stop],
        stdin=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as guard:
        assert guard.stdin is not None
        print(
            commands.folder, file=guard.stdin, flush=True
        )  # no argument names it: see `find_leftovers`
        yield commands
    shutil.rmtree(commands.scratch, ignore_errors=True)


def put(address: str, connector: Connector) -> None:
    """Store a connector at a config service."""

    async def ask() -> None:
        async with ConfigClient(address) as client:
            await client.put(connector)

    asyncio.run(ask())


def empty_a_worker(told: str) -> None:
    """Empty a worker and let it have tasks again, by the gateway that a status names."""
    asked = ("--server", told.rpartition("REST at ")[2].strip())
    assert main(["workers", "drain", WORKERS[0], "--wait", *asked]) == 0
    assert main(["workers", "undrain", WORKERS[0], *asked]) == 0


def test_one_command_starts_a_cluster_that_moves_rows_and_one_command_ends_it(commands, tmp_path):
    done = commands("start", "--workers", "3")
    assert done.returncode == 0, done.stderr
    for stage in (
        "etcd answers",
        "config, offset, scheduler and gateway answer",
        "the workers are members",
    ):
        assert stage in done.stderr
    first = commands.processes()
    assert first.keys() == {"etcd", "config", "offset", "scheduler", "gateway", *WORKERS}

    put(
        first["config"][1],
        Connector(
            "numbers",
            {
                "name": "numbers",
                "source.connector.class": "verifiable-source",
                "source.rows": str(ROWS),
                "sink.connector.class": "verifiable-sink",
                "sink.ledger": str(tmp_path / "ledger"),
            },
            ConnectorKind.PIPELINE,
        ),
    )
    ledger = tmp_path / "ledger"
    wait_until(lambda: read_ledger(ledger).rows >= ROWS, 180, "all rows at the sink")

    os.kill(first["offset"][0], signal.SIGKILL)
    assert commands("status").returncode == 1, "a status that cannot be red says nothing"
    assert commands("start").returncode == 0
    second = commands.processes()
    assert second.keys() == first.keys(), "as many workers as there were"
    assert {name for name in first if first[name][0] != second[name][0]} == {"offset"}

    check_delivery({"0": Spans([(0, ROWS - 1)])}, read_ledger(ledger).entries).require()
    empty_a_worker(commands("status").stderr)

    done = commands("stop")
    assert done.returncode == 0, done.stderr
    assert "killed" not in done.stderr
    told = [line for line in done.stderr.splitlines() if line.endswith(" s)")]
    assert [line.rpartition(" (")[0] for line in told] == [
        "the workers are drained", "gateway ended", "scheduler ended", "offset ended",
        "config ended", "etcd ended",
    ]  # fmt: skip
    assert not find_leftovers(commands.scratch)
    assert not find_leftovers(commands.folder).processes
    assert not find_leftovers(commands.folder).sockets
