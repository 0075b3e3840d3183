"""`penstock cluster start|stop|status`: a cluster on this machine; `grants`: its roles in etcd."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from penstock.cli.errors import EXIT_FAILED
from penstock.cli.output import OUTPUTS, print_value
from penstock.cli.progress import print_status, status_line
from penstock.cluster.grants import role_commands
from penstock.cluster.local import LocalCluster
from penstock.standalone.settings import default_state_dir

_EPILOG = """\
Keys of the processes are set by environment variables, for instance
PENSTOCK_SPARK_DRIVER_MEMORY=512m for spark.driver.memory; `penstock worker --help` lists them."""


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the verbs of the noun."""
    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB")
    for name, summary, run in (
        ("start", "start etcd, one of each service and workers; running ones stay", start),
        ("stop", "drain the workers, then stop all processes", stop),
        ("status", "list the processes; ends with 1 when one does not answer", status),
    ):
        verb = verbs.add_parser(
            name, help=summary, description=summary, epilog=_EPILOG if name == "start" else None
        )
        folder = default_state_dir() / "cluster"
        verb.add_argument("--dir", type=Path, default=folder, help="folder (default: %(default)s)")
        if name == "start":
            verb.add_argument("--workers", type=_count, help="at least so many (default: 3)")
        if name != "stop":
            verb.add_argument("-o", "--output", choices=OUTPUTS, default="table")
        verb.set_defaults(verb=run)
    grants = verbs.add_parser("grants", help="print the commands that create the roles of etcd")
    grants.add_argument("--name", default="default", help="cluster.name (default: %(default)s)")
    grants.set_defaults(verb=print_grants)


def print_grants(arguments: argparse.Namespace) -> int:
    """Print, for a shell, the commands that create a role of etcd for each service."""
    for command in role_commands(arguments.name):
        sys.stdout.write(f"{command}\n")
    return 0


def start(arguments: argparse.Namespace) -> int:
    """Start the cluster, and print its processes."""
    with status_line("starting etcd, services and workers"):
        asyncio.run(LocalCluster(arguments.dir, print_status).start(arguments.workers))
    return status(arguments)


def stop(arguments: argparse.Namespace) -> int:
    """Stop the cluster."""
    with status_line("draining the workers, stopping the services"):
        asyncio.run(LocalCluster(arguments.dir, print_status).stop())
    print_status(f"nothing runs in {arguments.dir}")
    return 0


def status(arguments: argparse.Namespace) -> int:
    """Print the processes of the cluster."""
    cluster = LocalCluster(arguments.dir)
    parts = asyncio.run(cluster.status())
    rows = [
        {
            "name": part.name,
            "process": part.pid or None,
            "answers": part.answers,
            "address": part.address or None,
            "log": str(part.log),
        }
        for part in parts
    ]
    print_value(arguments.output, rows, rows)
    if cluster.rest():
        print_status(f"REST at {cluster.rest()}")
    return 0 if all(part.answers for part in parts) else EXIT_FAILED


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError("expected a whole number, 0 or more")
    return int(text)
