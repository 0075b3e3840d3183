"""`penstock dlq …`: list, show, correct and replay the dead letters of a connector."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml
from rich.console import Console
from rich.progress import Progress

from penstock.cli.errors import EXIT_FAILED
from penstock.cli.gateway_client import GatewayClient, url_path
from penstock.cli.gateway_options import CONNECTOR, NounParser
from penstock.cli.output import print_table, print_value
from penstock.cli.progress import no_status_line
from penstock.model.errors import ConfigError, RetriableError
from penstock.pipeline_files.files import ValueDumper, parse_json, read_values

_STAGES: Final = ("read", "transform", "write")

POLL_INTERVAL_S: Final = 0.5
"""Time between two requests for the state of a replay."""

_FILE_HEADER: Final = """# Change the rows of these dead letters, then save the file and quit the
# editor. Rows that you do not change are replayed as they are. Dead letters that
# you delete from this file are not replayed; of an empty file none is.
"""


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
    replay = noun.add_verb(
        "replay", "send the rows of dead letters through the connector again, each once", _replay,
        connector=CONNECTOR,
    )  # fmt: skip
    _describe_replay(replay)


def _describe_replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="0/17, or 0/17-20 for four of them")
    _add_filters(parser)
    parser.add_argument("--all", action="store_true", help="all that were not replayed yet")
    parser.add_argument(
        "--set", action="append", default=[], metavar="COLUMN=VALUE",
        help="set a column in all rows; the value is JSON, else text; null removes the column",
    )  # fmt: skip
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--edit", action="store_true", help="change the rows in your editor")
    source.add_argument(
        "--edits", type=Path, metavar="FILE", help="YAML or JSON: 0/17: {column: value}"
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
    if arguments.edits is not None:
        body["edits"] = read_edits(arguments.edits)
    replay = _start_replay(gateway, path, body, arguments)
    if replay is None:
        print("nothing replayed", file=sys.stderr)
        if arguments.output != "table":
            print_value(arguments.output, {"connector": arguments.connector, "count": 0})
        return 0
    if arguments.dry_run:
        rows = [{"id": one["id"], "row": one["row"]} for one in replay["rows"]]
        print_value(arguments.output, replay, rows)
        return 0
    if arguments.no_wait or not replay["count"]:
        print_value(arguments.output, replay, [_start_row(replay)])
        if replay["without_row"] and not replay["count"]:
            print(
                "nothing replayed: these dead letters have no row that could be, only the bytes "
                "that could not be read. Correct them at the source.",
                file=sys.stderr,
            )
            return EXIT_FAILED
        return 0
    end = _wait_for_end(gateway, path, replay, arguments.within)
    print_value(arguments.output, {**replay, **end}, [{**_start_row(replay), **_end_row(end)}])
    return EXIT_FAILED if end["state"] == "FAILED" or end["failed_again"] else 0


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
    if preview["count"] > len(preview["rows"]):
        raise ConfigError(
            "letters.too_many",
            f"{preview['count']} rows are too many for an editor",
            fix=f"Choose at most {len(preview['rows'])}; or change all alike with --set.",
        )
    if not preview["rows"]:
        return None
    with edit_rows({one["id"]: one["row"] for one in preview["rows"]}) as edits:
        if not edits:
            return None
        edited = {"ids": ",".join(edits), "set": body["set"], "edits": edits}
        return dict(gateway.send("POST", path, {**edited, **dry_run}))


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
        "without row": replay["without_row"] or None,
    }


def _end_row(end: Mapping[str, Any]) -> dict[str, Any]:
    names = ("state", "replayed", "failed_again", "why")
    return {name.replace("_", " "): end[name] for name in names}


def parse_assignments(pairs: Sequence[str]) -> dict[str, Any]:
    """Return the columns of COLUMN=VALUE pairs; a value is JSON, else text.

    Raises:
        ConfigError: `letters.bad_edit`.
    """
    columns: dict[str, Any] = {}
    for pair in pairs:
        column, sign, value = pair.partition("=")
        if not sign or not column:
            raise ConfigError(
                "letters.bad_edit", f"{pair!r} is not COLUMN=VALUE", fix="Write amount=12."
            )
        try:
            columns[column] = parse_json(value)
        except ValueError:
            columns[column] = value
    return columns


def read_edits(path: Path) -> dict[str, Any]:
    """Return the changed columns of a YAML or JSON file, by dead letter.

    Raises:
        ConfigError: `config.file_*`, `letters.bad_edit`.
    """
    return _by_dead_letter(read_values(path), str(path))


@contextmanager
def edit_rows(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, dict[str, Any]]]:
    """Open rows in the editor of `VISUAL` or `EDITOR`; yield the changed columns by dead letter.
    A dead letter that was deleted from the file is missing. When the block fails, the file is kept
    and named, so that no edit is lost.

    Raises:
        ConfigError: `editor.failed`, `config.file_*`, `letters.bad_edit`.
    """
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    file = folder / "letters.yaml"
    text = yaml.dump(dict(rows), Dumper=ValueDumper, sort_keys=False, allow_unicode=True)
    file.write_text(_FILE_HEADER + text, encoding="utf-8")
    try:
        _run_editor(file)
        edited = _read_edited(file)
        yield {
            dead_letter: changed_columns(rows.get(dead_letter, {}), row)
            for dead_letter, row in edited.items()
        }
    except BaseException:
        hint = "name the dead letters and replay with --edits FILE"
        print(f"Your edits are kept in {file}: {hint}", file=sys.stderr)
        raise
    shutil.rmtree(folder)


def changed_columns(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns whose values differ; a removed column is null."""
    removed = {column: None for column in before if column not in after}
    return {**{c: v for c, v in after.items() if c not in before or before[c] != v}, **removed}


def _run_editor(file: Path) -> None:
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    try:
        subprocess.run([*editor, str(file)], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ConfigError(
            "editor.failed",
            f"the editor {editor[0]} failed: {error}",
            fix="Name an editor in EDITOR, or write the changes into a file: --edits.",
        ) from error


def _read_edited(file: Path) -> dict[str, Any]:
    """Return the rows of an edited file; none of an empty one, which is how users cancel."""
    lines = file.read_bytes().splitlines()
    if all(not line.strip() or line.lstrip().startswith(b"#") for line in lines):
        return {}
    return _by_dead_letter(read_values(file), str(file))


def _by_dead_letter(document: Mapping[str, Any], place: str) -> dict[str, Any]:
    for dead_letter, columns in document.items():
        if not isinstance(dead_letter, str) or not isinstance(columns, dict):
            raise ConfigError(
                "letters.bad_edit",
                f"{place}: {str(dead_letter)[:100]} has no columns",
                fix="Write the columns to change below each id: `0/17: {amount: 12}`.",
            )
    return dict(document)
