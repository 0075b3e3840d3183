"""What a process of a cluster is told: by a file, by variables of its environment, by both.

A variable is a key in capitals with `_` for `.`, after `PENSTOCK_`: `PENSTOCK_ETCD_ENDPOINTS` for
`etcd.endpoints`. A variable wins over the file.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.cluster.checks import findings
from penstock.cluster.variables import unknown, written
from penstock.etcd import EtcdSettings, Tls
from penstock.etcd.settings import LEASE_TTL
from penstock.model.config_def import ConfigKey, combined, read
from penstock.model.errors import ConfigError
from penstock.offset.leftovers import KEPT
from penstock.standalone.settings import default_state_dir
from penstock.store import PostgresqlSettings
from penstock.telemetry import Secret
from penstock.worker import machine
from penstock.worker.machine import MachineSettings, machine_settings

COMMON: Final = (
    ConfigKey("cluster.name", default="default", doc="Name of the cluster in its etcd."),
    ConfigKey("instance.id", doc="Unique in the cluster; default: the host and a random part."),
    ConfigKey("instance.name", doc="What an instance keeps when it is started anew; the host."),
    ConfigKey("listen", default="127.0.0.1:0", doc="HOST:PORT to serve at; 0 takes a free port."),
    ConfigKey("advertise", doc="HOST or HOST:PORT that others reach it by; default: `listen`."),
    ConfigKey("etcd.endpoints", "list", ("127.0.0.1:2379",), doc="Members of etcd, HOST:PORT."),
    ConfigKey("etcd.user", default="", doc="User of etcd."),
    ConfigKey("etcd.password", "password", doc="Its password."),
    ConfigKey("etcd.tls.authority", doc="PEM file that etcd's certificate is checked by."),
    ConfigKey("etcd.tls.certificate", doc="PEM file that this process shows to etcd."),
    ConfigKey("etcd.tls.key", doc="PEM file with its key."),
    ConfigKey("lease.ttl", "duration", LEASE_TTL, doc="How long others wait for a silent one."),
    ConfigKey("drain.timeout", "duration", 20.0, doc="Time that an end in order may take."),
)

STORE: Final = (
    ConfigKey("store", default="etcd", choices=("etcd", "postgresql"), doc="Where state is."),
    ConfigKey("store.url", "password", doc="postgresql://USER:PASSWORD@HOST:PORT/DATABASE"),
    ConfigKey("store.schema", default="penstock", doc="Schema of the database, for this cluster."),
)

OFFSET: Final = (
    ConfigKey(
        "offsets.deleted.retention",
        "duration",
        KEPT,
        doc="How long offsets of a deleted connector are kept.",
    ),
)

SCHEDULER: Final = (
    ConfigKey("rebalance.delay", "duration", 0.0, doc="How long tasks of a lost worker wait."),
)

WORKER: Final = (
    ConfigKey("state.dir", doc="Folder for scratch files, and for topics where no other is set."),
    ConfigKey("labels", "list", (), doc="name=value, …: what `placement` of connectors matches."),
    ConfigKey("capacity", "double", 1.0, doc="Tasks it takes, compared with other workers."),
    *machine.KEYS,
)

KEYS: Final[Mapping[str, tuple[ConfigKey, ...]]] = {
    "config": (*COMMON, *STORE),
    "offset": (*COMMON, *STORE, *OFFSET),
    "scheduler": (*COMMON, *SCHEDULER),
    "worker": (*COMMON, *WORKER),
}
"""The keys of each service."""


@dataclass(frozen=True, slots=True)
class InstanceSettings:
    """An instance of a service. `values` are those of its keys, `extra` Spark's own."""

    service: str
    id: str
    name: str
    listen: str
    advertise: str
    etcd: EtcdSettings
    ttl: float
    drain: float
    values: Mapping[str, Any]
    extra: Mapping[str, str]

    def postgresql(self) -> PostgresqlSettings | None:
        """Return where the database is; None: state is in etcd."""
        if self.values["store"] == "etcd":
            return None
        return PostgresqlSettings(self.values["store.url"], self.values["store.schema"])

    def machine(self) -> MachineSettings:
        """Return what a worker runs with."""
        state = self.values["state.dir"]
        folder = Path(state).absolute() if state else default_state_dir() / "worker"
        return machine_settings(self.values, self.extra, folder / "topics")

    def labels(self) -> dict[str, str]:
        """Return a worker's labels.

        Raises:
            ConfigError: `config.wrong_type`.
        """
        pairs = [str(label).partition("=") for label in self.values["labels"]]
        if any(not name or not sign for name, sign, _ in pairs):
            raise ConfigError(
                "config.wrong_type",
                "a label is not NAME=VALUE",
                fix="Write labels as zone=a,disk=ssd.",
                config_path="labels",
            )
        return {name.strip(): value.strip() for name, _, value in pairs}


def instance_settings(
    service: str, config: Mapping[str, str], environment: Mapping[str, str]
) -> InstanceSettings:
    """Return the settings of a process.

    Raises:
        ConfigError: a key or variable is misspelt, or has a wrong value; all that is wrong is in
            its detail.
    """
    keys = KEYS[service]
    extra = {key: value for key, value in config.items() if key.startswith(machine.SPARK)}
    told = {key: value for key, value in config.items() if key not in extra}
    values, errors = read(keys, {**told, **written(keys, environment)})
    errors += unknown((key for all_keys in KEYS.values() for key in all_keys), environment)
    errors += findings(values)
    if errors:
        raise combined(errors)
    for key in keys:
        if key.type == "password" and values[key.name]:
            values[key.name] = Secret(str(values[key.name]))  # invariant 9
    host = socket.gethostname()
    return InstanceSettings(
        service=service,
        id=values["instance.id"] or f"{host}-{uuid.uuid4().hex[:8]}",
        name=values["instance.name"] or host,
        listen=values["listen"],
        advertise=values["advertise"] or "",
        etcd=_etcd(values),
        ttl=values["lease.ttl"],
        drain=values["drain.timeout"],
        values=values,
        extra=extra,
    )


def _etcd(values: Mapping[str, Any]) -> EtcdSettings:
    files = [values[f"etcd.tls.{name}"] for name in ("authority", "certificate", "key")]
    return EtcdSettings(
        endpoints=tuple(values["etcd.endpoints"]),
        cluster=values["cluster.name"],
        user=values["etcd.user"],
        password=values["etcd.password"] or None,
        tls=Tls(*(Path(file) if file else None for file in files)) if any(files) else None,
    )
