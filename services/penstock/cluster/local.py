"""A whole cluster on one machine: etcd, one of each service and some workers, in one folder.

Each is a process that outlives the command that started it. The folder holds everything:
`<name>.pid`, `<name>.started` (which process it is), `<name>.log`, `<name>.json` (its keys), the
data of etcd, the state of the workers, the topics. Starting again starts only what does not run; a
stop leaves no process.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from penstock.client import SchedulerClient
from penstock.cluster.detached_process import DetachedProcess
from penstock.cluster.keys import KEYS, PREFIX, unknown_variables
from penstock.etcd import Etcd, EtcdSettings, Member
from penstock.etcd.membership import MEMBERS
from penstock.model.config_def import combine_errors
from penstock.model.errors import ConfigError, PenstockError, RetriableError
from penstock.rpc.channels import is_serving

CLUSTER: Final = "local"
ETCD: Final = "etcd"
SCHEDULER: Final = "scheduler"
GATEWAY: Final = "gateway"
CONTROL: Final = ("config", "offset", SCHEDULER, GATEWAY)
WORKER: Final = "worker"
PORTS: Final = "ports"
REST: Final = 8083
"""Kafka Connect's port. Another one is taken where it is in use when the cluster is created."""

WORKERS: Final = 3
"""Workers of a new cluster: the smallest number with which one can be lost and two go on."""

_RESERVED_VARIABLES: Final = (
    "ETCD_",
    "CLUSTER_NAME",
    "INSTANCE_",
    "LISTEN",
    "ADVERTISE",
    "STATE_DIR",
)
"""Variables that the environment must not set, because the cluster sets these keys itself."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports of etcd and of the REST API on 127.0.0.1, which never change. Services take a free port
    at each start; etcd has their addresses.
    """

    client: int
    peer: int
    rest: int


def service_names(workers: int) -> tuple[str, ...]:
    """Return the names of the processes of services."""
    return (*CONTROL, *(f"{WORKER}-{number}" for number in range(1, workers + 1)))


def worker_names(folder: Path) -> list[str]:
    """Return the workers that a folder has had, whether they run or not."""
    numbers = (file.stem.partition("-")[2] for file in folder.glob(f"{WORKER}-*.json"))
    return [f"{WORKER}-{number}" for number in sorted(int(n) for n in numbers if n.isdecimal())]


def load_ports(folder: Path) -> Ports | None:
    """Return the stored ports, None in a new folder."""
    file = folder / f"{PORTS}.json"
    return Ports(**json.loads(file.read_text(encoding="utf-8"))) if file.exists() else None


def load_or_choose_ports(folder: Path) -> Ports:
    """Return the stored ports. A new folder gets free ones, which never change, because the
    services, etcd itself and users have written them down.
    """
    ports = load_ports(folder)
    if ports is None:
        client, peer, other = _free_ports(3)
        ports = Ports(client, peer, REST if _is_free(REST) else other)
        write_json(folder / f"{PORTS}.json", asdict(ports))
    return ports


def etcd_command(folder: Path, ports: Ports) -> list[str]:
    """Return the command that starts etcd.

    Raises:
        ConfigError: `cluster.no_etcd`.
    """
    configured = os.environ.get("ETCD_BIN")
    binary = shutil.which(configured or "etcd")
    if binary is None:
        raise ConfigError(
            "cluster.no_etcd",
            f"etcd was not found: {configured or 'it is not on the PATH'}",
            fix="Install it (Debian: apt-get install etcd-server), or set ETCD_BIN to its path.",
        )
    client, peer = (f"http://127.0.0.1:{port}" for port in (ports.client, ports.peer))
    data = folder / f"{ETCD}.data"
    data.mkdir(mode=0o700, exist_ok=True)  # etcd warns about a folder that others may read
    return [
        binary,
        *("--name", CLUSTER, "--data-dir", str(data)),
        *("--listen-client-urls", client, "--advertise-client-urls", client),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
        *("--initial-cluster", f"{CLUSTER}={peer}", "--auto-compaction-retention", "1h"),
        *("--logger", "zap", "--log-level", "warn"),
    ]


def service_command(name: str, file: Path) -> list[str]:
    """Return the command that starts a service."""
    service = name.partition("-")[0]
    return [sys.executable, "-m", "penstock.cli", service, "--config", str(file)]


def service_keys(folder: Path, name: str, ports: Ports) -> dict[str, str]:
    """Return the keys of a service."""
    keys = {
        "cluster.name": CLUSTER,
        "instance.id": name,
        "instance.name": name,
        "listen": "127.0.0.1:0",
        "etcd.endpoints": f"127.0.0.1:{ports.client}",
    }
    if name == GATEWAY:
        keys["listeners"] = f"http://127.0.0.1:{ports.rest}"
    if name not in CONTROL:
        keys |= {"state.dir": str(folder / f"{name}.state"), "topics.dir": str(folder / "topics")}
        keys["plugin.only.sealed"] = "false"  # plugins are developed on this machine
    return keys


def process_environment() -> dict[str, str]:
    """Return the environment of a process: that of this process, so that variables can set all
    other keys.

    Raises:
        ConfigError: `config.unknown_variable`.
    """
    errors = unknown_variables((key for keys in KEYS.values() for key in keys), os.environ)
    if errors:
        raise combine_errors(errors)
    ours = tuple(PREFIX + name for name in _RESERVED_VARIABLES)
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def write_json(file: Path, content: Mapping[str, object]) -> None:
    """Write a JSON file atomically: a crash leaves the old one or the new one."""
    new = file.with_suffix(".new")
    new.write_text(json.dumps(content, indent=1), encoding="utf-8")
    new.replace(file)


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


START_TIMEOUT_S: Final = 120.0
"""Time for a stage of the start. A warm Spark takes 5 s; the first start of three on two busy cores
takes a minute. Longer hides a worker that will never be ready.
"""

STOP_TIMEOUT_S: Final = 60.0
"""Time from SIGTERM to SIGKILL. Shorter than `drain.timeout` and the server's grace together
interrupts a drain; longer lets a process that hangs delay the stop.
"""

_POLL_INTERVAL_S: Final = 0.2
"""Time between two polls of all processes. A poll costs one call to each."""

_PROBE_TIMEOUT_S: Final = 1.0
"""Time for one process to answer a probe."""


@dataclass(frozen=True, slots=True)
class PartStatus:
    """Status of one process. `answers`: it works; for a worker, it has a session with the
    leader.
    """

    name: str
    pid: int | None
    address: str = ""
    answers: bool = False
    log: Path = Path()


class LocalCluster:
    """`await LocalCluster(folder).start(3)`; `stop`, `status`. Owns nothing but the folder."""

    def __init__(self, folder: Path, report: Callable[[str], None] = lambda _: None) -> None:
        """`report` is called with each step."""
        self._folder, self._report = folder.absolute(), report

    async def start(self, workers: int | None = None) -> None:
        """Start what does not run, and wait until all of it works. `workers` is the minimum number;
        None: as many as before, three in a new folder.

        Raises:
            ConfigError: `cluster.no_etcd`, `config.unknown_variable`.
            RetriableError: `cluster.busy`, `cluster.process_ended`, `cluster.not_ready`.
        """
        environment = process_environment()
        with self._lock_folder():
            count = len(worker_names(self._folder)) or WORKERS
            names = service_names(count if workers is None else workers)
            ports = load_or_choose_ports(self._folder)
            self._process(ETCD).start(etcd_command(self._folder, ports), os.environ)
            await self._until("etcd answers", (ETCD,), self._etcd_answers)
            for name in names:
                self._start(name, ports, environment)
            for stage, some in (
                ("config, offset, scheduler and gateway answer", CONTROL),
                ("the workers are members", tuple(names)),
            ):
                await self._until(stage, some, partial(self._all_working, some))

    async def stop(self) -> None:
        """Drain the workers, then end the services, then etcd.

        Raises:
            RetriableError: `cluster.busy`, `cluster.not_stopped`.
        """
        if not self._folder.is_dir():
            return
        with self._lock_folder():
            workers = worker_names(self._folder)
            await self._end("the workers are drained", workers)
            for name in reversed(CONTROL):
                await self._end(f"{name} ended", [name])
            await self._end("etcd ended", [ETCD])

    def rest(self) -> str:
        """Return the URL of the REST API; "" in a new folder."""
        ports = load_ports(self._folder)
        return f"http://127.0.0.1:{ports.rest}" if ports else ""

    async def status(self) -> list[PartStatus]:
        """Return the status of each process, etcd first."""
        names = (*CONTROL, *worker_names(self._folder))
        found = [PartStatus(name, self._process(name).pid, log=self._log(name)) for name in names]
        etcd = PartStatus(ETCD, self._process(ETCD).pid, log=self._log(ETCD))
        ports = load_ports(self._folder)
        if etcd.pid is None or ports is None:
            return [etcd, *found]
        etcd = replace(etcd, address=f"127.0.0.1:{ports.client}")
        addresses = await self._addresses()
        if addresses is None:
            return [etcd, *found]
        probes = (self._probe(part, addresses.get(part.name, "")) for part in found)
        probed = await asyncio.gather(*probes)
        working = await _find_working([part.address for part in probed if part.name == SCHEDULER])
        parts = (replace(p, answers=p.answers and p.name in working) for p in probed)
        return [replace(etcd, answers=True), *parts]

    async def _probe(self, part: PartStatus, address: str) -> PartStatus:
        if part.pid is None or not address:
            return part
        return replace(part, address=address, answers=await is_serving(address, _PROBE_TIMEOUT_S))

    def _start(self, name: str, ports: Ports, environment: Mapping[str, str]) -> None:
        keys = service_keys(self._folder, name, ports)
        file = self._folder / f"{name}.json"
        if self._process(name).pid is None:
            write_json(file, keys)
        self._process(name).start(service_command(name, file), environment)

    async def _end(self, stage: str, names: Sequence[str]) -> None:
        began = time.monotonic()
        running = [self._process(name) for name in names]
        running = [process for process in running if process.pid is not None]
        for process in running:
            process.terminate()
        ended_in_time = await asyncio.gather(
            *(process.wait_ended(STOP_TIMEOUT_S) for process in running)
        )
        for process, ended in zip(running, ended_in_time, strict=True):
            if not ended:
                self._report(f"{process.name} did not end within {STOP_TIMEOUT_S:g} s: killed")
                process.kill()
                if not await process.wait_ended(_PROBE_TIMEOUT_S * 10):
                    raise _not_stopped(process)
        if running:
            self._report(f"{stage} ({time.monotonic() - began:.1f} s)")

    async def _until(
        self, stage: str, names: Sequence[str], holds: Callable[[], Awaitable[bool]]
    ) -> None:
        began = time.monotonic()
        while not await holds():
            for name in names:
                if self._process(name).pid is None:
                    raise _process_ended(self._process(name), stage)
            if time.monotonic() - began > START_TIMEOUT_S:
                raise _not_ready(stage, [p.name for p in await self.status() if not p.answers])
            await asyncio.sleep(_POLL_INTERVAL_S)
        self._report(f"{stage} ({time.monotonic() - began:.1f} s)")

    async def _etcd_answers(self) -> bool:
        return await self._addresses() is not None

    async def _all_working(self, names: Sequence[str]) -> bool:
        return {part.name for part in await self.status() if part.answers} >= set(names)

    async def _addresses(self) -> dict[str, str] | None:
        """Return the address of each registered process; None when etcd does not answer."""
        ports = load_ports(self._folder)
        endpoint = f"127.0.0.1:{ports.client if ports else 0}"
        settings = EtcdSettings(
            (endpoint,),
            CLUSTER,
            connect_timeout_s=_PROBE_TIMEOUT_S,
            retry_timeout_s=_PROBE_TIMEOUT_S,
        )
        try:
            etcd = await Etcd.connect(settings)
        except PenstockError:
            return None
        try:
            found = await etcd.range(f"{etcd.prefix}{MEMBERS}")
        except PenstockError:
            return None
        finally:
            await etcd.close()
        return {kv.key.rpartition("/")[2]: Member.decode(kv.value).address for kv in found.entries}

    def _process(self, name: str) -> DetachedProcess:
        return DetachedProcess(self._folder, name)

    def _log(self, name: str) -> Path:
        return self._process(name).log

    @contextmanager
    def _lock_folder(self) -> Iterator[None]:
        """Lock the folder: two starts at once would start processes twice."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise _folder_locked(self._folder) from None
            yield
        finally:
            os.close(lock)


async def _find_working(schedulers: Sequence[str]) -> set[str]:
    """Return which processes work if they answer: the scheduler where one leads, and the workers
    with a session.
    """
    working = set(CONTROL) - {SCHEDULER}
    for address in filter(None, schedulers):
        async with SchedulerClient(address, _PROBE_TIMEOUT_S) as client:
            with suppress(PenstockError):
                cluster = await client.get_cluster()
                working |= {worker.id for worker in cluster.workers if worker.connected}
                working.add(SCHEDULER)
    return working


def _folder_locked(folder: Path) -> RetriableError:
    return RetriableError(
        "cluster.busy",
        f"another command is starting or stopping the cluster in {folder}",
        fix="Wait for it, or choose another folder with --dir.",
    )


def _process_ended(process: DetachedProcess, stage: str) -> RetriableError:
    return RetriableError(
        "cluster.process_ended",
        f"stage {stage}: {process.name} ended: {process.last_error()}",
        fix=f"See {process.log}, then start again: running processes stay.",
    )


def _not_ready(stage: str, silent: Sequence[str]) -> RetriableError:
    return RetriableError(
        "cluster.not_ready",
        f"stage {stage}: no answer within {START_TIMEOUT_S:g} s from {', '.join(silent)}",
        fix="See their logs in the folder of the cluster. Start again to wait longer, or stop.",
    )


def _not_stopped(process: DetachedProcess) -> RetriableError:
    return RetriableError(
        "cluster.not_stopped",
        f"{process.name} (process {process.pid}) was killed and still exists",
        fix="It waits for disk or network in the kernel: see `ps -o stat,wchan`, then stop again.",
    )
