"""What each service has to read and write in etcd, for an etcd with a user for each service.

A worker runs connectors: whoever takes it over has its user of etcd. With these roles that user
reads who is there and says where it is itself, and neither reads configurations nor writes what
others act on.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from penstock.config.stored import PLACES as CONNECTORS
from penstock.etcd import EtcdSettings
from penstock.offset.stored import PLACES as OFFSETS
from penstock.scheduler.state.records import PLACES as ASSIGNMENTS

READ: Final = "read"
WRITE: Final = "readwrite"

_STATE: Final[Mapping[str, Sequence[str]]] = {
    "config": CONNECTORS,
    "offset": OFFSETS,
    "scheduler": ASSIGNMENTS,
    "worker": (),
    "gateway": (),
}
SERVICES: Final = tuple(_STATE)

_AGREES: Final = ("config", "offset", "worker")
"""Who writes down what the services of a cluster must agree on (`penstock.etcd.identity`)."""


def grants(service: str) -> Iterator[tuple[str, str]]:
    """Tell what a service may do: (read or readwrite, what keys start with, after the cluster's
    prefix).
    """
    yield WRITE if service in _AGREES else READ, "cluster"
    yield READ, "members/"
    yield WRITE, f"members/{service}/"
    yield WRITE if service == "scheduler" else READ, "elections/"
    if _STATE[service]:
        yield WRITE, "format"
    for place in _STATE[service]:
        yield WRITE, f"state/{place}"


def commands(cluster: str) -> Iterator[str]:
    """Yield what makes a role `penstock-<cluster>-<service>` for each service, for a shell.

    Raises:
        ConfigError: `etcd.bad_cluster`.
    """
    prefix = EtcdSettings(cluster=cluster).prefix
    for service in SERVICES:
        role = shlex.quote(f"penstock-{cluster}-{service}")
        yield f"etcdctl role add {role}"
        for may, place in grants(service):
            key = shlex.quote(prefix + place)
            yield f"etcdctl role grant-permission --prefix=true {role} {may} {key}"
