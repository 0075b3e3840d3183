"""`penstock backup FILE|FOLDER` and `penstock restore FILE`: the state of a cluster."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from penstock.cli.output import OUTPUTS, print_value
from penstock.cli.progress import print_status, status_line
from penstock.cluster.backup import EPOCHS_PER_RESTORE, back_up, restore
from penstock.cluster.settings import instance_settings
from penstock.etcd import Etcd, EtcdSettings
from penstock.pipeline_files.files import read_flat

_T = TypeVar("_T")

_MAX_EPOCH: Final = 1 << 62
"""Revisions of etcd have 63 bits, and some are needed afterwards."""

_EPILOG: Final = """\
etcd and the cluster are named by the keys of services, in the file of a config service or as
variables: PENSTOCK_ETCD_ENDPOINTS (127.0.0.1:2379), PENSTOCK_CLUSTER_NAME (default),
PENSTOCK_ETCD_USER, PENSTOCK_ETCD_PASSWORD, and those of etcd.tls.*."""


def describe(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the options of a verb."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    if name == "backup":
        parser.add_argument("place", type=Path, help="new file, or a folder for it")
        parser.set_defaults(verb=_back_up)
    else:
        parser.add_argument("file", type=Path, help="file that `penstock backup` has written")
        parser.add_argument(
            "--epochs-above",
            type=_epoch,
            default=0,
            help="largest epoch that a topic or a sink has seen "
            f"(default: that of the backup and {EPOCHS_PER_RESTORE:,} more)",
        )
        parser.set_defaults(verb=_restore)
    parser.add_argument("--config", type=Path, help="file of keys: properties, YAML or JSON")
    parser.add_argument("-o", "--output", choices=OUTPUTS, default="table", help="output format")


def _back_up(arguments: argparse.Namespace) -> int:
    with status_line("reading the state of the cluster"):
        taken = _call_etcd(arguments, lambda client: back_up(client, arguments.place))
    written = {
        "file": str(taken.backup.file),
        "cluster": taken.backup.header.cluster,
        "revision": taken.backup.header.revision,
        "entries": taken.backup.entries,
        "bytes": taken.backup.file.stat().st_size,
        "sha256": taken.backup.sha256,
    }
    print_value(arguments.output, written)
    if taken.topics:
        print_status(
            f"embedded topics are not in it: copy {taken.topics} now, after the backup, so that no "
            "topic is older than the offsets"
        )
    return 0


def _restore(arguments: argparse.Namespace) -> int:
    with status_line("writing the state of the cluster"):
        done = _call_etcd(
            arguments, lambda client: restore(client, arguments.file, arguments.epochs_above)
        )
    restored: dict[str, Any] = {
        "cluster": done.cluster,
        "entries": done.entries,
        "epochs_above": done.epochs_above,
    }
    print_value(arguments.output, restored)
    print_status("start the services now: config, offset, scheduler, workers")
    return 0


def _call_etcd(arguments: argparse.Namespace, call: Callable[[Etcd], Awaitable[_T]]) -> _T:
    config = read_flat(arguments.config) if arguments.config else {}
    settings = instance_settings("config", config, os.environ).etcd

    async def run(settings: EtcdSettings) -> _T:
        client = await Etcd.connect(settings)
        try:
            return await call(client)
        finally:
            await client.close()

    return asyncio.run(run(settings))


def _epoch(text: str) -> int:
    if not text.isdecimal() or int(text) >= _MAX_EPOCH:
        raise argparse.ArgumentTypeError(
            "expected an epoch, as the message of a `stale_epoch` names it"
        )
    return int(text)
