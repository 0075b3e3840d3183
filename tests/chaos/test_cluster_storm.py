"""Faults in a random order, as long as one likes, while numbered rows flow.

`PENSTOCK_STORM_SECONDS` says how long, `PENSTOCK_STORM_SEED` repeats a storm: the same faults in
the same order. What happened when is in `history` beside the ledger and the logs.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from penstock.model.connector import TargetState
from penstock.model.status import RunState
from support.cluster import READY, Cluster
from support.flow import SPARK, Flow

SECONDS: Final = float(os.environ.get("PENSTOCK_STORM_SECONDS", "30"))
SEED: Final = int(os.environ.get("PENSTOCK_STORM_SEED") or random.SystemRandom().randrange(10**6))
MEMBERS: Final = 3
SERVICES: Final = ("c1", "c2", "o1", "o2", "s1", "s2")
WORKERS: Final = ("w1", "w2", "w3")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three members of etcd, two of each control service, three workers."""
    with Cluster(tmp_path, etcd=MEMBERS, names=SERVICES[::2]) as cluster:
        for name in SERVICES[1::2]:
            cluster.start(cluster.service_of(name), name)
        cluster.workers(*WORKERS, **SPARK)
        yield cluster


class Storm:
    """Does harm and mends it. Every fault names itself by its docstring."""

    def __init__(self, flow: Flow, chance: random.Random) -> None:
        self.flow, self.cluster, self.chance = flow, flow.cluster, chance

    @property
    def faults(self) -> list[Callable[[], None]]:
        """All that can happen."""
        return [
            self.kill_a_worker,
            self.end_a_worker,
            self.pause_a_process,
            self.kill_a_service,
            self.kill_a_member_of_etcd,
            self.pause_etcd,
            self.pause_the_flow,
        ]

    def kill_a_worker(self) -> None:
        """A worker is killed, and started anew."""
        name = self.chance.choice(WORKERS)
        self.cluster.processes[name].kill()
        self.cluster.start("worker", name, **SPARK)

    def end_a_worker(self) -> None:
        """A worker is ended in order, and started anew."""
        name = self.chance.choice(WORKERS)
        self.cluster.processes[name].stop(READY)
        self.cluster.start("worker", name, **SPARK)

    def pause_a_process(self) -> None:
        """Any process stops for less or more than a lease."""
        process = self.cluster.processes[self.chance.choice((*WORKERS, *SERVICES))]
        process.signal(signal.SIGSTOP)
        self.wait()
        process.signal(signal.SIGCONT)

    def kill_a_service(self) -> None:
        """An instance of a control service is killed, and started anew."""
        name = self.chance.choice(SERVICES)
        self.cluster.processes[name].kill()
        self.cluster.start(self.cluster.service_of(name), name)

    def kill_a_member_of_etcd(self) -> None:
        """One of three, perhaps the leader."""
        number = self.chance.randrange(MEMBERS)
        self.cluster.etcd.kill(number)
        self.wait()
        self.cluster.etcd.start(number)

    def pause_etcd(self) -> None:
        """All members stop for less or more than a lease."""
        for number in range(MEMBERS):
            self.cluster.etcd.pause(number)
        self.wait()
        for number in range(MEMBERS):
            self.cluster.etcd.resume(number)

    def pause_the_flow(self) -> None:
        """A person pauses the connector, and lets it go on."""
        for state in (TargetState.PAUSED, TargetState.RUNNING):
            self.cluster.until(
                lambda state=state: self.cluster.config(
                    lambda config: config.set_target_state(self.flow.name, state)
                ),
                READY,
                f"{state.name} to be stored",
            )

    def wait(self) -> None:
        """Let a fault last: its length is part of it."""
        time.sleep(self.chance.choice((0.5, 2.0, 8.0)))


@pytest.mark.timeout(SECONDS + 600)
def test_a_storm_loses_and_repeats_nothing(cluster: Cluster) -> None:
    """After each fault every partition goes on; in the end all workers have their share."""
    print(f"PENSTOCK_STORM_SEED={SEED}")
    flow = Flow(cluster)
    flow.start()
    storm = Storm(flow, random.Random(SEED))
    history = cluster.folder / "history"
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        fault = storm.chance.choice(storm.faults)
        with history.open("a", encoding="utf-8") as file:
            file.write(f"{time.monotonic() - began:.1f} s: {fault.__doc__}\n")
        fault()
        flow.advance(20)
        flow.report().require()
    flow.even(1, *WORKERS)
    flow.advance(20)
    flow.report().require()
    status = cluster.status(flow.name)
    assert status is not None
    assert status.state is RunState.RUNNING
