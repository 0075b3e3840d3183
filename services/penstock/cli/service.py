"""`penstock config|offset|scheduler|worker|gateway`: a service of a cluster, until told to end."""

from __future__ import annotations

import argparse
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final

from penstock.cli.process import JvmLostError, hosted
from penstock.cluster.keys import KEYS, PREFIX
from penstock.cluster.lost import EngineLostError
from penstock.cluster.settings import InstanceSettings, instance_settings
from penstock.model.config_def import ConfigKey, written
from penstock.model.errors import PenstockError
from penstock.pipeline_files.files import read_flat
from penstock.secrets import PROVIDERS
from penstock.worker.config.reach import RESERVED
from penstock.worker.process_keys import SPARK

LEVEL: Final = "INFO"
"""Of the log, where nothing is said."""

_Service = Callable[[InstanceSettings], Awaitable[None]]

HOMES: Final[Mapping[str, str]] = {
    "config": "control_process",
    "offset": "control_process",
    "scheduler": "scheduler_process",
    "worker": "worker_process",
    "gateway": "gateway_process",
}
"""Where each service is; only the one that runs is imported."""


def describe(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the options of a service."""
    parser.epilog = _keys(name)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--config", type=Path, help="file of keys: properties, YAML or JSON")
    parser.set_defaults(verb=partial(run, name))


def run(name: str, arguments: argparse.Namespace) -> int:
    """Run the verb."""
    service: _Service = getattr(import_module(f"penstock.cluster.{HOMES[name]}"), name)
    config = read_flat(arguments.config) if arguments.config else {}
    settings = instance_settings(name, config, os.environ)
    # a service that is told to end has done what it is for: supervisors take 0 for success
    return hosted(lambda _: _run(service, settings), level=LEVEL, ended=0, service=name)


async def _run(service: _Service, settings: InstanceSettings) -> int:
    try:
        await service(settings)
    except BaseExceptionGroup as group:
        raise _meaning(group) from group
    return 0


def _meaning(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return what a service ended with, out of all that went wrong at once."""
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


_OPEN: Final = (
    f"  {SPARK + '*':22} {'':28} Any key of Spark's own, after that; in the file alone.",
    f"  {PROVIDERS + '.*':22} {'':28} Settings of providers of secrets; there, too.",
    f"  {RESERVED + '*':22} {'':28} What a rule lets connectors reach; there, too.",
)


def _keys(name: str) -> str:
    """Return what a person may set: each key with what it takes, and what it is otherwise."""
    return "\n".join(
        (
            f"keys, each also as a variable, which wins ({PREFIX}ETCD_ENDPOINTS: etcd.endpoints);",
            "durations as 5s or 100ms, sizes as 1MiB, lists with commas:",
            *map(_described, KEYS[name]),
            *(_OPEN if name == "worker" else ()),
            "",
            "a variable alone:",
            f"  {'PENSTOCK_LOG_LEVEL':22} {LEVEL:28} Of all loggers, until SetLogLevel says more.",
        )
    )


def _described(key: ConfigKey) -> str:
    takes, default = "|".join(key.choices) or key.type, written(key)
    return f"  {key.name:22} {f'{takes} = {default}' if default else takes:28} {key.doc}"
