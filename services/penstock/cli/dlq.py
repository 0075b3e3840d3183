"""`penstock dlq …`: list, show, export, correct and replay the dead letters of a connector."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress

from penstock.cli.dlq_edits import Row, edit_rows, parse_assignments, read_edits
from penstock.cli.dlq_export import IDS_HELP, describe_export, export
from penstock.cli.dlq_exported_file import read_exported
from penstock.cli.errors import EXIT_FAILED
from penstock.cli.gateway_client import GatewayClient, url_path
from penstock.cli.gateway_options import CONNECTOR, NounParser
from penstock.cli.output import print_table, print_value
from penstock.cli.progress import no_status_line
from penstock.model.dead_letter_queue import MAX_DEAD_LETTERS, format_ids, parse_ids
from penstock.model.errors import ConfigError, RetriableError

_STAGES: Final = ("read", "transform", "write")

POLL_INTERVAL_S: Final = 0.5
"""Time between two requests for the state of a replay."""


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the verbs of the noun."""
    noun = NounParser(parser)
    listing = noun.add_verb(
        "list", "count the dead letters of each kind, and list the newest", _list,
        connector=CONNECTOR,
    )  # fmt: skip
    _add_filters(listing)
    listing.add_argument("--since", default="", help="no older ones: 2026-01-31T08:00:00Z")
    listing.add_argument("--limit", type=int, default=20, help="dead letters to list (default: 20)")
    one = noun.add_verb("show", "show one dead letter whole", _show, connector=CONNECTOR)
    one.add_argument("id", help="as `dlq list` prints it: 0/17")
    exporting = noun.add_verb(
        "export", "write rows that the source could not read into a file to correct and replay",
        export,
        connector=CONNECTOR,
    )  # fmt: skip
    describe_export(exporting)
    replay = noun.add_verb(
        "replay", "send the rows of dead letters through the connector again, each once", _replay,
        connector=CONNECTOR,
    )  # fmt: skip
    _describe_replay(replay)


def _describe_replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help=IDS_HELP)
    _add_filters(parser)
    parser.add_argument("--all", action="store_true", help="all that were not replayed yet")
    parser.add_argument(
        "--set", action="append", default=[], metavar="COLUMN=VALUE",
        help="set a column in all rows, to a value of its type; null removes the value",
    )  # fmt: skip
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--edit", action="store_true", help="change the rows in your editor")
    source.add_argument(
        "--edits",
        type=Path,
        metavar="FILE",
        help="the file of `dlq export`, corrected; or YAML or JSON: 0/17: {column: value}",
    )
    source.add_argument(
        "--raw", metavar="TEXT", help="the whole row, where the source could not read it"
    )
    source.add_argument(
        "--raw-file", type=Path, metavar="FILE", help="the same from a file; - is standard input"
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be replayed")
    parser.add_argument("--no-wait", action="store_true", help="start it, do not wait for its end")
    parser.add_argument(
        "--within", type=float, default=600, help="seconds to wait for its end (default: 600)"
    )


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stage", choices=_STAGES, default="", help="stage that rejected the row")
    parser.add_argument("--code", default="", help="code of the error")
    parser.add_argument("--dataset", default="", help="dataset of the row")


def _list(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    names = ("stage", "code", "dataset", "since", "limit")
    query = {name: getattr(arguments, name) for name in names}
    path = url_path("v1", "connectors", arguments.connector, "letters")
    if arguments.output != "table":
        query["whole"] = "true"
    summary, *dead_letters = gateway.stream("GET", path, **query)
    if arguments.output != "table":
        print_value(arguments.output, {**summary, "letters": dead_letters})
        return 0
    print_table(summary["counts"])
    if summary["more"]:
        print("… and older ones, which are not counted")
    if dead_letters:
        print()
        print_table([{key: one[key] for key in one if key != "partition"} for one in dead_letters])
    return 0


def _show(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    path = url_path("v1", "connectors", arguments.connector, "letters")
    (dead_letter,) = gateway.stream("GET", path, ids=arguments.id, whole="true", limit=1)
    rows = [
        {"field": key, "value": value} for key, value in dead_letter.items() if value is not None
    ]
    print_value(arguments.output, dead_letter, rows)
    return 0


def _replay(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    path = url_path("v1", "connectors", arguments.connector, "letters", "replay")
    body: dict[str, Any] = {
        "ids": ",".join(arguments.ids),
        **{name: getattr(arguments, name) for name in ("all", "code", "stage", "dataset")},
        "set": parse_assignments(arguments.set),
    }
    selects = any(value for name, value in body.items() if name != "set")
    if arguments.edits is not None:
        body |= _read_edits(gateway, arguments, is_selected=selects)
    text = arguments.raw if arguments.raw_file is None else _read_text(arguments.raw_file)
    if text is not None:
        body["edits"] = {_only_id(arguments.ids): text}
    replay = _start_replay(gateway, path, body, arguments)
    if replay is None:
        print("nothing replayed", file=sys.stderr)
        if arguments.output != "table":
            print_value(arguments.output, {"connector": arguments.connector, "count": 0})
        return 0
    code = EXIT_FAILED if replay["not_replayed"] else 0
    if arguments.dry_run:
        rows = [{"id": one["id"], "row": one["row"]} for one in replay["rows"]]
        print_value(arguments.output, replay, rows)
    elif arguments.no_wait or not replay["count"]:
        print_value(arguments.output, replay, [_start_row(replay)])
    else:
        end = _wait_for_end(gateway, path, replay, arguments.within)
        print_value(arguments.output, {**replay, **end}, [{**_start_row(replay), **_end_row(end)}])
        code = EXIT_FAILED if end["state"] == "FAILED" or end["failed_again"] else code
    _print_reasons(arguments.connector, replay)
    return code


def _read_edits(
    gateway: GatewayClient, arguments: argparse.Namespace, *, is_selected: bool
) -> dict[str, Any]:
    """Return what `--edits` changes; of an exported file also its dead letters, where no others are
    selected.
    """
    path = url_path("v1", "connectors", arguments.connector, "letters")

    def read(ids: str) -> Iterable[Mapping[str, Any]]:
        query: dict[str, str | float] = {"ids": ids, "whole": "true", "limit": MAX_DEAD_LETTERS}
        found: Iterable[Mapping[str, Any]] = gateway.stream("GET", path, **query)
        return found

    exported = read_exported(arguments.edits, arguments.connector, read)
    if exported is None:
        return {"edits": read_edits(arguments.edits)}
    if is_selected:
        return {"edits": exported.edits}
    if not exported.ids:
        raise ConfigError(
            "letters.none_chosen",
            f"{arguments.edits} has no dead letters",
            fix=f"Export some: penstock dlq export {arguments.connector}",
        )
    if len(exported.ids) != exported.count:
        print(
            f"{len(exported.ids)} of the {exported.count} dead letters that were exported are in "
            f"{arguments.edits}",
            file=sys.stderr,
        )
    return {"edits": exported.edits, "ids": format_ids(sorted(exported.ids))}


_NOT_CORRECTABLE: Final = frozenset({"letters.no_parser", "letters.no_row"})
"""Codes of dead letters that no edit makes a row of."""


def _print_reasons(connector: str, replay: Mapping[str, Any]) -> None:
    """Say of each dead letter that was asked for and is not replayed, why, and what to do."""
    for one in replay["reasons"]:
        text = f"not replayed: {one['id']}: [{one['code']}] {one['message']}"
        print(f"{text}. Fix: {one['fix']}" if one["fix"] else text, file=sys.stderr)
    correctable = [one["id"] for one in replay["reasons"] if one["code"] not in _NOT_CORRECTABLE]
    if correctable:
        example = correctable[0]
        print(
            f"Correct them: penstock dlq replay {connector} {example} --set COLUMN=VALUE, "
            "--raw TEXT for the whole row, or --edit.",
            file=sys.stderr,
        )


def _read_text(path: Path) -> str:
    """Return the text of a file, or of standard input.

    Raises:
        ConfigError: `config.file_unreadable`, `letters.bad_edit`.
    """
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise ConfigError(
            "config.file_unreadable",
            f"{path} cannot be read: {error.strerror}",
            fix="Correct the path of --raw-file, or its permissions.",
        ) from error
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(
            "letters.bad_edit",
            f"{path} is not UTF-8: byte {error.start} is {data[error.start]:#04x}",
            fix="Write the row in UTF-8, whatever the encoding of the source is.",
        ) from error


def _only_id(ids: Sequence[str]) -> str:
    """Return the id of the only dead letter.

    Raises:
        ConfigError: `letters.bad_edit`: there are none, or several.
    """
    if len(ids) != 1 or not ids[0].replace("/", "").isdigit():
        raise ConfigError(
            "letters.bad_edit",
            "--raw and --raw-file are the whole row of one dead letter, and "
            f"{' '.join(ids) or 'none'} was named",
            fix="Name one: penstock dlq replay NAME 0/17 --raw TEXT. For several: --edit.",
        )
    return ids[0]


def _start_replay(
    gateway: GatewayClient, path: str, body: Mapping[str, Any], arguments: argparse.Namespace
) -> Mapping[str, Any] | None:
    """Start a replay, with `--edit` after the rows were edited. Return None when the edited file
    has no rows left.
    """
    dry_run = {"dry_run": arguments.dry_run}
    if not arguments.edit:
        return dict(gateway.send("POST", path, {**body, **dry_run}))
    preview = gateway.send("POST", path, {**body, "dry_run": True})
    rows = _editable_rows(preview)
    if not rows:
        return preview if preview["not_replayed"] else None
    with edit_rows(rows) as edits:
        if not edits:
            return None
        changed = {id_: one for id_, one in edits.items() if one}
        edited = {"ids": ",".join(edits), "set": body["set"], "edits": changed}
        return dict(gateway.send("POST", path, {**edited, **dry_run}))


def _editable_rows(preview: Mapping[str, Any]) -> dict[str, Row]:
    """Return the rows for an editor: of those that the source could not read, the text.

    Raises:
        ConfigError: `letters.too_many`.
    """
    shown = {one["id"]: one["raw"] or one["row"] for one in preview["rows"]}
    shown |= {one["id"]: one["raw"] for one in preview["reasons"] if one["raw"]}
    refused = len(parse_ids(preview["not_replayed"]))
    if preview["count"] > len(preview["rows"]) or refused > len(preview["reasons"]):
        raise ConfigError(
            "letters.too_many",
            f"{preview['count'] + refused} rows are too many for an editor",
            fix="Choose at most 100; or change all alike with --set.",
        )
    return dict(sorted(shown.items()))


def _wait_for_end(
    gateway: GatewayClient, path: str, replay: Mapping[str, Any], timeout_s: float
) -> Mapping[str, Any]:
    """Return the state of a replay that has ended.

    Raises:
        RetriableError: `letters.replay_goes_on`.
    """
    deadline = time.monotonic() + timeout_s
    bars = Progress(console=Console(stderr=True), disable=not sys.stderr.isatty())
    with no_status_line(), bars:
        bar = bars.add_task("replaying", total=replay["count"])
        while time.monotonic() < deadline:
            state: Mapping[str, Any] = gateway.get(path)
            bars.update(bar, completed=state["replayed"])
            # until this replay has started, the answer is the end of an earlier one
            if state["state"] in {"COMPLETED", "FAILED"} and state["epoch"] > replay["epoch"]:
                return state
            time.sleep(POLL_INTERVAL_S)
    name = replay["connector"]
    raise RetriableError(
        "letters.replay_goes_on",
        f"the replay {name} has not ended within {timeout_s:g} s; it goes on",
        fix=f"See `penstock connector status {name}`, or wait longer: --within.",
    )


def _start_row(replay: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "connector": replay["connector"],
        "letters": replay["count"],
        "replayed before": replay["replayed_before"] or None,
        "not replayed": replay["not_replayed"] or None,
    }


def _end_row(end: Mapping[str, Any]) -> dict[str, Any]:
    names = ("state", "replayed", "failed_again", "why")
    return {name.replace("_", " "): end[name] for name in names}
