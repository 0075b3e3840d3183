"""`penstock offsets …`: read, set, reset and rewind the offsets of a connector.

`penstock offset` is the service that stores them.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

from penstock.cli.gateway_client import GatewayClient, url_path
from penstock.cli.gateway_options import CONNECTOR, NounParser
from penstock.cli.output import print_value
from penstock.model.errors import ConfigError
from penstock.model.offset import TIMESTAMP

_STOP_FIRST: Final = "; stop it first"
_MAX_BYTES: Final = 1 << 20
"""Size of a file of offsets: as much as a gateway accepts."""


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the verbs of the noun."""
    noun = NounParser(parser)
    noun.add_verb("get", "the offset of each partition", _get, name=CONNECTOR)
    set_offsets = noun.add_verb(
        "set", f"set offsets; null removes one{_STOP_FIRST}", _set, name=CONNECTOR
    )
    set_offsets.add_argument("file", help="as `get -o json` prints it; - for standard input")
    seek = noun.add_verb(
        "seek",
        f"begin at the messages of a time, in topics of brokers{_STOP_FIRST}",
        _seek,
        name=CONNECTOR,
    )
    seek.add_argument("--to", required=True, help="2026-01-31T12:00:00Z")
    noun.add_verb("reset", f"remove all offsets{_STOP_FIRST}", _reset, name=CONNECTOR)
    rewind = noun.add_verb(
        "rewind", f"restore the offsets of an earlier time{_STOP_FIRST}", _rewind, name=CONNECTOR
    )
    rewind.add_argument("--to", required=True, help="2026-01-31T12:00:00Z")
    rewind.add_argument("--prefix", default="", help="only partitions whose id has this prefix")
    rewind.add_argument("--dry-run", action="store_true", help="show what would change")
    history = noun.add_verb(
        "history", "the offsets that a partition had, newest first", _history, name=CONNECTOR
    )
    history.add_argument("partition", help="a JSON object, as `get -o json` prints it")
    noun.add_verb("kept", "deleted connectors whose offsets are kept for their namesakes", _kept)
    purge = noun.add_verb(
        "purge", "let the next connector of a deleted one's name begin anew", _purge
    )
    purge.add_argument("name", help="name of the deleted connector, as `kept` lists it")


def _get(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    found = gateway.get(url_path("connectors", arguments.name, "offsets"))
    print_value(arguments.output, found, found["offsets"])
    return 0


def _set(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    offsets = _read_offsets(arguments.file)
    path = url_path("connectors", arguments.name, "offsets")
    print_value(arguments.output, gateway.send("PATCH", path, offsets))
    return 0


def _seek(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    path = url_path("connectors", arguments.name, "offsets")
    listed = gateway.get(path)["offsets"]
    if not listed:
        raise ConfigError(
            "offset.nothing_to_alter",
            f"{arguments.name} has no offsets yet",
            fix=f"Set where it begins: `auto.offset.reset=timestamp:{arguments.to}`.",
        )
    wanted = [
        {"partition": one["partition"], "offset": {TIMESTAMP: arguments.to}} for one in listed
    ]
    print_value(arguments.output, gateway.send("PATCH", path, {"offsets": wanted}))
    return 0


def _reset(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    path = url_path("connectors", arguments.name, "offsets")
    print_value(arguments.output, gateway.send("DELETE", path))
    return 0


def _rewind(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    body = {"to": arguments.to, "dry_run": arguments.dry_run, "prefix": arguments.prefix}
    path = url_path("v1", "connectors", arguments.name, "offsets", "rewind")
    changes: list[Any] = []
    last: dict[str, Any] = {}
    for last in gateway.stream("POST", path, body):
        changes += last.get("changes", ())
    print_value(arguments.output, {**last, "changes": changes}, changes or [last])
    return 0


def _history(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    path = url_path("v1", "connectors", arguments.name, "offsets", "history")
    found = gateway.get(path, partition=arguments.partition)
    print_value(arguments.output, found, found["versions"])
    return 0


def _kept(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    found = gateway.get("/v1/kept-offsets")["kept"]
    if not found:
        print("no offsets are kept", file=sys.stderr)
    print_value(arguments.output, found, found)
    return 0


def _purge(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    gateway.send("DELETE", url_path("v1", "kept-offsets", arguments.name))
    print_value(arguments.output, {"name": arguments.name, "done": "purge"}, [])
    return 0


def _read_offsets(file: str) -> Any:
    """Return the JSON value of a file: numbers and texts of offsets keep their types."""
    if file == "-":
        text = sys.stdin.read(_MAX_BYTES + 1)
    else:
        with Path(file).open(encoding="utf-8", errors="replace") as opened:
            text = opened.read(_MAX_BYTES + 1)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        value, reason = None, str(error)
    else:
        reason = "it has no `offsets`"
    if len(text) > _MAX_BYTES or not isinstance(value, dict) or "offsets" not in value:
        raise ConfigError(
            "config.file_malformed",
            f"{file} is not a file of offsets: {reason}"[:300],
            fix="Begin with what `penstock offsets get NAME -o json` prints.",
        )
    return value
