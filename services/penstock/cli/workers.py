"""`penstock workers …`: the workers of a cluster, which are emptied before they are taken away.

`penstock worker` is the service itself.
"""

from __future__ import annotations

import argparse
import time
from typing import Final

from penstock.cli.remote.asking import Server, path
from penstock.cli.remote.nouns import Noun
from penstock.cli.remote.showing import show

LOOK_EVERY: Final = 1.0
"""Seconds between two looks at a worker that is emptied."""

_NAME: Final = "name of the worker"


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the noun."""
    noun = Noun(parser)
    noun.verb("list", "who is there, and who leads", _list)
    drain = noun.verb("drain", "move the tasks of a worker elsewhere, for good", _drain, name=_NAME)
    drain.add_argument("--wait", action="store_true", help="end when it has no task any more")
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
    while arguments.wait and found["tasks_left"]:
        time.sleep(LOOK_EVERY)
        found = server.send("PUT", where)
    show(arguments.output, found)
    return 0


def _undrain(server: Server, arguments: argparse.Namespace) -> int:
    show(arguments.output, server.send("DELETE", path("v1", "workers", arguments.name, "drain")))
    return 0
