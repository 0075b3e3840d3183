"""The rights of each service in etcd, for an etcd with a user for each service.

A worker runs connectors, so an attacker who takes it over has its etcd user. With these roles that
user can list members and register itself, but cannot read configurations or write what others act
on.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from penstock.config.records import KEY_PREFIXES as CONNECTORS
from penstock.etcd import EtcdSettings
from penstock.offset.records import KEY_PREFIXES as OFFSETS
from penstock.scheduler.state.records import KEY_PREFIXES as ASSIGNMENTS

READ: Final = "read"
WRITE: Final = "readwrite"

_STATE_PREFIXES: Final[Mapping[str, Sequence[str]]] = {
    "config": CONNECTORS,
    "offset": OFFSETS,
    "scheduler": ASSIGNMENTS,
    "worker": (),
    "gateway": (),
}
SERVICES: Final = tuple(_STATE_PREFIXES)

_CLUSTER_WRITERS: Final = ("config", "offset", "worker")
"""Services that write what all services of a cluster must agree on (`penstock.etcd.identity`)."""


def list_grants(service: str) -> Iterator[tuple[str, str]]:
    """Iterate over the rights of a service: (read or readwrite, key prefix after that of the
    cluster).
    """
    yield WRITE if service in _CLUSTER_WRITERS else READ, "cluster"
    yield READ, "members/"
    yield WRITE, f"members/{service}/"
    yield WRITE if service == "scheduler" else READ, "elections/"
    if _STATE_PREFIXES[service]:
        yield WRITE, "format"
    for place in _STATE_PREFIXES[service]:
        yield WRITE, f"state/{place}"


def role_commands(cluster: str) -> Iterator[str]:
    """Yield the shell commands that create a role `penstock-<cluster>-<service>` for each service.

    Raises:
        ConfigError: `etcd.bad_cluster`.
    """
    prefix = EtcdSettings(cluster=cluster).prefix
    for service in SERVICES:
        role = shlex.quote(f"penstock-{cluster}-{service}")
        yield f"etcdctl role add {role}"
        for may, place in list_grants(service):
            key = shlex.quote(prefix + place)
            yield f"etcdctl role grant-permission --prefix=true {role} {may} {key}"
