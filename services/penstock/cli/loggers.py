"""`penstock loggers …`: log levels of the workers."""

from __future__ import annotations

import argparse
from typing import Final

from penstock.cli.gateway_client import GatewayClient, url_path
from penstock.cli.gateway_options import NounParser
from penstock.cli.output import print_value

LEVELS: Final = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the verbs of the noun."""
    noun = NounParser(parser)
    noun.add_verb("list", "the loggers that have a level of their own", _list)
    set_level = noun.add_verb(
        "set", "set the level of a logger and of those below it", _set, logger="name of the logger"
    )
    set_level.add_argument("level", choices=LEVELS)
    set_level.add_argument(
        "--cluster",
        action="store_true",
        help="also in workers that join later, not only in those that run now",
    )


def _list(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    loggers = gateway.get("/admin/loggers")
    rows = [{"logger": name, **one} for name, one in sorted(loggers.items())]
    print_value(arguments.output, loggers, rows)
    return 0


def _set(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    query = {"scope": "cluster"} if arguments.cluster else None
    path = url_path("admin", "loggers", arguments.logger)
    changed = gateway.send("PUT", path, {"level": arguments.level}, query=query)
    loggers = changed or [arguments.logger]
    rows = [{"logger": one, "level": arguments.level} for one in loggers]
    print_value(arguments.output, loggers, rows)
    return 0
