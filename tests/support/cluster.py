"""A whole cluster on this machine: etcd, and each service as a process of its own."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from penstock.client import ConfigClient, OffsetClient, SchedulerClient, WorkerClient
from penstock.etcd import Discovery, Etcd
from penstock.model.connector import Connector, ConnectorKind, TargetState
from penstock.model.errors import PenstockError
from penstock.model.status import ClusterStatus, ConnectorStatus, RunState
from penstock.rpc.channels import Dial, MutualTls, open_channel
from penstock_kit.testing import PenstockProcess, wait_until
from support.certificates import Authority
from support.etcd import PASSWORD, EtcdServers
from support.processes import DIES_WITH_US, PLAIN, TESTS

READY: Final = 180.0
"""Seconds for a process to answer, on a machine that is busy."""

_T = TypeVar("_T")


class Cluster:
    """`with Cluster(folder) as cluster`: one of each control service; then `start("worker")`."""

    def __init__(
        self,
        folder: Path,
        etcd: int = 1,
        names: Sequence[str] = ("config", "offset", "scheduler"),
        host: str = "127.0.0.1",
        store: Mapping[str, str] | None = None,
        tls: Authority | None = None,
        users: bool = False,
        plain: bool = False,
        **keys: str,
    ) -> None:
        """`etcd` members; `names` of the first services; `keys` of every process. All but workers
        are at `host`. `store`: where state is, if not in etcd.
        `users`: each service is a user of etcd, with what it is granted.
        `plain`: workers have `support.plain_engine`, for tests of what has nothing to do with
        Spark: a worker starts for 1 s of CPU instead of 7.
        """
        self.folder, self._first, self._plain = folder, names, plain
        self.etcd = EtcdServers(folder / "etcd", etcd, host=host)
        self._store, self.tls, self._users = store or {}, tls, users
        self.keys = {"listen": f"{host}:0", **keys}
        self.processes: dict[str, PenstockProcess] = {}
        self._services: dict[str, str] = {}
        self._count = 0
        # one loop for all calls: gRPC keeps to the loop that it was first used in
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        # kept: who waits asks many times a second
        self._connecting = asyncio.Lock()
        self._client: Etcd | None = None
        self._found: dict[str, Discovery] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        self.etcd.start()
        if self._users:
            self.etcd.guard()
        for service, name in zip(("config", "offset", "scheduler"), self._first, strict=True):
            self.start(service, name)
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._disconnect())
        for process in reversed(list(self.processes.values())):
            process.close()
        self.etcd.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def start(
        self,
        service: str,
        name: str = "",
        faults: str = "",
        within: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        **keys: str,
    ) -> PenstockProcess:
        """Start a process of a service; it may not be ready yet. `within`: see PenstockProcess.
        `env`: variables that it alone has.
        """
        self._count += 1
        name = name or f"{service}{self._count}"
        if name in self.processes:
            self.processes[name].close()
        folder = self.folder / f"{self._count:02}-{name}"
        folder.mkdir(parents=True)
        config = {
            "etcd.endpoints": ",".join(self.etcd.endpoints),
            "instance.id": f"{name}-{self._count}",
            "instance.name": name,
            **self.keys,
            **keys,
        }
        if self._users:
            config |= {"etcd.user": service, "etcd.password": PASSWORD}
        if self.tls is not None:
            certificate, key = self.tls.sign(f"{service}.penstock")
            config |= {"tls.certificate": str(certificate), "tls.key": str(key)}
            config["tls.authority"] = str(self.tls.ca)
        if service in {"config", "offset"}:
            config.update(self._store)
        if service == "scheduler" and "store.seal.keys" in self._store:
            config["store.seal.keys"] = self._store["store.seal.keys"]
        if service == "worker":
            config.setdefault("topics.dir", str(self.folder / "topics"))
            config.setdefault("state.dir", str(folder / "state"))
            config.setdefault("spark.driver.memory", "512m")
        file = folder / "service.json"
        file.write_text(json.dumps(config), encoding="utf-8")
        variables = {"PENSTOCK_LOG_LEVEL": "INFO", **(env or {})}
        variables |= {"PENSTOCK_FAULTS": faults} if faults else {}
        before, module = (*within, *DIES_WITH_US), "penstock.cli"
        if service == "worker" and self._plain:
            module, variables["PYTHONPATH"] = PLAIN, TESTS
        process = PenstockProcess(
            folder, service, "--config", file, env=variables, prefix=before, module=module
        )
        process.start()
        self.processes[name], self._services[name] = process, service
        return process

    def service_of(self, name: str) -> str:
        """Return the service of a process: as it was started, or by its first letter."""
        services = ("config", "offset", "scheduler", "worker", "gateway")
        return self._services.get(name) or next(s for s in services if s[0] == name[0])

    def workers(self, *names: str, **keys: str) -> None:
        """Start workers and wait until they take part."""
        for name in names:
            self.start("worker", name, **keys)
        self.until(lambda: set(names) <= self.connected(), READY, f"workers {names} to take part")

    def connected(self) -> set[str]:
        """Return the names of the workers that have a session with the leader."""
        return {worker.name for worker in self.cluster().workers if worker.connected}

    def cluster(self) -> ClusterStatus:
        """Return the cluster as its leader sees it."""
        return self.ask("scheduler", SchedulerClient, lambda client: client.get_cluster())

    def status(self, name: str) -> ConnectorStatus | None:
        """Return how a connector is; None when the scheduler does not know it (yet)."""
        try:
            (status,) = self.ask("scheduler", SchedulerClient, lambda c: c.list_statuses(name))
        except PenstockError as error:
            if error.code == "scheduler.not_found":
                return None
            raise
        return status

    def create(
        self,
        name: str,
        config: Mapping[str, Any],
        kind: ConnectorKind,
        state: TargetState = TargetState.RUNNING,
    ) -> Connector:
        """Create a connector in a state."""
        texts = {"name": name, **{key: _text(value) for key, value in config.items()}}
        connector = Connector(name, texts, kind, target_state=state)
        return self.config(lambda config: config.create(connector))

    def config(self, call: Callable[[ConfigClient], Awaitable[_T]]) -> _T:
        """Call the config service."""
        return self.ask("config", ConfigClient, call)

    def offset(self, call: Callable[[OffsetClient], Awaitable[_T]]) -> _T:
        """Call the offset service."""
        return self.ask("offset", OffsetClient, call)

    def scheduler(self, call: Callable[[SchedulerClient], Awaitable[_T]]) -> _T:
        """Call the leading scheduler."""
        return self.ask("scheduler", SchedulerClient, call)

    def worker(self, name: str, call: Callable[[WorkerClient], Awaitable[_T]]) -> _T:
        """Call a worker."""
        (address,) = (w.address for w in self.cluster().workers if w.name == name)

        async def ask() -> _T:
            async with WorkerClient(address, dial=self._dial("worker")) as client:
                return await call(client)

        return self.run(ask())

    def in_etcd(self, call: Callable[[Etcd], Awaitable[_T]]) -> _T:
        """Call etcd itself."""

        async def ask() -> _T:
            return await call(await self._connected())

        return self.run(ask())

    def ask(self, service: str, client: Any, call: Callable[[Any], Awaitable[_T]]) -> _T:
        """Call any instance of a service that answers."""

        async def ask() -> _T:
            etcd = await self._connected()
            if service not in self._found:
                self._found[service] = Discovery(etcd, service)
                self._found[service].start()
            found = self._found[service]
            async with asyncio.timeout(READY):
                members = await found.wait_for_change(0)
                while not members.members:
                    members = await found.wait_for_change(members.revision)
            route = lambda: [m.address for m in found.current.members.values()]  # noqa: E731
            dial = self._dial(service)
            async with client(route, dial=dial) as calling:
                return await call(calling)

        return self.run(ask())

    def _dial(self, service: str) -> Dial:
        """Return how a person dials a service: as an operator, where there are certificates."""
        if self.tls is None:
            return open_channel
        return MutualTls(self.tls.ca, *self.tls.sign("operator.penstock")).dial(service)

    async def _connected(self) -> Etcd:
        async with self._connecting:
            if self._client is None:
                self._client = await Etcd.connect(self.etcd.settings())
            return self._client

    async def _disconnect(self) -> None:
        for found in self._found.values():
            await found.stop()
        if self._client is not None:
            await self._client.close()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the loop of all calls."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def running(self, name: str, tasks: int, seconds: float = READY) -> ConnectorStatus:
        """Wait until a connector runs with so many tasks."""
        found: list[ConnectorStatus] = []

        def runs() -> bool:
            status = self.status(name)
            if status is None:
                return False
            found[:] = [status]
            states = [task.state for task in status.tasks]
            return states == [RunState.RUNNING] * tasks

        self.until(runs, seconds, f"{name} to run with {tasks} tasks", lambda: found)
        return found[0]

    def logs(self) -> str:
        """Return the end of what each process has printed, for a test that is red."""
        return "\n".join(f"== {n}\n{p.output[-1500:]}" for n, p in self.processes.items())

    def until(
        self,
        condition: Callable[[], object],
        seconds: float,
        stage: str,
        show: Callable[[], object] = str,
    ) -> None:
        """Wait for a condition; what does not answer yet is asked again."""

        def holds() -> object:
            try:
                return condition()
            except PenstockError:
                return False

        try:
            wait_until(holds, seconds, stage)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{show()}\n{self.logs()}") from None


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
