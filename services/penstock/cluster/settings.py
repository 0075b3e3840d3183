"""The settings of a process of a cluster, from a file, from environment variables, or both.

A variable is a key in capitals with `_` for `.`, after `PENSTOCK_`: `PENSTOCK_ETCD_ENDPOINTS` for
`etcd.endpoints`. A variable overrides the file.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.cluster.keys import KEYS, read_variables, unknown_variables
from penstock.etcd import EtcdSettings, Tls
from penstock.etcd.lease import MIN_TTL_S
from penstock.model.config_def import combine_errors, parse_with_errors
from penstock.model.errors import ConfigError
from penstock.rpc.channels import MutualTls
from penstock.store.postgresql.settings import PostgresqlSettings
from penstock.telemetry.redaction import Secret
from penstock.worker.process_keys import is_open_key

if TYPE_CHECKING:
    from penstock.worker.process_settings import WorkerSettings


_HOST_PORT: Final = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:/\s\[\]]+):(?P<port>[0-9]{1,5})")


def resolve_advertised(advertise: str, listening: str) -> str:
    """Return the address at which others reach a server: `advertise`, with the port of the
    server.
    """
    port = listening.rpartition(":")[2]
    if not advertise:
        return listening
    if advertise.count(":") > 1 and not advertise.startswith("["):
        return f"[{advertise}]:{port}"  # an IPv6 address alone, as Kubernetes passes it
    advertised, _, advertised_port = advertise.rpartition(":")
    if advertised and advertised_port.isdecimal():
        return advertise if int(advertised_port) else f"{advertised}:{port}"
    return f"{advertise}:{port}"


def is_host_port(address: str) -> bool:
    """Return whether an address is HOST:PORT. gRPC also accepts a host alone, with port 443."""
    match = _HOST_PORT.fullmatch(address)
    return match is not None and int(match["port"]) < 1 << 16


def is_wildcard(address: str) -> bool:
    """Return whether an address means all addresses of a machine: a client that dials it reaches
    itself.
    """
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


MAX_LEASE_S: Final = 600.0
"""Longest lease. Others wait that long for a dead instance; more is a mistake in the unit."""

MAX_NAME_LENGTH: Final = 200
"""Characters of an id: it is part of keys in etcd and of log lines."""


def check_values(values: Mapping[str, Any]) -> Iterator[ConfigError]:
    """Return errors across keys. A key without a value was refused before."""
    yield from _check_addresses(values.get("listen", ""), values.get("advertise") or "")
    ttl = values.get("lease.ttl", MIN_TTL_S)
    if not MIN_TTL_S <= ttl <= MAX_LEASE_S:
        fix = f"Give {MIN_TTL_S:g}s to {MAX_LEASE_S:g}s; a bare number is in milliseconds."
        yield _bad_value("lease.ttl", f"{ttl:g} s", fix)
    for key in ("instance.id", "instance.name"):
        name = values.get(key) or ""
        if len(name) > MAX_NAME_LENGTH or not all(c.isprintable() and c not in "/ " for c in name):
            fix = f"Use up to {MAX_NAME_LENGTH} characters without `/` and white space."
            yield _bad_value(key, repr(name[:MAX_NAME_LENGTH]), fix)
    if values.get("store") == "postgresql" and not values.get("store.url", "?"):
        yield ConfigError(
            "config.missing",
            "`store` is postgresql, and `store.url` is not set",
            fix="Set `store.url` to postgresql://USER:PASSWORD@HOST:PORT/DATABASE.",
            config_path="store.url",
        )


def _check_addresses(listen: str, advertise: str) -> Iterator[ConfigError]:
    if listen and not is_host_port(listen):
        yield _bad_value("listen", repr(listen), "Set it to HOST:PORT; port 0 takes a free one.")
    elif is_wildcard(listen) and not advertise:
        yield ConfigError(
            "config.missing",
            f"`listen` is {listen}, a wildcard that other services cannot dial",
            fix="Set `advertise` to the HOST or HOST:PORT at which others reach this service.",
            config_path="advertise",
        )
    reached = resolve_advertised(advertise, "host:1")
    if not is_host_port(reached) or is_wildcard(reached):
        fix = "Set it to the HOST or HOST:PORT at which others reach this service."
        yield _bad_value("advertise", repr(advertise), fix)


def _bad_value(key: str, shown: str, fix: str) -> ConfigError:
    return ConfigError("config.bad_value", f"`{key}` cannot be {shown}", fix=fix, config_path=key)


@dataclass(frozen=True, slots=True)
class InstanceSettings:
    """The settings of an instance of a service. `values` are those of its keys; `extra` has the
    keys that are not a fixed list, such as Spark's.
    """

    service: str
    id: str
    name: str
    listen: str
    advertise: str
    etcd: EtcdSettings
    ttl: float
    drain: float
    tls: MutualTls | None
    values: Mapping[str, Any]
    extra: Mapping[str, str]

    def postgresql(self) -> PostgresqlSettings | None:
        """Return where the database is; None: state is in etcd."""
        if self.values["store"] == "etcd":
            return None
        return PostgresqlSettings(self.values["store.url"], self.values["store.schema"])

    def worker(self) -> WorkerSettings:
        """Return the settings of a worker."""
        # only a worker needs plugins, topics and an engine: other services stay small
        from penstock.standalone.settings import default_state_dir  # noqa: PLC0415
        from penstock.worker.process_settings import read_worker_settings  # noqa: PLC0415

        state = self.values["state.dir"]
        folder = Path(state).absolute() if state else default_state_dir() / "worker"
        settings = read_worker_settings(self.values, self.extra, folder / "topics")
        return replace(settings, is_shared=True)

    def labels(self) -> dict[str, str]:
        """Return the labels of a worker.

        Raises:
            ConfigError: `config.wrong_type`.
        """
        pairs = [str(label).partition("=") for label in self.values["labels"]]
        if any(not name or not sign for name, sign, _ in pairs):
            raise ConfigError(
                "config.wrong_type",
                "`labels` has an item that is not NAME=VALUE",
                fix="Write labels as zone=a,disk=ssd.",
                config_path="labels",
            )
        return {name.strip(): value.strip() for name, _, value in pairs}


def instance_settings(
    service: str, config: Mapping[str, str], environment: Mapping[str, str]
) -> InstanceSettings:
    """Return the settings of a process.

    Raises:
        ConfigError: a key or variable is misspelt, or has a wrong value; its detail has all errors.
    """
    keys = KEYS[service]
    extra = {key: value for key, value in config.items() if is_open_key(key)}
    named_keys = {key: value for key, value in config.items() if key not in extra}
    values, errors = parse_with_errors(keys, {**named_keys, **read_variables(keys, environment)})
    errors += unknown_variables(
        (key for all_keys in KEYS.values() for key in all_keys), environment
    )
    errors += check_values(values)
    if errors:
        raise combine_errors(errors)
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
        etcd=read_etcd_settings(values),
        ttl=values["lease.ttl"],
        drain=values["drain.timeout"],
        tls=_tls(values),
        values=values,
        extra=extra,
    )


def _tls(values: Mapping[str, Any]) -> MutualTls | None:
    names = ("tls.authority", "tls.certificate", "tls.key")
    files = [Path(values[name]) if values[name] else None for name in names]
    if not any(files):
        return None
    for name, file in zip(names, files, strict=True):
        if file is None:
            raise ConfigError(
                "config.missing",
                f"`{name}` is not set, but other keys of `tls.…` are",
                fix="Set all three, or none: authority, certificate and key.",
                config_path=name,
            )
    authority, certificate, key = (file for file in files if file is not None)
    tls = MutualTls(authority, certificate, key)
    tls.check()
    return tls


def read_etcd_settings(values: Mapping[str, Any]) -> EtcdSettings:
    """Return the settings of etcd by the values of the keys.

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
