"""`penstock connector …`: connectors of a cluster, through its gateway."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from penstock.cli.errors import FAILED, MISUSED
from penstock.cli.remote.asking import Server, path
from penstock.cli.remote.nouns import CONNECTOR, Noun
from penstock.cli.remote.showing import cell, show, table
from penstock.cli.remote.steering import reconfigure
from penstock.model.errors import ConfigError, PenstockError
from penstock.pipeline_files.connector_file import STEERED, read_connector, state_of

_FILE: Final = "properties, YAML or JSON"


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the options of the noun."""
    noun = Noun(parser)
    noun.verb("list", "all connectors, and how they are", _list)
    noun.verb("get", "a connector with its configuration", _get, name=CONNECTOR)
    noun.verb(
        "status", "how it and its tasks are; 1 when something has failed", _status, name=CONNECTOR
    )
    noun.verb("topics", "the topics that it has rows of", _topics, name=CONNECTOR).add_argument(
        "--reset", action="store_true", help="forget them; they are noted anew"
    )
    _add_changes(noun)
    for name in ("pause", "resume", "stop"):
        noun.verb(name, f"{name} a connector", partial(_steer, name), name=CONNECTOR)
    restart = noun.verb("restart", "start a connector anew", _restart, name=CONNECTOR)
    restart.add_argument("--tasks", action="store_true", help="its tasks, too")
    restart.add_argument("--failed", action="store_true", help="only what has failed")
    restart.add_argument("--task", type=int, metavar="N", help="only this one of its tasks")
    _add_checks(noun.verb("check", "check a file, and reach what it names", _check))
    noun.verb("revisions", "the versions of a configuration", _revisions, name=CONNECTOR)
    diff = noun.verb("diff", "what differs between two versions", _diff, name=CONNECTOR)
    diff.add_argument("before", type=int, help="number of the one")
    diff.add_argument("after", type=int, nargs="?", default=0, help="of the other; else the newest")
    back = noun.verb(
        "rollback", "make a new version out of an earlier one", _rollback, name=CONNECTOR
    )
    back.add_argument("version", type=int, help="number of the earlier one")
    noun.verb("plugins", "what workers have installed", _plugins).add_argument(
        "plugin", nargs="?", default="", help="show the keys of this one"
    )


def _add_changes(noun: Noun) -> None:
    made = noun.verb("create", "make a connector out of a file", _create)
    made.add_argument("file", type=Path, help=_FILE)
    made.add_argument(
        "--target-state", type=str.upper, choices=tuple(STEERED), help="state it begins in"
    )
    put = noun.verb("put", "make a connector, or give it another configuration", _put)
    put.add_argument("file", type=Path, help=_FILE)
    put.add_argument("--revision", type=int, default=0, help="the one that the change is made from")
    patch = noun.verb(
        "set", "set single keys: KEY=VALUE, and KEY= to take one away", _set, name=CONNECTOR
    )
    patch.add_argument("pairs", nargs="+", metavar="KEY=VALUE", help="keys with their values")
    delete = noun.verb("delete", "delete a connector", _delete, name=CONNECTOR)
    delete.add_argument("--offsets", action="store_true", help="its offsets, too; stop it first")


def _add_checks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help=_FILE)
    parser.add_argument(
        "--rows", type=int, default=0, help="show what so many rows of its source become"
    )


def _list(server: Server, arguments: argparse.Namespace) -> int:
    found = server.get("/connectors", expand="status")
    rows = [_row(name, one["status"]) for name, one in sorted(found.items())]
    if not rows:
        print("there are no connectors", file=sys.stderr)
    show(arguments.output, rows, rows)
    return 0


def _get(server: Server, arguments: argparse.Namespace) -> int:
    found = server.get(path("v1", "connectors", arguments.name))
    rows = [{"key": key, "value": value} for key, value in sorted(found["config"].items())]
    show(arguments.output, found, rows)
    return 0


def _status(server: Server, arguments: argparse.Namespace) -> int:
    found = server.get(path("connectors", arguments.name, "status"))
    own = {"task": "-", **found["connector"]}
    tasks = [{"task": task.pop("id"), **task} for task in (dict(t) for t in found["tasks"])]
    show(arguments.output, found, [own, *tasks])
    states = [found["connector"]["state"], *(task["state"] for task in found["tasks"])]
    return FAILED if "FAILED" in states else 0


def _create(server: Server, arguments: argparse.Namespace) -> int:
    name, config, state = _file(arguments.file)
    body: dict[str, Any] = {"name": name, "config": config}
    if arguments.target_state or state:
        body["initial_state"] = arguments.target_state or state
    return _shown(arguments, server.send("POST", "/connectors", body))


def _put(server: Server, arguments: argparse.Namespace) -> int:
    name, config, state = _file(arguments.file)
    if state and _is_new(server, name):
        # a configuration alone would run, until it is steered
        body = {"name": name, "config": config, "initial_state": state}
        return _shown(arguments, server.send("POST", "/connectors", body))
    return _shown(arguments, reconfigure(server, name, config, state, arguments.revision))


def _is_new(server: Server, name: str) -> bool:
    try:
        server.get(path("connectors", name, "config"))
    except PenstockError as error:
        if error.code != "config.not_found":
            raise
        return True
    return False


def _set(server: Server, arguments: argparse.Namespace) -> int:
    changes: dict[str, str | None] = {}
    for pair in arguments.pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise ConfigError(
                "config.wrong_type", f"{pair!r} is not KEY=VALUE", fix="Write tasks.max=2."
            )
        changes[key] = value or None
    where = path("connectors", arguments.name, "config")
    return _shown(arguments, server.send("PATCH", where, changes))


def _delete(server: Server, arguments: argparse.Namespace) -> int:
    query = {"offsets": "delete"} if arguments.offsets else None
    server.send("DELETE", path("connectors", arguments.name), query=query)
    return _done(arguments, "delete")


def _steer(doing: str, server: Server, arguments: argparse.Namespace) -> int:
    server.send("PUT", path("connectors", arguments.name, doing))
    return _done(arguments, doing)


def _restart(server: Server, arguments: argparse.Namespace) -> int:
    if arguments.task is not None:
        number = str(arguments.task)
        server.send("POST", path("connectors", arguments.name, "tasks", number, "restart"))
        return _done(arguments, "restart")
    asked = {"includeTasks": arguments.tasks, "onlyFailed": arguments.failed}
    query = {key: json.dumps(value) for key, value in asked.items()}
    server.send("POST", path("connectors", arguments.name, "restart"), query=query)
    return _done(arguments, "restart")


def _done(arguments: argparse.Namespace, what: str) -> int:
    show(arguments.output, {"name": arguments.name, "done": what}, [])  # a person sees the prompt
    return 0


def _check(server: Server, arguments: argparse.Namespace) -> int:
    name, config, _ = _file(arguments.file)
    body = {"name": name, "config": config}
    found = server.send("POST", "/v1/connectors/validate", body)
    wrong = [one for one in found["findings"] if one["severity"] == "error"]
    steps = [] if wrong else list(server.lines("POST", "/v1/connectors/check", body))
    columns = ("severity", "code", "config_path", "message", "fix")
    rows = [{key: one.get(key, "") for key in columns} for one in found["findings"]]
    rows += [
        {
            "severity": "ok" if step["ok"] else "error",
            "code": f"{step['end']}.{step['step']}",
            "config_path": "",
            "message": "; ".join(one["message"] for one in step["findings"]),
            "fix": "; ".join(one["fix"] for one in step["findings"] if one.get("fix")),
        }
        for step in steps
    ]
    good = not wrong and all(step["ok"] for step in steps)
    became: dict[str, Any] = {}
    if good and arguments.rows:
        became = server.send("POST", "/v1/connectors/rehearse", body | {"sample": arguments.rows})
    show(arguments.output, {**found, "steps": steps, **became}, rows)
    if became and arguments.output == "table":
        print(f"\n{cell(became['dataset'])}")
        table(became["rows"])
    return MISUSED if wrong else 0 if good else FAILED


def _revisions(server: Server, arguments: argparse.Namespace) -> int:
    found = server.get(path("v1", "connectors", arguments.name, "revisions"))
    show(arguments.output, found, found["revisions"])
    return 0


def _diff(server: Server, arguments: argparse.Namespace) -> int:
    where = path("v1", "connectors", arguments.name, "diff")
    found = server.get(where, **{"from": arguments.before, "to": arguments.after})
    show(arguments.output, found, found["differences"])
    return 0


def _rollback(server: Server, arguments: argparse.Namespace) -> int:
    where = path("v1", "connectors", arguments.name, "rollback")
    return _shown(arguments, server.send("POST", where, {"version": arguments.version}))


def _topics(server: Server, arguments: argparse.Namespace) -> int:
    if arguments.reset:
        server.send("PUT", path("connectors", arguments.name, "topics", "reset"))
        return _done(arguments, "reset")
    found = server.get(path("connectors", arguments.name, "topics"))
    rows = [{"topic": topic} for topic in found[arguments.name]["topics"]]
    show(arguments.output, found, rows)
    return 0


def _plugins(server: Server, arguments: argparse.Namespace) -> int:
    if arguments.plugin:
        found = server.get(path("connector-plugins", arguments.plugin, "config"))
    else:
        found = server.get("/connector-plugins")
    show(arguments.output, found, found)
    return 0


def _file(file: Path) -> tuple[str, dict[str, str], str]:
    one = read_connector(file)
    return one.name, dict(one.config), state_of(one)


def _row(name: str, status: Mapping[str, Any]) -> dict[str, Any]:
    tasks = [task["state"] for task in status["tasks"]]
    counts = {state: tasks.count(state) for state in dict.fromkeys(tasks)}
    shown = ", ".join(f"{count} {state}" for state, count in counts.items())
    return {
        "name": name,
        "type": status["type"],
        "state": status["connector"]["state"],
        "tasks": shown or "none",
        "worker": status["connector"]["worker_id"] or None,
    }


def _shown(arguments: argparse.Namespace, stored: Mapping[str, Any]) -> int:
    name = {"name": stored["name"], "kind": stored.get("type") or stored.get("kind")}
    show(arguments.output, stored, [name])
    return 0
