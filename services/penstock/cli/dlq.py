"""`penstock dlq …`: dead letters of a connector, through a gateway."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress

from penstock.cli.errors import FAILED
from penstock.cli.remote import options
from penstock.cli.remote.asking import Server, path
from penstock.cli.remote.edits import assigned, editing, from_file
from penstock.cli.remote.showing import show, table
from penstock.cli.waiting import unseen
from penstock.model.errors import ConfigError, RetriableError

_Verb = Callable[[Server, argparse.Namespace], int]

_STAGES: Final = ("read", "transform", "write")

EVERY: Final = 0.5
"""Seconds between two looks at a replay."""


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the noun."""
    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB")

    def verb(name: str, what: str, run: _Verb) -> argparse.ArgumentParser:
        one: argparse.ArgumentParser = verbs.add_parser(name, help=what, description=what)
        options.connector(one, "connector", "whose letters they are")
        options.add(one)
        one.set_defaults(verb=lambda arguments: _asked(run, arguments))
        return one

    listed = verb("list", "how many there are of each kind, and the newest", _list)
    _add_choices(listed)
    listed.add_argument("--since", default="", help="no older ones: 2026-01-31T08:00:00Z")
    listed.add_argument("--limit", type=int, default=20, help="most that are shown (default: 20)")
    shown = verb("show", "all that is known of one", _show)
    shown.add_argument("id", help="as `dlq list` shows it: 0/17")
    replay = verb("replay", "send their rows on their way again, each once", _replay)
    replay.add_argument("ids", nargs="*", metavar="ID", help="0/17, or 0/17-20 for four of them")
    _add_choices(replay)
    replay.add_argument("--all", action="store_true", help="all that were not replayed yet")
    replay.add_argument(
        "--set", action="append", default=[], metavar="COLUMN=VALUE",
        help="change a column in all of them; the value is JSON, or text; null takes it away",
    )  # fmt: skip
    how = replay.add_mutually_exclusive_group()
    how.add_argument("--edit", action="store_true", help="change their rows in your editor")
    how.add_argument(
        "--edits", type=Path, metavar="FILE", help="YAML or JSON: 0/17: {column: value}"
    )
    replay.add_argument("--dry-run", action="store_true", help="tell what would be replayed")
    replay.add_argument("--no-wait", action="store_true", help="begin, and do not wait for the end")
    replay.add_argument(
        "--within", type=float, default=600, help="seconds to wait for the end (default: 600)"
    )


def _add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stage", choices=_STAGES, default="", help="where rows failed")
    parser.add_argument("--code", default="", help="why they failed")
    parser.add_argument("--dataset", default="", help="whose rows they are")


def _asked(run: _Verb, arguments: argparse.Namespace) -> int:
    with options.server(arguments) as server:
        return run(server, arguments)


def _list(server: Server, arguments: argparse.Namespace) -> int:
    names = ("stage", "code", "dataset", "since", "limit")
    asked = {name: getattr(arguments, name) for name in names}
    where = path("v1", "connectors", arguments.connector, "letters")
    first, *letters = server.lines("GET", where, **asked)
    if arguments.output != "table":
        show(arguments.output, {**first, "letters": letters})
        return 0
    table(first["counts"])
    if first["more"]:
        print("… and older ones, which are not counted")
    if letters:
        print()
        table([{key: one[key] for key in one if key != "partition"} for one in letters])
    return 0


def _show(server: Server, arguments: argparse.Namespace) -> int:
    where = path("v1", "connectors", arguments.connector, "letters")
    (letter,) = server.lines("GET", where, ids=arguments.id, whole="true", limit=1)
    rows = [{"field": key, "value": value} for key, value in letter.items() if value is not None]
    show(arguments.output, letter, rows)
    return 0


def _replay(server: Server, arguments: argparse.Namespace) -> int:
    where = path("v1", "connectors", arguments.connector, "letters", "replay")
    body: dict[str, Any] = {
        "ids": ",".join(arguments.ids),
        **{name: getattr(arguments, name) for name in ("all", "code", "stage", "dataset")},
        "set": assigned(arguments.set),
    }
    if arguments.edits is not None:
        body["edits"] = from_file(arguments.edits)
    begun = _begun(server, where, body, arguments)
    if begun is None:
        print("nothing replayed", file=sys.stderr)
        if arguments.output != "table":
            show(arguments.output, {"connector": arguments.connector, "count": 0})
        return 0
    if arguments.dry_run:
        rows = [{"id": one["id"], "row": one["row"]} for one in begun["rows"]]
        show(arguments.output, begun, rows)
        return 0
    if arguments.no_wait or not begun["count"]:
        show(arguments.output, begun, [_summary(begun)])
        return 0
    ended = _waited(server, where, begun, arguments.within)
    show(arguments.output, {**begun, **ended}, [{**_summary(begun), **_outcome(ended)}])
    return FAILED if ended["state"] == "FAILED" or ended["failed_again"] else 0


def _begun(
    server: Server, where: str, body: Mapping[str, Any], arguments: argparse.Namespace
) -> Mapping[str, Any] | None:
    """Begin a replay, of what a person has left in an editor where one is asked for; None where
    that is nothing.
    """
    asked = {"dry_run": arguments.dry_run}
    if not arguments.edit:
        return dict(server.send("POST", where, {**body, **asked}))
    found = server.send("POST", where, {**body, "dry_run": True})
    if found["count"] > len(found["rows"]):
        raise ConfigError(
            "letters.too_many",
            f"{found['count']} rows are too many for an editor",
            fix=f"Choose at most {len(found['rows'])}; or change all alike with --set.",
        )
    if not found["rows"]:
        return None
    with editing({one["id"]: one["row"] for one in found["rows"]}) as edits:
        if not edits:
            return None
        changed = {"ids": ",".join(edits), "set": body["set"], "edits": edits}
        return dict(server.send("POST", where, {**changed, **asked}))


def _waited(
    server: Server, where: str, begun: Mapping[str, Any], within: float
) -> Mapping[str, Any]:
    """Return how a replay ended.

    Raises:
        RetriableError: `letters.replay_goes_on`.
    """
    deadline = time.monotonic() + within
    drawn = Progress(console=Console(stderr=True), disable=not sys.stderr.isatty())
    with unseen(), drawn:
        bar = drawn.add_task("replaying", total=begun["count"])
        while time.monotonic() < deadline:
            found: Mapping[str, Any] = server.get(where)
            drawn.update(bar, completed=found["replayed"])
            # what an earlier one ended with is told until this one has begun
            if found["state"] in {"COMPLETED", "FAILED"} and found["epoch"] > begun["epoch"]:
                return found
            time.sleep(EVERY)
    raise RetriableError(
        "letters.replay_goes_on",
        f"{begun['connector']} has not ended within {within:g} s; it goes on",
        fix=f"See `penstock connector status {begun['connector']}`, or wait longer: --within.",
    )


def _summary(begun: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "connector": begun["connector"],
        "letters": begun["count"],
        "replayed before": begun["replayed_before"] or None,
        "without row": begun["without_row"] or None,
    }


def _outcome(ended: Mapping[str, Any]) -> dict[str, Any]:
    names = ("state", "replayed", "failed_again", "why")
    return {name.replace("_", " "): ended[name] for name in names}
