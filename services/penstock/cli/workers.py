"""`penstock workers …`: list the workers of a cluster, drain one before its machine is removed.

`penstock worker` is the service itself.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, Final

from penstock.cli.gateway_client import GatewayClient, url_path
from penstock.cli.gateway_options import WORKER, NounParser
from penstock.cli.output import print_value
from penstock.cli.progress import counting_bar
from penstock.model.errors import RetriableError

POLL_INTERVAL_S: Final = 1.0
"""Time between two requests for the tasks that a drained worker still has."""

DEFAULT_TIMEOUT_S: Final = 600.0


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the verbs of the noun."""
    noun = NounParser(parser)
    noun.add_verb("list", "the workers and the leading scheduler", _list)
    drain = noun.add_verb(
        "drain", "move the tasks of a worker to others, until `undrain`", _drain, name=WORKER
    )
    drain.add_argument("--wait", action="store_true", help="end when it has no tasks any more")
    drain.add_argument(
        "--within",
        type=float,
        default=DEFAULT_TIMEOUT_S,
        help=f"seconds of --wait (default: {DEFAULT_TIMEOUT_S:.0f})",
    )
    noun.add_verb("undrain", "assign tasks to a worker again", _undrain, name=WORKER)


def _list(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    cluster = gateway.get("/v1/cluster")
    rows = [{"name": one.pop("name"), **one} for one in (dict(w) for w in cluster["workers"])]
    print_value(arguments.output, cluster, rows)
    if arguments.output == "table":
        print(
            f"leader {cluster['leader']}, {cluster['unassigned']} tasks unassigned, "
            f"{cluster['moving']} moving"
        )
    return 0


def _drain(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    path = url_path("v1", "workers", arguments.name, "drain")
    worker = gateway.send("PUT", path)
    if arguments.wait:
        worker = _wait_until_drained(gateway, arguments, worker)
    print_value(arguments.output, worker)
    return 0


def _wait_until_drained(gateway: GatewayClient, arguments: argparse.Namespace, worker: Any) -> Any:
    """Return the worker once it has no tasks any more.

    Raises:
        RetriableError: `worker.not_empty`.
    """
    path, started_at = url_path("v1", "workers", arguments.name, "drain"), time.monotonic()
    total = worker["tasks_left"]
    with counting_bar(f"draining {arguments.name}", total) as update:
        while left := worker["tasks_left"]:
            update(total - left)
            if time.monotonic() - started_at > arguments.within:
                raise RetriableError(
                    "worker.not_empty",
                    f"{arguments.name} still has {left} tasks after {arguments.within:g} s",
                    fix="It stays drained. Wait on with the same command, see its tasks with "
                    f"`penstock connector list`, or `penstock workers undrain {arguments.name}`.",
                )
            time.sleep(POLL_INTERVAL_S)
            worker = gateway.send("PUT", path)
    return worker


def _undrain(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    path = url_path("v1", "workers", arguments.name, "drain")
    print_value(arguments.output, gateway.send("DELETE", path))
    return 0
