"""`penstock cluster start|stop|status`: a cluster on this machine; `grants`: roles of etcd."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from penstock.cli.errors import FAILED
from penstock.cli.remote.showing import OUTPUTS, show
from penstock.cli.standalone import say
from penstock.cli.waiting import waiting
from penstock.cluster.grants import commands
from penstock.cluster.local import LocalCluster
from penstock.standalone.settings import default_state_dir

_EPILOG = """\
Keys of the processes are set by variables of the environment, for instance
PENSTOCK_SPARK_DRIVER_MEMORY=512m for spark.driver.memory; `penstock worker --help` lists them."""


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the verb."""
    doings = parser.add_subparsers(title="verbs", required=True, metavar="VERB")
    for name, what, run in (
        ("start", "start etcd, one of each service and workers; what runs already stays", start),
        ("stop", "drain the workers, then end everything", stop),
        ("status", "tell what runs, and where; ends with 1 when something does not answer", status),
    ):
        doing = doings.add_parser(
            name, help=what, description=what, epilog=_EPILOG if name == "start" else None
        )
        folder = default_state_dir() / "cluster"
        doing.add_argument("--dir", type=Path, default=folder, help="folder (default: %(default)s)")
        if name == "start":
            doing.add_argument("--workers", type=_count, help="how many, at least (default: 3)")
        if name != "stop":
            doing.add_argument("-o", "--output", choices=OUTPUTS, default="table")
        doing.set_defaults(verb=run)
    _describe_grants(doings.add_parser("grants", help="print commands that make roles of etcd"))


def _describe_grants(doing: argparse.ArgumentParser) -> None:
    doing.add_argument("--name", default="default", help="cluster.name (default: %(default)s)")
    doing.set_defaults(verb=tell_grants)


def tell_grants(arguments: argparse.Namespace) -> int:
    """Print what makes a role of etcd for each service, for a shell."""
    for command in commands(arguments.name):
        sys.stdout.write(f"{command}\n")
    return 0


def start(arguments: argparse.Namespace) -> int:
    """Start it, and tell where it is."""
    with waiting("etcd, services and workers start"):
        asyncio.run(LocalCluster(arguments.dir, say).start(arguments.workers))
    return status(arguments)


def stop(arguments: argparse.Namespace) -> int:
    """Stop it."""
    with waiting("workers are drained, services end"):
        asyncio.run(LocalCluster(arguments.dir, say).stop())
    say(f"nothing runs in {arguments.dir}")
    return 0


def status(arguments: argparse.Namespace) -> int:
    """Print a table of its processes."""
    cluster = LocalCluster(arguments.dir)
    found = asyncio.run(cluster.status())
    rows = [
        {
            "name": part.name,
            "process": part.pid or None,
            "answers": part.answers,
            "address": part.address or None,
            "log": str(part.log),
        }
        for part in found
    ]
    show(arguments.output, rows, rows)
    if cluster.rest():
        say(f"REST at {cluster.rest()}")
    return 0 if all(part.answers for part in found) else FAILED


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError("give a whole number, 0 or more")
    return int(text)
