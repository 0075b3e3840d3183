"""`penstock plan FOLDER`, `penstock apply FOLDER`: make a cluster's connectors match their files.

`plan_change` decides, without I/O, what each connector needs. The gateway compares: it knows which
differences of a configuration matter.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from penstock.cli.connector_files import DesiredConnector, read_desired_connectors
from penstock.cli.errors import EXIT_CHANGES, EXIT_USAGE, print_diagnostic, with_connector_name
from penstock.cli.gateway_client import GatewayClient, url_path
from penstock.cli.gateway_options import add_gateway_options, connect_gateway
from penstock.cli.output import print_value
from penstock.cli.progress import status_line
from penstock.model.errors import Diagnostic, ErrorClass, PenstockError, Severity

_FAILED: Final = "failed"


class Action(Enum):
    """What is done to a connector, in the order of `apply`: what stops comes before what starts.

    REFUSE: the cluster refuses the file, so nothing is applied.
    """

    DELETE = "delete"
    UPDATE = "update"
    STATE = "state"
    CREATE = "create"
    REFUSE = "refused"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class CurrentConnector:
    """A connector as the cluster has it, compared with its file. Without one, `revision` is 0."""

    revision: int = 0
    state: str = ""
    tasks: int = 0
    differences: Sequence[Mapping[str, Any]] = ()
    errors: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """The action that a connector needs, and what that does to its tasks, in words."""

    action: Action
    name: str
    tasks: str = ""
    revision: int = 0
    state: str = ""
    desired: DesiredConnector | None = None
    differences: Sequence[Mapping[str, Any]] = ()
    errors: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[Mapping[str, Any]] = ()


def describe(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the options of the verb."""
    parser.add_argument("folder", type=Path, help="folder of files, or one file")
    parser.add_argument(
        "--prune", action="store_true", help="delete the connectors that have no file, too"
    )
    add_gateway_options(parser)
    if name == "apply":
        parser.set_defaults(verb=_apply)
        return
    parser.add_argument(
        "--exit-code", action="store_true", help=f"end with {EXIT_CHANGES} when there are changes"
    )
    parser.set_defaults(verb=_plan)


def _plan(arguments: argparse.Namespace) -> int:
    desired = list(read_desired_connectors(arguments.folder))
    with connect_gateway(arguments) as gateway:
        changes = _plan_changes(gateway, desired, prune=arguments.prune)
    _print_changes(arguments.output, changes)
    if _print_findings(changes):
        return EXIT_USAGE
    has_changes = any(change.action is not Action.NOTHING for change in changes)
    return EXIT_CHANGES if has_changes and arguments.exit_code else 0


def _apply(arguments: argparse.Namespace) -> int:
    desired = list(read_desired_connectors(arguments.folder))
    with connect_gateway(arguments) as gateway:
        changes = _plan_changes(gateway, desired, prune=arguments.prune)
        if _print_findings(changes):
            _print_changes(arguments.output, changes, {})
            return EXIT_USAGE
        results: dict[str, str] = {}
        try:
            for change in changes:
                results[change.name] = _FAILED
                with status_line(f"{change.action.value}: {change.name}"):
                    _apply_change(gateway, change)
                results[change.name] = "done"
        except PenstockError as error:
            raise with_connector_name(error, change.name) from error
        finally:  # the user sees what was done, also after a failure
            _print_changes(arguments.output, changes, results)
    return 0


def plan_change(desired: DesiredConnector, current: CurrentConnector) -> Change:
    """Return the change that makes a connector match its file."""
    state = desired.state if desired.state not in {"", current.state} else ""
    if current.errors:
        return Change(
            Action.REFUSE,
            desired.name,
            revision=current.revision,
            desired=desired,
            differences=current.differences,
            errors=current.errors,
        )
    is_written = not current.revision or bool(current.differences)
    if not current.revision:
        state = desired.state or "RUNNING"
        action, tasks = Action.CREATE, _tasks_of_start(desired) if state == "RUNNING" else "none"
    elif current.differences:
        action, tasks = Action.UPDATE, _tasks_of_update(desired, current, state)
    elif state:
        action, tasks = Action.STATE, _tasks_of_state(desired, state, current.tasks)
    else:
        action, tasks = Action.NOTHING, ""
    return Change(
        action,
        desired.name,
        tasks,
        current.revision,
        state,
        desired,
        current.differences,
        warnings=current.warnings if is_written else (),
    )


def plan_deletion(name: str, tasks: int) -> Change:
    """Return the change that deletes a connector without a file."""
    return Change(Action.DELETE, name, f"{tasks} stop" if tasks else "none")


def order_changes(changes: Iterable[Change]) -> list[Change]:
    """Return changes in the order of `apply`: by action, then by name."""
    order = list(Action)
    return sorted(changes, key=lambda change: (order.index(change.action), change.name))


def _tasks_of_update(desired: DesiredConnector, current: CurrentConnector, state: str) -> str:
    """Return what a new configuration, and a new state if there is one, does to the tasks."""
    new_state = state or current.state
    if new_state == "STOPPED":
        return _tasks_of_state(desired, state, current.tasks) if state else "none"
    if not current.tasks:
        return _tasks_of_start(desired) if new_state == "RUNNING" else "none"
    restarts = f"{current.tasks} restart"
    if any(one["key"] == "tasks.max" for one in current.differences):
        restarts = f"{current.tasks} stop, {_tasks_of_start(desired)}"
    return f"{restarts}, paused" if new_state == "PAUSED" else restarts


def _tasks_of_start(desired: DesiredConnector) -> str:
    return f"up to {desired.config.get('tasks.max', '1')} start"


def _tasks_of_state(desired: DesiredConnector, state: str, tasks: int) -> str:
    if state == "RUNNING":
        return f"{tasks} resume" if tasks else _tasks_of_start(desired)
    word = {"PAUSED": "pause", "STOPPED": "stop"}[state]
    return f"{tasks} {word}" if tasks else "none"


def _plan_changes(
    gateway: GatewayClient, desired: list[DesiredConnector], *, prune: bool
) -> list[Change]:
    with status_line(f"comparing {len(desired)} connectors with the cluster's"):
        return order_changes(_compare(gateway, desired, prune=prune))


def _compare(
    gateway: GatewayClient, desired: list[DesiredConnector], *, prune: bool
) -> Iterator[Change]:
    statuses = gateway.get("/connectors", expand="status")
    tasks = {name: len(one["status"]["tasks"]) for name, one in statuses.items()}
    for connector in desired:
        body = {"name": connector.name, "config": dict(connector.config)}
        comparison = gateway.send("POST", "/v1/connectors/compare", body)
        current = CurrentConnector(
            comparison["revision"],
            comparison["target_state"],
            tasks.get(connector.name, 0),
            comparison["differences"],
            [finding for finding in comparison["findings"] if finding["severity"] == "error"],
            [finding for finding in comparison["findings"] if finding["severity"] == "warning"],
        )
        yield plan_change(connector, current)
    if prune:
        for name in sorted(statuses.keys() - {connector.name for connector in desired}):
            yield plan_deletion(name, tasks[name])


def _apply_change(gateway: GatewayClient, change: Change) -> None:
    if change.action is Action.DELETE:
        gateway.send("DELETE", url_path("connectors", change.name))
        return
    if change.desired is None or change.action is Action.NOTHING:
        return
    config = dict(change.desired.config)
    if change.action is Action.CREATE:
        body = {"name": change.name, "config": config, "initial_state": change.state}
        gateway.send("POST", "/connectors", body)
        return
    if change.action is Action.UPDATE:
        gateway.put_config(change.name, config, change.state, change.revision)
    elif change.state:
        gateway.set_state(change.name, change.state)


def _print_findings(changes: Sequence[Change]) -> bool:
    """Print the errors of all files, and the warnings of those that are written; return whether
    there are errors.
    """
    for change in changes:
        for finding in (*change.errors, *change.warnings):
            is_error = finding["severity"] == "error"
            print_diagnostic(
                Diagnostic(
                    finding["code"],
                    f"{change.name}: {finding['message']}",
                    ErrorClass.CONFIG,
                    Severity.ERROR if is_error else Severity.WARNING,
                    fix=finding.get("fix", ""),
                    config_path=finding.get("config_path", ""),
                )
            )
    return any(change.errors for change in changes)


def _print_changes(
    output: str, changes: Sequence[Change], results: Mapping[str, str] | None = None
) -> None:
    values = [_value(change) for change in changes]
    if results is not None:
        for value in values:
            value["result"] = results.get(value["connector"], "not tried")
    rows = [{**value, "keys": list(map(_difference_text, value["keys"]))} for value in values]
    for row in rows:
        row.pop("errors", None)  # `_print_findings` prints them
    print_value(output, values, rows)


def _value(change: Change) -> dict[str, Any]:
    value = {
        "what": change.action.value,
        "connector": change.name,
        "state": change.state or None,
        "tasks": change.tasks or None,
        "keys": list(change.differences) if change.revision else [],
    }
    return value | ({"errors": list(change.errors)} if change.errors else {})


def _difference_text(difference: Mapping[str, Any]) -> str:
    before, after = (_quoted(difference[side]) for side in ("before", "after"))
    return f"{difference['key']}: {before} -> {after}"


def _quoted(value: str | None) -> str:
    return "(none)" if value is None else repr(value)
