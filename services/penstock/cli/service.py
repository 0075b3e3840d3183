"""`penstock config|offset|scheduler|worker|gateway`: one service of a cluster, until a signal."""

from __future__ import annotations

import argparse
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final

from penstock.cli.process import JvmLostError, run_process
from penstock.cluster import EngineLostError
from penstock.cluster.keys import KEYS, PREFIX
from penstock.cluster.settings import InstanceSettings, instance_settings
from penstock.model.config_def import ConfigKey, format_default
from penstock.model.errors import PenstockError
from penstock.pipeline_files.files import read_flat
from penstock.secrets.provider_settings import PROVIDERS
from penstock.worker.config.reach import RESERVED
from penstock.worker.process_keys import SPARK

DEFAULT_LOG_LEVEL: Final = "INFO"

_Service = Callable[[InstanceSettings], Awaitable[None]]

MODULES: Final[Mapping[str, str]] = {
    "config": "control_process",
    "offset": "control_process",
    "scheduler": "control_process",
    "worker": "worker_process",
    "gateway": "gateway_process",
}
"""The module of each service in `penstock.cluster`; only that of the service is imported."""


def describe(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the options of a service."""
    parser.epilog = _keys_help(name)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--config", type=Path, help="file of keys: properties, YAML or JSON")
    parser.set_defaults(verb=partial(run, name))


def run(name: str, arguments: argparse.Namespace) -> int:
    """Run the service."""
    service: _Service = getattr(import_module(f"penstock.cluster.{MODULES[name]}"), name)
    config = read_flat(arguments.config) if arguments.config else {}
    settings = instance_settings(name, config, os.environ)
    # supervisors take 0 for success, and a service that was stopped has succeeded
    return run_process(
        lambda _: _run(service, settings), level=DEFAULT_LOG_LEVEL, stopped_code=0, service=name
    )


async def _run(service: _Service, settings: InstanceSettings) -> int:
    try:
        await service(settings)
    except BaseExceptionGroup as group:
        raise first_cause(group) from group
    return 0


def first_cause(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error to end with, out of all errors of a group: a lost JVM, else our own."""
    lost, _ = group.split(EngineLostError)
    if lost is not None:
        return JvmLostError()
    ours, _ = group.split(PenstockError)
    if ours is None:
        return group
    first: BaseException = ours
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first


_OPEN_KEYS: Final = (
    f"  {SPARK + '*':22} {'':28} Any key of Spark after that prefix; in the file alone.",
    f"  {PROVIDERS + '.*':22} {'':28} Settings of secret providers; in the file alone.",
    f"  {RESERVED + '*':22} {'':28} What a rule lets connectors reach; in the file alone.",
    f"  {'bootstrap.servers, …':22} {'':28} Topics of Kafka, by Kafka Connect's keys; in the file.",
    f"  {'namesrv.addr, …':22} {'':28} Topics of RocketMQ, with keys `rocketmq.*`; in the file.",
)


def _keys_help(name: str) -> str:
    """Return a line for each key of a service: its type, its default, its documentation."""
    return "\n".join(
        (
            f"keys, each also as a variable, which wins ({PREFIX}ETCD_ENDPOINTS: etcd.endpoints);",
            "durations as 5s or 100ms, sizes as 1MiB, lists with commas:",
            *map(_key_help, KEYS[name]),
            *(_OPEN_KEYS if name == "worker" else ()),
            "",
            "a variable alone:",
            f"  {'PENSTOCK_LOG_LEVEL':22} {DEFAULT_LOG_LEVEL:28} Level of all loggers at start-up.",
        )
    )


def _key_help(key: ConfigKey) -> str:
    type_, default = "|".join(key.choices) or key.type, format_default(key)
    return f"  {key.name:22} {f'{type_} = {default}' if default else type_:28} {key.doc}"
