"""`penstock workers …`: the workers of a cluster, which are emptied before they are taken away.

`penstock worker` is the service itself.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, Final

from penstock.cli.progress import counting
from penstock.cli.remote.asking import Server, path
from penstock.cli.remote.nouns import Noun
from penstock.cli.remote.showing import show
from penstock.model.errors import RetriableError

LOOK_EVERY: Final = 1.0
"""Seconds between two looks at a worker that is emptied."""

WITHIN: Final = 600.0
"""Seconds after which a worker that still has tasks is told of, unless told otherwise."""

_NAME: Final = "name of the worker"


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the noun."""
    noun = Noun(parser)
    noun.verb("list", "who is there, and who leads", _list)
    drain = noun.verb("drain", "move the tasks of a worker elsewhere, for good", _drain, name=_NAME)
    drain.add_argument("--wait", action="store_true", help="end when it has no task any more")
    drain.add_argument(
        "--within", type=float, default=WITHIN, help=f"seconds of --wait (default: {WITHIN:.0f})"
    )
    noun.verb("undrain", "let a worker have tasks again", _undrain, name=_NAME)


def _list(server: Server, arguments: argparse.Namespace) -> int:
    found = server.get("/v1/cluster")
    rows = [{"name": one.pop("name"), **one} for one in (dict(w) for w in found["workers"])]
    show(arguments.output, found, rows)
    if arguments.output == "table":
        print(
            f"leader {found['leader']}, {found['unassigned']} tasks of nobody, "
            f"{found['moving']} on their way"
        )
    return 0


def _drain(server: Server, arguments: argparse.Namespace) -> int:
    where = path("v1", "workers", arguments.name, "drain")
    found = server.send("PUT", where)
    if arguments.wait:
        found = _emptied(server, arguments, found)
    show(arguments.output, found)
    return 0


def _emptied(server: Server, arguments: argparse.Namespace, found: Any) -> Any:
    """Wait until a worker has no task any more.

    Raises:
        RetriableError: `worker.not_empty`.
    """
    where, began = path("v1", "workers", arguments.name, "drain"), time.monotonic()
    most = found["tasks_left"]
    with counting(f"emptying {arguments.name}", most) as drawn:
        while left := found["tasks_left"]:
            drawn(most - left)
            if time.monotonic() - began > arguments.within:
                raise RetriableError(
                    "worker.not_empty",
                    f"{arguments.name} still has {left} tasks after {arguments.within:g} s",
                    fix="It stays drained: wait on with the same command, look at its tasks with "
                    f"`penstock connector list`, or `penstock workers undrain {arguments.name}`.",
                )
            time.sleep(LOOK_EVERY)
            found = server.send("PUT", where)
    return found


def _undrain(server: Server, arguments: argparse.Namespace) -> int:
    show(arguments.output, server.send("DELETE", path("v1", "workers", arguments.name, "drain")))
    return 0
