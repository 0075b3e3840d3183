"""Kafka Connect's distributed mode: one process a machine, with all services in it.

Machines that are started with the same file are one cluster: `group.id` is its name, and state is
in etcd at `etcd.endpoints`. A file may have the keys of all services, beside those of Kafka
Connect.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Mapping
from typing import Final

from penstock.cluster.control_process import config, offset, scheduler
from penstock.cluster.gateway_process import gateway
from penstock.cluster.keys import KEYS, read_variables
from penstock.cluster.settings import InstanceSettings, instance_settings
from penstock.cluster.worker_process import worker
from penstock.model.config_def import ConfigKey, combine_errors, parse_with_errors
from penstock.model.errors import ConfigError, Diagnostic
from penstock.standalone.connect_keys import is_connect_key, is_met, unused_keys, with_own_names
from penstock.worker.config.broker_topics import is_used
from penstock.worker.process_keys import is_open_key

_CONTROL: Final = {"config": config, "offset": offset, "scheduler": scheduler, "gateway": gateway}
_WORKER: Final = "worker"
_ETCD: Final = "etcd.endpoints"

_RENAMED: Final = {
    "group.id": "cluster.name",
    "scheduled.rebalance.max.delay.ms": "rebalance.delay",
    "task.shutdown.graceful.timeout.ms": "drain.timeout",
}
"""Kafka Connect's keys that have another name here."""

_ALL: Final[Mapping[str, ConfigKey]] = {key.name: key for keys in KEYS.values() for key in keys}


def distributed_settings(
    given: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[dict[str, InstanceSettings], list[Diagnostic]]:
    """Return the settings of each service of a machine, and warnings about keys without effect.

    Raises:
        ConfigError: a key is misspelt or has a wrong value; its detail has all errors.
    """
    keys = {_RENAMED.get(name, name): value for name, value in with_own_names(given).items()}
    for theirs, name in _RENAMED.items():
        if theirs in given and name in given:
            raise _named_twice(theirs, name)
    endpoints = {**keys, **read_variables([_ALL[_ETCD]], environment)}.get(_ETCD, "127.0.0.1")
    keys.setdefault("listen", f"{_own_address(endpoints)}:0")
    ours = {name: value for name, value in keys.items() if name in _ALL}
    unknown = {
        name: value
        for name, value in keys.items()
        if not (name in ours or is_open_key(name) or is_connect_key(name))
    }
    _, errors = parse_with_errors(_ALL.values(), {**ours, **unknown})
    if errors:
        raise combine_errors(errors)
    settings = {
        service: instance_settings(service, dict(_select(service, keys)), environment)
        for service in (*_CONTROL, _WORKER)
    }
    brokers = settings[_WORKER].worker().brokers
    in_force = {
        name
        for name, value in keys.items()
        if is_used(brokers, name) or is_met(name, value, brokers.default)
    }
    return settings, unused_keys(keys, {*_ALL, *in_force})


def _select(service: str, keys: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    names = {key.name for key in KEYS[service]}
    for name, value in keys.items():
        is_open = service == _WORKER and is_open_key(name)
        if name in names or is_open:
            yield name, value


def _named_twice(theirs: str, ours: str) -> ConfigError:
    return ConfigError(
        "config.conflict",
        f"`{theirs}` and `{ours}` are two names of one key",
        fix=f"Remove `{theirs}`.",
        config_path=theirs,
    )


def _own_address(endpoints: str) -> str:
    """Return the address of this machine by which it reaches etcd: others reach it there, too."""
    endpoint = endpoints.split(",", maxsplit=1)[0].strip()
    host, _, port = endpoint.rpartition(":")
    try:
        family, _, _, _, address = socket.getaddrinfo(
            (host or endpoint).strip("[]"), int(port) if host else 0, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)  # no packet is sent
            own = str(probe.getsockname()[0])
    except (OSError, ValueError) as error:
        raise ConfigError(
            "etcd.bad_endpoint",
            f"`{_ETCD}` has {endpoint[:200]!r}, which cannot be resolved: {error}",
            fix="Write HOST:PORT of a member of etcd.",
            config_path=_ETCD,
        ) from None
    return f"[{own}]" if ":" in own else own


async def run_services(settings: Mapping[str, InstanceSettings]) -> None:
    """Run all services until cancelled. The worker ends first: its drain needs the others."""
    async with asyncio.TaskGroup() as others:
        for name, service in _CONTROL.items():
            others.create_task(service(settings[name]), name=name)
        async with asyncio.TaskGroup() as workers:
            workers.create_task(worker(settings[_WORKER]), name=_WORKER)
