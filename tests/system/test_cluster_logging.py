"""Levels of loggers: said once, in force in every process of a cluster."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from penstock.client import ConfigClient, OffsetClient, SchedulerClient, WorkerClient
from penstock.model.errors import PenstockError
from support.cluster import READY, Cluster

CALLS: Final[dict[str, tuple[Any, Callable[[Any], Awaitable[object]]]]] = {
    "config": (ConfigClient, lambda client: client.list()),
    "offset": (OffsetClient, lambda client: client.get("g", ["p"])),
    "scheduler": (SchedulerClient, lambda client: client.list_held_tasks("g")),
    "worker": (WorkerClient, lambda client: client.list_plugins()),
}

SERVING: Final = re.compile(r"serving penstock\.api\..+ at (\S+)")


class Talk:
    """What the processes of a cluster say about calls."""

    def __init__(self, cluster: Cluster) -> None:
        """Look at all of them, once they answer."""
        self.cluster, self.addresses = cluster, dict[str, str]()
        for name, process in cluster.processes.items():
            cluster.until(lambda p=process: SERVING.search(p.output), READY, f"{name} to serve")
            found = SERVING.search(process.output)
            assert found
            self.addresses[name] = found.group(1)

    def lines(self, name: str) -> int:
        """Call a process, and return how many calls it has told of."""
        kind, call = CALLS[self.cluster.service_of(name)]

        async def ask() -> None:
            async with kind(self.addresses[name]) as client:
                with suppress(PenstockError):  # a scheduler that does not lead refuses
                    await call(client)

        self.cluster.run(ask())
        return self.cluster.processes[name].output.count("DEBUG   penstock.rpc.interceptor")

    def tells(self, name: str) -> bool:
        """Return whether a call makes a line."""
        before = self.lines(name)
        return self.lines(name) > before

    def all(self, *, tell: bool, stage: str, but: str = "") -> None:
        """Wait until all processes tell of calls, or none does."""
        for name in self.addresses.keys() - {but}:
            self.cluster.until(lambda n=name: self.tells(n) is tell, READY, f"{name}: {stage}")


def test_dynamic_logging(tmp_path: Path) -> None:
    """A level that is set once changes what every process logs, those that start later too; one of
    a single service, or of a single process, counts more.
    """
    with Cluster(tmp_path) as cluster:
        cluster.start("worker", "w1")
        talk = Talk(cluster)
        assert not any(talk.tells(name) for name in talk.addresses)
        cluster.config(lambda config: config.set_log_level("all", "penstock.rpc", "DEBUG"))
        talk.all(tell=True, stage="to tell of calls")
        cluster.config(lambda config: config.set_log_level("offset", "penstock.rpc", "INFO"))
        cluster.until(lambda: not talk.tells("offset"), READY, "offset to be quiet")
        cluster.start("scheduler", "s2")
        talk = Talk(cluster)
        talk.all(tell=True, stage="to tell of calls, as all but one", but="offset")
        assert not talk.tells("offset")
        for service in ("all", "offset"):
            cluster.config(lambda config, s=service: config.set_log_level(s, "penstock.rpc", ""))
        talk.all(tell=False, stage="to be quiet again")
