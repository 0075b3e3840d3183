"""`penstock plan FOLDER`, `penstock apply FOLDER`: connectors as files, made so in a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from penstock.cli.errors import CHANGES, MISUSED, named, print_diagnostic
from penstock.cli.remote import options
from penstock.cli.remote.asking import Server, path
from penstock.cli.remote.changes import Change, Compared, Doing, Wanted, change_of, deleted, ordered
from penstock.cli.remote.showing import show
from penstock.cli.remote.steering import reconfigure, steer
from penstock.cli.waiting import waiting
from penstock.cli.wanted import wanted_of
from penstock.model.errors import Diagnostic, ErrorClass, PenstockError

_FAILED: Final = "failed"


def describe(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("folder", type=Path, help="folder of files, or one file")
    parser.add_argument(
        "--prune", action="store_true", help="delete connectors that no file has, too"
    )
    options.add(parser)
    if name == "apply":
        parser.set_defaults(verb=_apply)
        return
    parser.add_argument(
        "--exit-code", action="store_true", help=f"end with {CHANGES} when something is to be done"
    )
    parser.set_defaults(verb=_plan)


def _plan(arguments: argparse.Namespace) -> int:
    wanted = list(wanted_of(arguments.folder))
    with options.server(arguments) as server:
        changes = _compared(server, wanted, prune=arguments.prune)
    _show(arguments.output, changes)
    if _told(changes):
        return MISUSED
    todo = any(change.doing is not Doing.NOTHING for change in changes)
    return CHANGES if todo and arguments.exit_code else 0


def _apply(arguments: argparse.Namespace) -> int:
    wanted = list(wanted_of(arguments.folder))
    with options.server(arguments) as server:
        changes = _compared(server, wanted, prune=arguments.prune)
        if _told(changes):
            _show(arguments.output, changes)
            return MISUSED
        results: dict[str, str] = {}
        try:
            for change in changes:
                results[change.name] = _FAILED
                with waiting(f"{change.doing.value}: {change.name}"):
                    _carry_out(server, change)
                results[change.name] = "done"
        except PenstockError as error:
            raise named(error, change.name) from error
        finally:  # what was done is told, also when the rest was not
            _show(arguments.output, changes, results)
    return 0


def _told(changes: Sequence[Change]) -> bool:
    """Say what is wrong with files; false when nothing is."""
    for change in changes:
        for found in change.errors:
            print_diagnostic(
                Diagnostic(
                    found["code"],
                    f"{change.name}: {found['message']}",
                    ErrorClass.CONFIG,
                    fix=found.get("fix", ""),
                    config_path=found.get("config_path", ""),
                )
            )
    return any(change.errors for change in changes)


def _show(output: str, changes: Sequence[Change], results: Mapping[str, str] | None = None) -> None:
    values = [_value(change) for change in changes]
    if results is not None:
        for value in values:
            value["result"] = results.get(value["connector"], "not tried")
    rows = [{**value, "keys": list(map(_sentence, value["keys"]))} for value in values]
    for row in rows:
        row.pop("errors", None)  # they are told on their own
    show(output, values, rows)


def _compared(server: Server, wanted: list[Wanted], *, prune: bool) -> list[Change]:
    with waiting(f"comparing {len(wanted)} connectors with the cluster's"):
        return ordered(_changes(server, wanted, prune=prune))


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
            [one for one in found["findings"] if one["severity"] == "error"],
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
        reconfigure(server, change.name, config, change.state, change.revision)
    elif change.state:
        steer(server, change.name, change.state)


def _value(change: Change) -> dict[str, Any]:
    value = {
        "what": change.doing.value,
        "connector": change.name,
        "state": change.state or None,
        "tasks": change.tasks or None,
        "keys": list(change.differences) if change.revision else [],
    }
    return value | ({"errors": list(change.errors)} if change.errors else {})


def _sentence(key: Mapping[str, Any]) -> str:
    return f"{key['key']}: {_side(key['before'])} -> {_side(key['after'])}"


def _side(value: str | None) -> str:
    return "(none)" if value is None else repr(value)
