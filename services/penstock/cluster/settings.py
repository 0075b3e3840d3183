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
from typing import TYPE_CHECKING, Any

from penstock.cluster.checks import findings
from penstock.cluster.keys import KEYS, OPEN
from penstock.cluster.variables import unknown, written
from penstock.etcd import EtcdSettings, Tls
from penstock.model.config_def import combined, read
from penstock.model.errors import ConfigError
from penstock.rpc.mutual import Mutual
from penstock.store import PostgresqlSettings
from penstock.telemetry import Secret

if TYPE_CHECKING:
    from penstock.worker.process_settings import MachineSettings


@dataclass(frozen=True, slots=True)
class InstanceSettings:
    """An instance of a service. `values` are those of its keys, `extra` those
    that are no fixed list: Spark's own, for instance.
    """

    service: str
    id: str
    name: str
    listen: str
    advertise: str
    etcd: EtcdSettings
    ttl: float
    drain: float
    tls: Mutual | None
    values: Mapping[str, Any]
    extra: Mapping[str, str]

    def postgresql(self) -> PostgresqlSettings | None:
        """Return where the database is; None: state is in etcd."""
        if self.values["store"] == "etcd":
            return None
        return PostgresqlSettings(self.values["store.url"], self.values["store.schema"])

    def machine(self) -> MachineSettings:
        """Return what a worker runs with."""
        # only a worker has plugins, topics and an engine; the others stay small
        from penstock.standalone.settings import default_state_dir  # noqa: PLC0415
        from penstock.worker.process_settings import machine_settings  # noqa: PLC0415

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
    extra = {key: value for key, value in config.items() if key.startswith(OPEN)}
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
        etcd=etcd_settings(values),
        ttl=values["lease.ttl"],
        drain=values["drain.timeout"],
        tls=_tls(values),
        values=values,
        extra=extra,
    )


def _tls(values: Mapping[str, Any]) -> Mutual | None:
    names = ("tls.authority", "tls.certificate", "tls.key")
    files = [Path(values[name]) if values[name] else None for name in names]
    if not any(files):
        return None
    for name, file in zip(names, files, strict=True):
        if file is None:
            raise ConfigError(
                "config.missing",
                f"`{name}` is not set, and the others of `tls.…` are",
                fix="Set all three, or none: authority, certificate and key.",
                config_path=name,
            )
    authority, certificate, key = (file for file in files if file is not None)
    tls = Mutual(authority, certificate, key)
    tls.check()
    return tls


def etcd_settings(values: Mapping[str, Any]) -> EtcdSettings:
    """Return where etcd is, by the values of the keys.

    Raises:
        ConfigError: `etcd.bad_endpoint`, `etcd.bad_cluster`, `etcd.no_password`,
            `etcd.tls_incomplete`.
    """
    files = [values[f"etcd.tls.{name}"] for name in ("authority", "certificate", "key")]
    return EtcdSettings(
        endpoints=tuple(values["etcd.endpoints"]),
        cluster=values["cluster.name"],
        user=values["etcd.user"],
        password=values["etcd.password"] or None,
        tls=Tls(*(Path(file) if file else None for file in files)) if any(files) else None,
    )
