"""`penstock plan FOLDER`, `penstock apply FOLDER`: connectors as files, made so in a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from penstock.cli.errors import FAILED
from penstock.cli.remote import options
from penstock.cli.remote.asking import Server, path
from penstock.cli.remote.changes import Change, Compared, Doing, Wanted, change_of, deleted, ordered
from penstock.cli.remote.showing import show
from penstock.model.errors import ConfigError
from penstock.standalone.files import read_document, read_flat
from penstock.standalone.pipeline import pipeline_of

ENDINGS: Final = (".yaml", ".yml", ".json", ".properties")
STATES: Final = ("RUNNING", "PAUSED", "STOPPED")
_STEERED: Final = {"RUNNING": "resume", "PAUSED": "pause", "STOPPED": "stop"}


def describe(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("folder", type=Path, help="folder of files, or one file")
    parser.add_argument(
        "--prune", action="store_true", help="delete connectors that no file has, too"
    )
    options.add(parser)
    parser.set_defaults(verb=partial(_run, carry_out=name == "apply"))


def _run(arguments: argparse.Namespace, *, carry_out: bool) -> int:
    wanted = list(files(arguments.folder))
    with options.server(arguments) as server:
        changes = ordered(_changes(server, wanted, prune=arguments.prune))
        rows = [_row(change) for change in changes]
        show(arguments.output, rows, rows)
        wrong = any(change.errors for change in changes)
        if carry_out and not wrong:
            for change in changes:
                _carry_out(server, change)
    return FAILED if wrong else 0


def files(folder: Path) -> Iterator[Wanted]:
    """Yield the connectors of a folder, or of one file, in order of path.

    Raises:
        ConfigError: a file cannot be read; two have one name; there is none.
    """
    found = [folder] if folder.is_file() else sorted(folder.rglob("*"))
    named: dict[str, Path] = {}
    for file in found:
        if file.suffix not in ENDINGS or not file.is_file():
            continue
        one = read(file)
        if one.name in named:
            raise ConfigError(
                "config.duplicate_name",
                f"{named[one.name]} and {file} are both named {one.name}",
                fix="Give every connector a name of its own.",
                config_path="name",
            )
        named[one.name] = file
        yield one
    if not named:
        raise ConfigError(
            "apply.no_files",
            f"there is no file of a connector in {folder}",
            fix=f"Their names end with {', '.join(ENDINGS)}.",
        )


def read(file: Path) -> Wanted:
    """Return the connector of a file: its keys, and `state` beside them.

    Raises:
        ConfigError: `config.file_…`, or `apply.state`.
    """
    document: dict[str, Any] = {}
    if file.suffix != ".properties":
        document = read_document(file)
    if {"source", "sink"} <= document.keys():
        state = document.pop("state", "")
        config = dict(pipeline_of(document, file.stem).config)
    else:
        config = read_flat(file)
        state = config.pop("state", "")
    if state not in {"", *STATES}:
        raise ConfigError(
            "apply.state", f"{file}: {state!r} is no state", fix=f"Valid: {', '.join(STATES)}."
        )
    config.setdefault("name", file.stem)
    return Wanted(config["name"], config, state, str(file))


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
        server.send("PUT", f"{where}/{_STEERED[change.state]}")


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
