"""What a process of a cluster is told: by a file, by variables of its environment, by both.

A variable is a key in capitals with `_` for `.`, after `PENSTOCK_`: `PENSTOCK_ETCD_ENDPOINTS` for
`etcd.endpoints`. A variable wins over the file.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.cluster.keys import KEYS, OPEN, unknown, written
from penstock.etcd import EtcdSettings, Tls
from penstock.etcd.lease import SHORTEST
from penstock.model.config_def import combined, read
from penstock.model.errors import ConfigError
from penstock.rpc.mutual_tls import Mutual
from penstock.store import PostgresqlSettings
from penstock.telemetry import Secret

if TYPE_CHECKING:
    from penstock.worker.process_settings import MachineSettings


_HOST_PORT: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:/\s\[\]]+):(?P<port>[0-9]{1,5})")


def advertised(advertise: str, listening: str) -> str:
    """Return the address that others reach a server by: what was said, with the port it got."""
    port = listening.rpartition(":")[2]
    if not advertise:
        return listening
    if advertise.count(":") > 1 and not advertise.startswith("["):
        return f"[{advertise}]:{port}"  # an IPv6 address alone, as Kubernetes says it
    said, _, said_port = advertise.rpartition(":")
    if said and said_port.isdecimal():
        return advertise if int(said_port) else f"{said}:{port}"
    return f"{advertise}:{port}"


def well_formed(address: str) -> bool:
    """Tell whether it is HOST:PORT. gRPC takes a host alone too, for port 443."""
    match = _HOST_PORT.fullmatch(address)
    return match is not None and int(match["port"]) < 1 << 16


def everywhere(address: str) -> bool:
    """Tell whether it means all addresses of a machine: whoever dials that reaches itself."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


LONGEST_LEASE: Final = 600.0
"""Seconds. Others wait that long for a dead instance; more is a mistake in the unit."""

LONGEST_NAME: Final = 200
"""Characters of an id: it is part of keys in etcd and of every line of a log about it."""


def findings(values: Mapping[str, Any]) -> Iterator[ConfigError]:
    """Find what cannot be. A key without a value has been refused already."""
    yield from _places(values.get("listen", ""), values.get("advertise") or "")
    ttl = values.get("lease.ttl", SHORTEST)
    if not SHORTEST <= ttl <= LONGEST_LEASE:
        fix = f"Give {SHORTEST:g}s to {LONGEST_LEASE:g}s; a bare number is in milliseconds."
        yield _bad("lease.ttl", f"{ttl:g} s", fix)
    for key in ("instance.id", "instance.name"):
        name = values.get(key) or ""
        if len(name) > LONGEST_NAME or not all(c.isprintable() and c not in "/ " for c in name):
            fix = f"Use up to {LONGEST_NAME} characters without `/` and white space."
            yield _bad(key, repr(name[:LONGEST_NAME]), fix)
    if values.get("store") == "postgresql" and not values.get("store.url", "?"):
        yield ConfigError(
            "config.missing",
            "state is to be in PostgreSQL, and `store.url` does not say where that is",
            fix="Set `store.url` to postgresql://USER:PASSWORD@HOST:PORT/DATABASE.",
            config_path="store.url",
        )


def _places(listen: str, advertise: str) -> Iterator[ConfigError]:
    if listen and not well_formed(listen):
        yield _bad("listen", repr(listen), "Give HOST:PORT; port 0 takes a free one.")
    elif everywhere(listen) and not advertise:
        yield ConfigError(
            "config.missing",
            f"`listen` is {listen}, every address of this machine: others cannot dial that",
            fix="Set `advertise` to the HOST or HOST:PORT that the other services reach it by.",
            config_path="advertise",
        )
    reached = advertised(advertise, "host:1")
    if not well_formed(reached) or everywhere(reached):
        fix = "Give the HOST or HOST:PORT that the other services reach this one by."
        yield _bad("advertise", repr(advertise), fix)


def _bad(key: str, shown: str, fix: str) -> ConfigError:
    return ConfigError("config.bad_value", f"`{key}` cannot be {shown}", fix=fix, config_path=key)


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
