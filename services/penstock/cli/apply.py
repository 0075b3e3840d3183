"""`penstock plan FOLDER`, `penstock apply FOLDER`: connectors as files, made so in a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from penstock.cli.errors import FAILED
from penstock.cli.remote import options
from penstock.cli.remote.asking import Server, path
from penstock.cli.remote.changes import Change, Compared, Doing, Wanted, change_of, deleted, ordered
from penstock.cli.remote.showing import show
from penstock.cli.wanted import wanted_of
from penstock.standalone.connector_file import STEERED


def describe(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("folder", type=Path, help="folder of files, or one file")
    parser.add_argument(
        "--prune", action="store_true", help="delete connectors that no file has, too"
    )
    options.add(parser)
    parser.set_defaults(verb=partial(_run, carry_out=name == "apply"))


def _run(arguments: argparse.Namespace, *, carry_out: bool) -> int:
    wanted = list(wanted_of(arguments.folder))
    with options.server(arguments) as server:
        changes = ordered(_changes(server, wanted, prune=arguments.prune))
        rows = [_row(change) for change in changes]
        show(arguments.output, rows, rows)
        wrong = any(change.errors for change in changes)
        if carry_out and not wrong:
            for change in changes:
                _carry_out(server, change)
    return FAILED if wrong else 0


def _changes(server: Server, wanted: list[Wanted], *, prune: bool) -> Iterator[Change]:
    statuses = server.get("/connectors", expand="status")
    tasks = {name: len(one["status"]["tasks"]) for name, one in statuses.items()}
    for one in wanted:
        found = server.send(
            "POST", "/v1/connectors/compare", {"name": one.name, "config": dict(one.config)}
        )
        now = Compared(
            found["revision"],
            found["target_state"],
            tasks.get(one.name, 0),
            found["differences"],
            [f["message"] for f in found["findings"] if f["severity"] == "error"],
        )
        yield change_of(one, now)
    if prune:
        for name in sorted(statuses.keys() - {one.name for one in wanted}):
            yield deleted(name, tasks[name])


def _carry_out(server: Server, change: Change) -> None:
    where = path("connectors", change.name)
    if change.doing is Doing.DELETE:
        server.send("DELETE", where)
        return
    if change.wanted is None or change.doing is Doing.NOTHING:
        return
    config = dict(change.wanted.config)
    if change.doing is Doing.CREATE:
        body = {"name": change.name, "config": config, "initial_state": change.state}
        server.send("POST", "/connectors", body)
        return
    if change.doing is Doing.UPDATE:
        server.send("PUT", f"{where}/config", config, revision=change.revision)
    if change.state:
        server.send("PUT", f"{where}/{STEERED[change.state]}")


def _row(change: Change) -> dict[str, Any]:
    keys = [
        f"{one['key']}: {_side(one['before'])} -> {_side(one['after'])}"
        for one in change.differences
    ]
    row = {
        "what": change.doing.value,
        "connector": change.name,
        "state": change.state or None,
        "tasks": change.tasks or None,
        "keys": keys if change.revision else None,
    }
    return row | ({"errors": list(change.errors)} if change.errors else {})


def _side(value: str | None) -> str:
    return "(none)" if value is None else repr(value)
