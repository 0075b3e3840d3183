"""`penstock connector …`: connectors of a cluster, through its gateway."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from penstock.cli.errors import EXIT_FAILED, EXIT_USAGE
from penstock.cli.gateway_client import GatewayClient, url_path
from penstock.cli.gateway_options import CONNECTOR, NounParser
from penstock.cli.output import print_value
from penstock.cli.preview import Preview
from penstock.cli.signals import add_signal
from penstock.connector_config.plain_secrets import find_plain_secrets
from penstock.model.errors import ConfigError, Diagnostic, PenstockError
from penstock.pipeline_files.connector_file import TARGET_STATES, read_connector, target_state_name
from penstock.pipeline_files.files import FILE_SUFFIXES

_FILE: Final = "properties, YAML or JSON"


def describe(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the verbs of the noun."""
    noun = NounParser(parser)
    noun.add_verb("list", "all connectors with their states", _list)
    noun.add_verb("get", "a connector with its configuration", _get, name=CONNECTOR)
    noun.add_verb(
        "status",
        "state of a connector and its tasks; ends with 1 when one has failed",
        _status,
        name=CONNECTOR,
    )
    topics = noun.add_verb("topics", "topics that it reads or writes", _topics, name=CONNECTOR)
    topics.add_argument("--reset", action="store_true", help="forget them; tracking starts anew")
    _describe_changes(noun)
    for name in ("pause", "resume", "stop"):
        noun.add_verb(name, f"{name} a connector", partial(_set_state, name), name=CONNECTOR)
    restart = noun.add_verb("restart", "restart a connector", _restart, name=CONNECTOR)
    restart.add_argument("--tasks", action="store_true", help="restart its tasks, too")
    restart.add_argument("--failed", action="store_true", help="restart only what has failed")
    restart.add_argument("--task", type=int, metavar="N", help="restart only this task")
    add_signal(noun)
    check = noun.add_verb("check", "check a file, and connect to the systems it names", _check)
    check.add_argument("file", type=Path, help=_FILE)
    check.add_argument(
        "--rows", type=int, default=0, help="preview so many rows of its source, transformed"
    )
    discover = noun.add_verb(
        "discover", "list what a source can read, such as tables, with their columns", _discover
    )
    discover.add_argument(
        "connector", metavar="FILE|NAME", help=f"file ({_FILE}), or name of a connector"
    )
    discover.add_argument(
        "--limit", type=int, default=None, help="list at most so many (default: 1000)"
    )
    noun.add_verb("revisions", "versions of a configuration", _revisions, name=CONNECTOR)
    diff = noun.add_verb("diff", "differences of two versions", _diff, name=CONNECTOR)
    diff.add_argument("before", type=int, help="number of the earlier version")
    diff.add_argument(
        "after", type=int, nargs="?", default=0, help="number of the later one (default: newest)"
    )
    rollback = noun.add_verb(
        "rollback", "store an earlier version as the newest", _rollback, name=CONNECTOR
    )
    rollback.add_argument("version", type=int, help="number of the earlier version")
    plugins = noun.add_verb("plugins", "plugins that the workers have installed", _plugins)
    plugins.add_argument("plugin", nargs="?", default="", help="list the keys of this plugin")


def _describe_changes(noun: NounParser) -> None:
    create = noun.add_verb("create", "create a connector from a file", _create)
    create.add_argument("file", type=Path, help=_FILE)
    create.add_argument(
        "--target-state", type=str.upper, choices=tuple(TARGET_STATES), help="its first state"
    )
    put = noun.add_verb("put", "create a connector, or replace its configuration", _put)
    put.add_argument("file", type=Path, help=_FILE)
    put.add_argument(
        "--revision", type=int, default=0, help="change only this revision (default: any)"
    )
    set_keys = noun.add_verb(
        "set", "set single keys: KEY=VALUE, or KEY= to remove one", _set_keys, name=CONNECTOR
    )
    set_keys.add_argument("pairs", nargs="+", metavar="KEY=VALUE", help="keys with their values")
    delete = noun.add_verb("delete", "delete a connector", _delete, name=CONNECTOR)
    offsets = delete.add_mutually_exclusive_group()
    offsets.add_argument(
        "--offsets", action="store_true", help="delete its offsets, too; stop it first"
    )
    offsets.add_argument(
        "--keep-offsets", action="store_true", help="the next connector of this name takes them up"
    )


_COMPLETED: Final = "COMPLETED"
_CONNECTING: Final = "CONNECTING"


def _list(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    connectors = gateway.get("/connectors", expand="status")
    own = {one["name"]: one for one in gateway.get("/v1/status")["connectors"]}
    statuses = {name: one["status"] for name, one in sorted(connectors.items())}
    rows = [
        _list_row(name, _with_own_states(status, own.get(name)))
        for name, status in statuses.items()
    ]
    if not rows:
        print("there are no connectors", file=sys.stderr)
    print_value(arguments.output, rows, rows)
    return 0


def _with_own_states(status: dict[str, Any], own: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a status of Kafka Connect, where nothing ever completes or connects, with what is
    completed, and what connects.
    """
    if own is None:
        return status
    states = {one["id"]: one["state"] for one in own["tasks"]}
    words = {"RUNNING": _COMPLETED, "UNASSIGNED": _CONNECTING}
    tasks = [
        {**one, "state": states[one["id"]]}
        if one["state"] in words and words[one["state"]] == states.get(one["id"])
        else one
        for one in status["tasks"]
    ]
    is_completed = own["state"] == _COMPLETED and status["connector"]["state"] == "RUNNING"
    connector = status["connector"] | ({"state": _COMPLETED} if is_completed else {})
    return {**status, "connector": connector, "tasks": tasks}


def _list_row(name: str, status: Mapping[str, Any]) -> dict[str, Any]:
    states = [task["state"] for task in status["tasks"]]
    tasks = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    return {
        "name": name,
        "type": status["type"],
        "state": status["connector"]["state"],
        "tasks": tasks or "none",
        "worker": status["connector"]["worker_id"] or None,
        "why": _first_line(status),
    }


_MAX_WHY: Final = 80
"""Characters of a reason in a list; `connector status` has all of it."""


def _first_line(status: Mapping[str, Any]) -> str | None:
    """Return why a connector or one of its tasks does not run."""
    traces = (one.get("trace") for one in (status["connector"], *status["tasks"]))
    first = next((trace.splitlines()[0] for trace in traces if trace), None)
    return first if first is None or len(first) <= _MAX_WHY else f"{first[: _MAX_WHY - 1]}…"


def _get(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    connector = gateway.get(url_path("v1", "connectors", arguments.name))
    rows = [{"key": key, "value": value} for key, value in sorted(connector["config"].items())]
    print_value(arguments.output, connector, rows)
    return 0


def _status(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    status = gateway.get(url_path("connectors", arguments.name, "status"))
    numbers = gateway.get("/v1/status", connector=arguments.name)["connectors"]
    status = _with_own_states(status, numbers[0] if numbers else None)
    own = {"task": "-", **status["connector"]}
    busy = {task["id"]: task.get("busy_with") for one in numbers for task in one["tasks"]}
    tasks = [
        {"task": task["id"], **{key: text for key, text in task.items() if key != "id"}}
        | {"busy_with": busy.get(task["id"])}
        for task in status["tasks"]
    ]
    print_value(arguments.output, status, [own, *tasks])
    states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
    return EXIT_FAILED if "FAILED" in states else 0


def _create(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    name, config, state = _read_file(arguments.file)
    body: dict[str, Any] = {"name": name, "config": config}
    if arguments.target_state or state:
        body["initial_state"] = arguments.target_state or state
    return _print_stored(arguments, gateway.send("POST", "/connectors", body))


def _put(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    name, config, state = _read_file(arguments.file)
    if state and _is_new(gateway, name):
        # with its configuration alone it would run until it gets its state
        body = {"name": name, "config": config, "initial_state": state}
        return _print_stored(arguments, gateway.send("POST", "/connectors", body))
    return _print_stored(arguments, gateway.put_config(name, config, state, arguments.revision))


def _is_new(gateway: GatewayClient, name: str) -> bool:
    try:
        gateway.get(url_path("connectors", name, "config"))
    except PenstockError as error:
        if error.code != "config.not_found":
            raise
        return True
    return False


def _set_keys(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    changes: dict[str, str | None] = {}
    for pair in arguments.pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise ConfigError(
                "config.wrong_type", f"{pair!r} is not KEY=VALUE", fix="Write tasks.max=2."
            )
        changes[key] = value or None
    path = url_path("connectors", arguments.name, "config")
    return _print_stored(arguments, gateway.send("PATCH", path, changes))


def _delete(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    wanted = "delete" if arguments.offsets else "keep" if arguments.keep_offsets else ""
    query = {"offsets": wanted} if wanted else None
    gateway.send("DELETE", url_path("connectors", arguments.name), query=query)
    return _print_done(arguments, "delete")


def _set_state(verb: str, gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    gateway.send("PUT", url_path("connectors", arguments.name, verb))
    return _print_done(arguments, verb)


def _restart(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    if arguments.task is not None:
        number = str(arguments.task)
        gateway.send("POST", url_path("connectors", arguments.name, "tasks", number, "restart"))
        return _print_done(arguments, "restart")
    flags = {"includeTasks": arguments.tasks, "onlyFailed": arguments.failed}
    query = {key: json.dumps(value) for key, value in flags.items()}
    gateway.send("POST", url_path("connectors", arguments.name, "restart"), query=query)
    return _print_done(arguments, "restart")


def _check(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    name, config, _ = _read_file(arguments.file)
    body = {"name": name, "config": config}
    validation = gateway.send("POST", "/v1/connectors/validate", body)
    validation["findings"] += map(_finding, find_plain_secrets(config))
    errors = [one for one in validation["findings"] if one["severity"] == "error"]
    steps = [] if errors else list(gateway.stream("POST", "/v1/connectors/check", body))
    columns = ("severity", "code", "config_path", "message", "fix")
    rows = [{key: one.get(key, "") for key in columns} for one in validation["findings"]]
    rows += [_step_row(step) for step in steps]
    passed = not errors and all(step["ok"] for step in steps)
    preview: dict[str, Any] = {}
    if passed and arguments.rows:
        body |= {"sample": arguments.rows}
        preview = gateway.send("POST", "/v1/connectors/rehearse", body)
    print_value(arguments.output, {**validation, "steps": steps, **preview}, rows)
    if preview:
        shown = Preview.of_body(preview)
        if arguments.output == "table":
            shown.print_rows()
        shown.print_left_out()
    return EXIT_USAGE if errors else 0 if passed else EXIT_FAILED


def _finding(found: Diagnostic) -> dict[str, str]:
    """Return a finding as the gateway sends them."""
    return {
        "severity": found.severity.name.lower(),
        "code": found.code,
        "message": found.message,
        "fix": found.fix,
        "config_path": found.config_path,
    }


def _step_row(step: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "severity": "ok" if step["ok"] else "error",
        "code": f"{step['end']}.{step['step']}",
        "config_path": "",
        "message": "; ".join(one["message"] for one in step["findings"]),
        "fix": "; ".join(one["fix"] for one in step["findings"] if one.get("fix")),
    }


def _discover(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    body = _named_connector(gateway, arguments.connector)
    if arguments.limit is not None:
        body["limit"] = arguments.limit
    lines = list(gateway.stream("POST", "/v1/connectors/datasets", body))
    datasets = [line for line in lines if "name" in line]
    print_value(arguments.output, datasets, [_dataset_row(one) for one in datasets])
    if not datasets:
        print("the source has no datasets", file=sys.stderr)
    if len(datasets) < len(lines):
        print(f"there are more than {len(datasets)}: list them with --limit", file=sys.stderr)
    return 0


def _named_connector(gateway: GatewayClient, file_or_name: str) -> dict[str, Any]:
    """Return the name and configuration of a file, or of a connector of the cluster, whose redacted
    secrets the gateway reads as those that it stores.
    """
    file = Path(file_or_name)
    if file.is_file() or file.suffix in FILE_SUFFIXES:
        name, config, _ = _read_file(file)
        return {"name": name, "config": config}
    found = gateway.get(url_path("v1", "connectors", file_or_name))
    return {"name": found["name"], "config": found["config"]}


def _dataset_row(dataset: Mapping[str, Any]) -> dict[str, Any]:
    columns = [
        f"{one['name']} {one['type']}{' key' if one['key'] else ''}" for one in dataset["columns"]
    ]
    problem = dataset["problem"]
    return {
        "name": dataset["name"],
        "dataset": dataset["dataset"] or None,
        "selected": dataset["selected"],
        "columns": f"not known: {problem['message']}" if problem else columns or "not known",
    }


def _revisions(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    found = gateway.get(url_path("v1", "connectors", arguments.name, "revisions"))
    print_value(arguments.output, found, found["revisions"])
    return 0


def _diff(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    path = url_path("v1", "connectors", arguments.name, "diff")
    found = gateway.get(path, **{"from": arguments.before, "to": arguments.after})
    print_value(arguments.output, found, found["differences"])
    return 0


def _rollback(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    path = url_path("v1", "connectors", arguments.name, "rollback")
    return _print_stored(arguments, gateway.send("POST", path, {"version": arguments.version}))


def _topics(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    if arguments.reset:
        gateway.send("PUT", url_path("connectors", arguments.name, "topics", "reset"))
        return _print_done(arguments, "reset")
    found = gateway.get(url_path("connectors", arguments.name, "topics"))
    rows = [{"topic": topic} for topic in found[arguments.name]["topics"]]
    print_value(arguments.output, found, rows)
    return 0


def _plugins(gateway: GatewayClient, arguments: argparse.Namespace) -> int:
    if arguments.plugin:
        found = gateway.get(url_path("connector-plugins", arguments.plugin, "config"))
    else:
        found = gateway.get("/connector-plugins")
    print_value(arguments.output, found, found)
    return 0


def _read_file(file: Path) -> tuple[str, dict[str, str], str]:
    """Return the name, the configuration and the state of a file."""
    connector = read_connector(file)
    return connector.name, dict(connector.config), target_state_name(connector)


def _print_done(arguments: argparse.Namespace, verb: str) -> int:
    # as a table nothing is printed: the user sees the prompt
    print_value(arguments.output, {"name": arguments.name, "done": verb}, [])
    return 0


def _print_stored(arguments: argparse.Namespace, stored: Mapping[str, Any]) -> int:
    row = {"name": stored["name"], "kind": stored.get("type") or stored.get("kind")}
    print_value(arguments.output, stored, [row])
    return 0
