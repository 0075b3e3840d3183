"""`penstock backup FILE|FOLDER` and `penstock restore FILE`: the state of a cluster or a node."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from penstock.cli.output import OUTPUTS, print_value
from penstock.cli.progress import print_status, status_line
from penstock.cluster.backup import TakenBackup, back_up
from penstock.cluster.node_backup import back_up_node, restore_node
from penstock.cluster.restore import RestoredCluster, RestorePlace, restore
from penstock.cluster.restore_order import EPOCHS_PER_RESTORE
from penstock.cluster.settings import InstanceSettings, instance_settings
from penstock.etcd import Etcd
from penstock.model.errors import ConfigError
from penstock.pipeline_files.files import read_flat

_T = TypeVar("_T")

_MAX_EPOCH: Final = 1 << 62
"""Revisions of etcd have 63 bits, and some are needed afterwards."""

_EPILOG: Final = """\
etcd and the cluster are named by the keys of services, in the file of a config service or as
variables: PENSTOCK_ETCD_ENDPOINTS (127.0.0.1:2379), PENSTOCK_CLUSTER_NAME (default),
PENSTOCK_ETCD_USER, PENSTOCK_ETCD_PASSWORD, and those of etcd.tls.*. Where the services keep their
state in PostgreSQL: PENSTOCK_STORE=postgresql, PENSTOCK_STORE_URL, PENSTOCK_STORE_SCHEMA.

--state names the state folder of a node instead: of standalone, or of `penstock run`."""


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
        parser.add_argument(
            "--keep-database",
            action="store_true",
            help="put back only what was in etcd: the state in PostgreSQL is still there",
        )
        parser.set_defaults(verb=_restore)
    parser.add_argument("--state", type=Path, metavar="FOLDER", help="state folder of a node")
    parser.add_argument("--config", type=Path, help="file of keys: properties, YAML or JSON")
    parser.add_argument("-o", "--output", choices=OUTPUTS, default="table", help="output format")


def _back_up(arguments: argparse.Namespace) -> int:
    with status_line(f"reading the state of {_whose(arguments)}"):
        taken = _take(arguments)
    header = taken.backup.header
    written = {
        "file": str(taken.backup.file),
        "cluster": header.cluster or None,
        "revision": header.revision,
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


def _take(arguments: argparse.Namespace) -> TakenBackup:
    if arguments.state is not None:
        return back_up_node(arguments.state, arguments.place)
    settings = _settings(arguments)
    database = settings.postgresql()
    return _call_etcd(settings, lambda client: back_up(client, arguments.place, database))


def _restore(arguments: argparse.Namespace) -> int:
    with status_line(f"writing the state of {_whose(arguments)}"):
        done = _put_back(arguments)
    restored: dict[str, Any] = {
        "cluster": done.cluster or None,
        "entries": done.entries,
        "epochs_above": done.epochs_above,
    }
    print_value(arguments.output, restored)
    next_step = "the services now: config, offset, scheduler, workers"
    print_status(f"start {'the node now' if arguments.state is not None else next_step}")
    return 0


def _put_back(arguments: argparse.Namespace) -> RestoredCluster:
    if arguments.state is not None:
        return restore_node(arguments.state, arguments.file, arguments.epochs_above)
    settings = _settings(arguments)
    place = RestorePlace(settings.postgresql(), arguments.keep_database)
    if place.keeps and place.database is None:
        raise ConfigError(
            "restore.no_database",
            "--keep-database is given, and no key says that the state is in PostgreSQL",
            fix="Set PENSTOCK_STORE=postgresql, PENSTOCK_STORE_URL and PENSTOCK_STORE_SCHEMA as "
            "for the services, or name their file with --config.",
            config_path="store",
        )
    return _call_etcd(
        settings,
        lambda client: restore(client, arguments.file, arguments.epochs_above, place),
    )


def _whose(arguments: argparse.Namespace) -> str:
    if arguments.state is None:
        return "the cluster"
    if arguments.config is not None or getattr(arguments, "keep_database", False):
        raise ConfigError(
            "backup.two_places",
            "--state names a node, and --config and --keep-database are about a cluster",
            fix="Leave out --state for the cluster, or the others for the node.",
        )
    return f"the node in {arguments.state}"


def _settings(arguments: argparse.Namespace) -> InstanceSettings:
    config = read_flat(arguments.config) if arguments.config else {}
    return instance_settings("config", config, os.environ)


def _call_etcd(settings: InstanceSettings, call: Callable[[Etcd], Awaitable[_T]]) -> _T:
    async def run() -> _T:
        client = await Etcd.connect(settings.etcd)
        try:
            return await call(client)
        finally:
            await client.close()

    return asyncio.run(run())


def _epoch(text: str) -> int:
    if not text.isdecimal() or int(text) >= _MAX_EPOCH:
        raise argparse.ArgumentTypeError(
            "expected an epoch, as the message of a `stale_epoch` names it"
        )
    return int(text)
