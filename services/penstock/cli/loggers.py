"""`penstock loggers …`: how much workers log."""

from __future__ import annotations

import argparse
from typing import Final

from penstock.cli.remote.asking import Server, path
from penstock.cli.remote.nouns import Noun
from penstock.cli.remote.showing import show

LEVELS: Final = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the noun."""
    noun = Noun(parser)
    noun.verb("list", "the loggers that have a level of their own", _list)
    put = noun.verb(
        "set", "set the level of a logger and of those below it", _set, logger="its name"
    )
    put.add_argument("level", choices=LEVELS)
    put.add_argument(
        "--cluster",
        action="store_true",
        help="in workers that come, too, not only in those there are",
    )


def _list(server: Server, arguments: argparse.Namespace) -> int:
    found = server.get("/admin/loggers")
    show(arguments.output, found, [{"logger": name, **one} for name, one in sorted(found.items())])
    return 0


def _set(server: Server, arguments: argparse.Namespace) -> int:
    query = {"scope": "cluster"} if arguments.cluster else None
    where = path("admin", "loggers", arguments.logger)
    changed = server.send("PUT", where, {"level": arguments.level}, query=query)
    loggers = changed or [arguments.logger]
    show(arguments.output, loggers, [{"logger": one, "level": arguments.level} for one in loggers])
    return 0
