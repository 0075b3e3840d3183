"""`penstock offsets …`: how far a connector is, and where it goes on.

`penstock offset` is the service that keeps them.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

from penstock.cli.remote.asking import Server, path
from penstock.cli.remote.nouns import CONNECTOR, Noun
from penstock.cli.remote.showing import show
from penstock.model.errors import ConfigError

_STOPPED: Final = "; stop it first"
_MOST_BYTES: Final = 1 << 20
"""Size of a file of offsets: as much as a gateway takes."""


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the noun."""
    noun = Noun(parser)
    noun.verb("get", "the offset of each partition", _get, name=CONNECTOR)
    put = noun.verb(
        "set", f"set offsets, or take away those that are null{_STOPPED}", _set, name=CONNECTOR
    )
    put.add_argument("file", help="as `get -o json` prints them; - for standard input")
    noun.verb("reset", f"take all offsets away{_STOPPED}", _reset, name=CONNECTOR)
    back = noun.verb(
        "rewind", f"go back to how far it was at a time{_STOPPED}", _rewind, name=CONNECTOR
    )
    back.add_argument("--to", required=True, help="2026-01-31T12:00:00Z")
    back.add_argument("--prefix", default="", help="only partitions whose id begins so")
    back.add_argument("--dry-run", action="store_true", help="tell what would change")
    past = noun.verb(
        "history", "the offsets that a partition had, newest first", _history, name=CONNECTOR
    )
    past.add_argument("partition", help="a JSON object, as `get -o json` prints it")


def _get(server: Server, arguments: argparse.Namespace) -> int:
    found = server.get(path("connectors", arguments.name, "offsets"))
    show(arguments.output, found, found["offsets"])
    return 0


def _set(server: Server, arguments: argparse.Namespace) -> int:
    wanted = _read(arguments.file)
    done = server.send("PATCH", path("connectors", arguments.name, "offsets"), wanted)
    show(arguments.output, done)
    return 0


def _reset(server: Server, arguments: argparse.Namespace) -> int:
    show(arguments.output, server.send("DELETE", path("connectors", arguments.name, "offsets")))
    return 0


def _rewind(server: Server, arguments: argparse.Namespace) -> int:
    asked = {"to": arguments.to, "dry_run": arguments.dry_run, "prefix": arguments.prefix}
    where = path("v1", "connectors", arguments.name, "offsets", "rewind")
    changes: list[Any] = []
    last: dict[str, Any] = {}
    for last in server.lines("POST", where, asked):
        changes += last.get("changes", ())
    show(arguments.output, {**last, "changes": changes}, changes or [last])
    return 0


def _history(server: Server, arguments: argparse.Namespace) -> int:
    where = path("v1", "connectors", arguments.name, "offsets", "history")
    found = server.get(where, partition=arguments.partition)
    show(arguments.output, found, found["versions"])
    return 0


def _read(file: str) -> Any:
    """Return what a file has: numbers and texts of offsets are as JSON has them."""
    if file == "-":
        text = sys.stdin.read(_MOST_BYTES + 1)
    else:
        with Path(file).open(encoding="utf-8", errors="replace") as opened:
            text = opened.read(_MOST_BYTES + 1)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        found, why = None, str(error)
    else:
        why = "it has no `offsets`"
    if len(text) > _MOST_BYTES or not isinstance(found, dict) or "offsets" not in found:
        raise ConfigError(
            "config.file_malformed",
            f"{file} is no file of offsets: {why}"[:300],
            fix="Begin with what `penstock offsets get NAME -o json` prints.",
        )
    return found
