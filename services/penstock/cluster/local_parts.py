"""What a cluster on one machine consists of: names, ports, commands and keys of its processes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from penstock.cluster.keys import KEYS, PREFIX, unknown
from penstock.model.config_def import combined
from penstock.model.errors import ConfigError

CLUSTER: Final = "local"
ETCD: Final = "etcd"
SCHEDULER: Final = "scheduler"
GATEWAY: Final = "gateway"
CONTROL: Final = ("config", "offset", SCHEDULER, GATEWAY)
WORKER: Final = "worker"
PORTS: Final = "ports"
REST: Final = 8083
"""Kafka Connect's port; another one where it is taken when the cluster is made."""

WORKERS: Final = 3
"""Workers of a new cluster: the smallest number with which one can be lost and two go on."""

_OURS: Final = ("ETCD_", "CLUSTER_NAME", "INSTANCE_", "LISTEN", "ADVERTISE", "STATE_DIR")
"""Variables that the environment may not say, because the cluster is put together here."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where etcd and the REST API listen, on 127.0.0.1: they keep their ports. Services take a free
    one at each start; etcd has them.
    """

    client: int
    peer: int
    rest: int


def all_names(workers: int) -> tuple[str, ...]:
    """Return the names of the services' processes."""
    return (*CONTROL, *(f"{WORKER}-{number}" for number in range(1, workers + 1)))


def worker_names(folder: Path) -> list[str]:
    """Return the workers that a folder has had, whether they run or not."""
    numbers = (file.stem.partition("-")[2] for file in folder.glob(f"{WORKER}-*.json"))
    return [f"{WORKER}-{number}" for number in sorted(int(n) for n in numbers if n.isdecimal())]


def known_ports(folder: Path) -> Ports | None:
    """Return the ports that are kept, None in a new folder."""
    file = folder / f"{PORTS}.json"
    return Ports(**json.loads(file.read_text(encoding="utf-8"))) if file.exists() else None


def kept_ports(folder: Path) -> Ports:
    """Return the ports that are kept: free ones at first, then the same for ever, since the others,
    etcd itself and people have written them down.
    """
    ports = known_ports(folder)
    if ports is None:
        client, peer, other = _free_ports(3)
        ports = Ports(client, peer, REST if _is_free(REST) else other)
        write(folder / f"{PORTS}.json", asdict(ports))
    return ports


def etcd_command(folder: Path, ports: Ports) -> list[str]:
    """Return how etcd is started.

    Raises:
        ConfigError: `cluster.no_etcd`.
    """
    said = os.environ.get("ETCD_BIN")
    binary = shutil.which(said or "etcd")
    if binary is None:
        raise ConfigError(
            "cluster.no_etcd",
            f"there is no etcd: {said or 'none is on the path'}",
            fix="Install it (Debian: apt-get install etcd-server), or name one in ETCD_BIN.",
        )
    client, peer = (f"http://127.0.0.1:{port}" for port in (ports.client, ports.peer))
    data = folder / f"{ETCD}.data"
    data.mkdir(mode=0o700, exist_ok=True)  # etcd warns of a folder that others may read
    return [
        binary,
        *("--name", CLUSTER, "--data-dir", str(data)),
        *("--listen-client-urls", client, "--advertise-client-urls", client),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
        *("--initial-cluster", f"{CLUSTER}={peer}", "--auto-compaction-retention", "1h"),
        *("--logger", "zap", "--log-level", "warn"),
    ]


def command(name: str, file: Path) -> list[str]:
    """Return how a service is started."""
    service = name.partition("-")[0]
    return [sys.executable, "-m", "penstock.cli", service, "--config", str(file)]


def keys(folder: Path, name: str, ports: Ports) -> dict[str, str]:
    """Return what a service's process is told."""
    told = {
        "cluster.name": CLUSTER,
        "instance.id": name,
        "instance.name": name,
        "listen": "127.0.0.1:0",
        "etcd.endpoints": f"127.0.0.1:{ports.client}",
    }
    if name == GATEWAY:
        told["listeners"] = f"http://127.0.0.1:{ports.rest}"
    if name not in CONTROL:
        told |= {"state.dir": str(folder / f"{name}.state"), "topics.dir": str(folder / "topics")}
        told["plugin.only.sealed"] = "false"  # on the machine of whoever makes the plugins
    return told


def environment() -> dict[str, str]:
    """Return the environment of a process: ours, so that variables can set all other keys.

    Raises:
        ConfigError: `config.unknown_variable`.
    """
    errors = unknown((key for keys in KEYS.values() for key in keys), os.environ)
    if errors:
        raise combined(errors)
    ours = tuple(PREFIX + name for name in _OURS)
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def write(file: Path, content: Mapping[str, object]) -> None:
    """Write a JSON file; a crash leaves the old one or the new one."""
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
