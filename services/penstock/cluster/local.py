"""A whole cluster on one machine: etcd, one of each service, some workers, all in one folder.

Each is a process of its own that outlives the command that started it. The folder has everything:
`<name>.pid`, `<name>.started` (which process that is), `<name>.log`, `<name>.json` (its keys),
etcd's data, the workers' state, the topics.
What is started twice runs once; what was lost is started again; a stop leaves no process.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from penstock.client import SchedulerClient
from penstock.cluster import local_parts as parts
from penstock.cluster.detached import Detached
from penstock.etcd import Etcd, EtcdSettings, Member
from penstock.etcd.membership import PLACE
from penstock.model.errors import PenstockError, RetriableError
from penstock.rpc.channels import serves

START_FOR: Final = 120.0
"""Seconds that a stage of the start may take. A warm Spark takes five; the first start of three of
them on two busy cores, a minute. Longer hides a worker that will never be ready."""

STOP_FOR: Final = 60.0
"""Seconds from SIGTERM to SIGKILL. Shorter than `drain.timeout` and the server's grace together
cuts a drain off; longer lets a process that hangs hold up the stop."""

_LOOK: Final = 0.2
"""Seconds between two looks at who answers. A look costs one call of each process."""

_ASK_FOR: Final = 1.0
"""Seconds that one process has to answer a look."""


@dataclass(frozen=True, slots=True)
class PartStatus:
    """How one process is. `answers`: it does what it is for; a worker: it takes part."""

    name: str
    pid: int | None
    address: str = ""
    answers: bool = False
    log: Path = Path()


class LocalCluster:
    """`await LocalCluster(folder).start(3)`; `stop`, `status`. Owns nothing but the folder."""

    def __init__(self, folder: Path, tell: Callable[[str], None] = lambda _: None) -> None:
        """`tell` is told what happens."""
        self._folder, self._tell = folder.absolute(), tell

    async def start(self, workers: int | None = None) -> None:
        """Start what does not run, and wait until all of it answers. `workers`: how many there are
        at least; None: as many as there were, three in a new folder.

        Raises:
            ConfigError: `cluster.no_etcd`, `config.unknown_variable`.
            RetriableError: `cluster.busy`, `cluster.process_ended`, `cluster.not_ready`.
        """
        environment = parts.environment()
        with self._alone():
            count = len(parts.worker_names(self._folder)) or parts.WORKERS
            names = parts.all_names(count if workers is None else workers)
            ports = parts.kept_ports(self._folder)
            self._process(parts.ETCD).start(parts.etcd_command(self._folder, ports), os.environ)
            await self._until("etcd answers", (parts.ETCD,), self._etcd_answers)
            for name in names:
                self._start(name, ports, environment)
            for stage, some in (
                ("config, offset, scheduler and gateway answer", parts.CONTROL),
                ("the workers take part", tuple(names)),
            ):
                await self._until(stage, some, partial(self._all_answer, some))

    async def stop(self) -> None:
        """Drain the workers, then end the services, then etcd. Nothing is left running.

        Raises:
            RetriableError: `cluster.busy`, `cluster.not_stopped`.
        """
        if not self._folder.is_dir():
            return
        with self._alone():
            workers = parts.worker_names(self._folder)
            await self._end("the workers are drained", workers)
            for name in reversed(parts.CONTROL):
                await self._end(f"{name} ended", [name])
            await self._end("etcd ended", [parts.ETCD])

    def rest(self) -> str:
        """Return where the REST API is; "" in a new folder."""
        ports = parts.known_ports(self._folder)
        return f"http://127.0.0.1:{ports.rest}" if ports else ""

    async def status(self) -> list[PartStatus]:
        """Tell how each process is, etcd first."""
        names = (*parts.CONTROL, *parts.worker_names(self._folder))
        found = [PartStatus(name, self._process(name).pid, log=self._log(name)) for name in names]
        etcd = PartStatus(parts.ETCD, self._process(parts.ETCD).pid, log=self._log(parts.ETCD))
        ports = parts.known_ports(self._folder)
        if etcd.pid is None or ports is None:
            return [etcd, *found]
        etcd = replace(etcd, address=f"127.0.0.1:{ports.client}")
        addresses = await self._addresses()
        if addresses is None:
            return [etcd, *found]
        looks = (self._look(part, addresses.get(part.name, "")) for part in found)
        seen = await asyncio.gather(*looks)
        useful = await _useful([part.address for part in seen if part.name == parts.SCHEDULER])
        parts_seen = (replace(p, answers=p.answers and p.name in useful) for p in seen)
        return [replace(etcd, answers=True), *parts_seen]

    async def _look(self, part: PartStatus, address: str) -> PartStatus:
        if part.pid is None or not address:
            return part
        return replace(part, address=address, answers=await serves(address, _ASK_FOR))

    def _start(self, name: str, ports: parts.Ports, environment: Mapping[str, str]) -> None:
        keys = parts.keys(self._folder, name, ports)
        file = self._folder / f"{name}.json"
        if self._process(name).pid is None:
            parts.write(file, keys)
        self._process(name).start(parts.command(name, file), environment)

    async def _end(self, stage: str, names: Sequence[str]) -> None:
        began = time.monotonic()
        running = [self._process(name) for name in names]
        running = [process for process in running if process.pid is not None]
        for process in running:
            process.ask_to_end()
        in_order = await asyncio.gather(*(process.ended(STOP_FOR) for process in running))
        for process, ended in zip(running, in_order, strict=True):
            if not ended:
                self._tell(f"{process.name} did not end within {STOP_FOR:g} s and is killed")
                process.kill()
                if not await process.ended(_ASK_FOR * 10):
                    raise _not_stopped(process)
        if running:
            self._tell(f"{stage} ({time.monotonic() - began:.1f} s)")

    async def _until(
        self, stage: str, names: Sequence[str], holds: Callable[[], Awaitable[bool]]
    ) -> None:
        began = time.monotonic()
        while not await holds():
            for name in names:
                if self._process(name).pid is None:
                    raise _process_ended(self._process(name), stage)
            if time.monotonic() - began > START_FOR:
                raise _not_ready(stage, [p.name for p in await self.status() if not p.answers])
            await asyncio.sleep(_LOOK)
        self._tell(f"{stage} ({time.monotonic() - began:.1f} s)")

    async def _etcd_answers(self) -> bool:
        return await self._addresses() is not None

    async def _all_answer(self, names: Sequence[str]) -> bool:
        return {part.name for part in await self.status() if part.answers} >= set(names)

    async def _addresses(self) -> dict[str, str] | None:
        """Return where each registered process is; None when etcd does not answer."""
        ports = parts.known_ports(self._folder)
        endpoint = f"127.0.0.1:{ports.client if ports else 0}"
        settings = EtcdSettings((endpoint,), parts.CLUSTER, start_for=_ASK_FOR, try_for=_ASK_FOR)
        try:
            etcd = await Etcd.connect(settings)
        except PenstockError:
            return None
        try:
            found = await etcd.range(f"{etcd.prefix}{PLACE}")
        except PenstockError:
            return None
        finally:
            await etcd.close()
        return {kv.key.rpartition("/")[2]: Member.decoded(kv.value).address for kv in found.entries}

    def _process(self, name: str) -> Detached:
        return Detached(self._folder, name)

    def _log(self, name: str) -> Path:
        return self._process(name).log

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other commands on this folder out: two starts at once would start things twice."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise _busy(self._folder) from None
            yield
        finally:
            os.close(lock)


async def _useful(schedulers: Sequence[str]) -> set[str]:
    """Return who does what it is for, when it serves: the scheduler where one leads, and the
    workers that it has a session with.
    """
    useful = set(parts.CONTROL) - {parts.SCHEDULER}
    for address in filter(None, schedulers):
        async with SchedulerClient(address, _ASK_FOR) as client:
            with suppress(PenstockError):
                cluster = await client.cluster()
                useful |= {worker.id for worker in cluster.workers if worker.connected}
                useful.add(parts.SCHEDULER)
    return useful


def _busy(folder: Path) -> RetriableError:
    return RetriableError(
        "cluster.busy",
        f"another command starts or stops the cluster in {folder}",
        fix="Wait for it, or take another folder with --dir.",
    )


def _process_ended(process: Detached, stage: str) -> RetriableError:
    return RetriableError(
        "cluster.process_ended",
        f"stage {stage}: {process.name} ended: {process.last_words()}",
        fix=f"See {process.log}, then start again: what runs already stays.",
    )


def _not_ready(stage: str, silent: Sequence[str]) -> RetriableError:
    return RetriableError(
        "cluster.not_ready",
        f"stage {stage}: no answer within {START_FOR:g} s from {', '.join(silent)}",
        fix="See their logs in the folder of the cluster; start again to wait on, or stop.",
    )


def _not_stopped(process: Detached) -> RetriableError:
    return RetriableError(
        "cluster.not_stopped",
        f"{process.name} (process {process.pid}) was killed and is still there",
        fix="The kernel waits for its disk or network: see `ps -o stat,wchan`, then stop again.",
    )
