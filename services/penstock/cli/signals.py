"""`penstock connector signal`: ask a running source for more, such as to read a table again."""

from __future__ import annotations

import argparse
import json
from typing import Any, Final

from penstock.cli.gateway_client import GatewayClient, url_path
from penstock.cli.gateway_options import CONNECTOR, NounParser
from penstock.cli.output import print_value
from penstock.model.errors import ConfigError

_EXAMPLE: Final = """
examples:
  penstock connector signal orders execute-snapshot --table shop.orders --where "id > 7"
  penstock connector signal orders pause-snapshot
  penstock connector signal orders log --data '{"message": "hello"}'
"""


def add_signal(noun: NounParser) -> None:
    """Add the verb to `penstock connector`."""
    verb = noun.add_verb(
        "signal", "ask a source for something: read a table again, pause", _signal, name=CONNECTOR
    )
    verb.formatter_class = argparse.RawDescriptionHelpFormatter
    verb.epilog = _EXAMPLE
    verb.add_argument(
        "type", help="execute-snapshot, stop-snapshot, pause-snapshot, resume-snapshot, log"
    )
    verb.add_argument(
        "--table",
        action="append",
        default=[],
        metavar="NAME",
        help="full name of a table that is meant, or a pattern; may be repeated",
    )
    verb.add_argument("--where", default="", metavar="SQL", help="read only rows that meet this")
    verb.add_argument("--data", default="", metavar="JSON", help="an object that the type needs")
    verb.add_argument(
        "--id", default="", help="sent twice, a signal with an id counts once (default: a new one)"
    )


def _signal(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    body = {"type": arguments.type, "data": _data(arguments), "id": arguments.id}
    path = url_path("v1", "connectors", arguments.name, "signals")
    sent = gateway.send("POST", path, body)
    print_value(arguments.output, sent, [sent])
    return 0


def _data(arguments: argparse.Namespace) -> dict[str, Any]:
    if not arguments.data:
        return _data_of_tables(arguments.table, arguments.where)
    if arguments.table or arguments.where:
        raise ConfigError(
            "cli.usage",
            "--data says all of a signal, and --table or --where are given, too",
            fix="Leave out --data, or write the tables into it as `data-collections`.",
        )
    try:
        data = json.loads(arguments.data)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise ConfigError(
            "cli.usage",
            f"--data is {arguments.data[:100]!r}, expected a JSON object",
            fix="""Write for example --data '{"data-collections": ["shop.orders"]}'.""",
        )
    return data


def _data_of_tables(tables: list[str], where: str) -> dict[str, Any]:
    if where and not tables:
        raise ConfigError(
            "cli.usage",
            "--where has no table that it is for",
            fix="Add --table with the full name of the table, such as shop.orders.",
        )
    data: dict[str, Any] = {"data-collections": tables} if tables else {}
    if where:
        data["additional-conditions"] = [
            {"data-collection": table, "filter": where} for table in tables
        ]
    return data
