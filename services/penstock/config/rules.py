"""What a connector becomes, and what is refused. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from penstock.config.stored import Stored
from penstock.model import faults
from penstock.model.config_size import check_size
from penstock.model.connector import Connector, ConnectorKind, Restart, TargetState
from penstock.model.errors import ConfigError, RetriableError, nearest

LONGEST_NAME: Final = 200
"""Characters of a name: it is in every log line, label and path that is about the connector."""

MOST_RESTARTS: Final = 256
"""Requests to restart that are kept of a connector (invariant 12): some 20 KiB, beside 512 of its
configuration. More at once are refused, since the scheduler may not have seen the oldest."""

RESTART_KEPT: Final = 600.0
"""Seconds that a request to restart is kept. The scheduler acts within seconds; nobody waits longer
than this."""

_STEPS: Final = frozenset({".", ".."})
"""No client can ask for these: in a URL they are steps, also percent-encoded."""

_STATES: Final = "RUNNING, PAUSED or STOPPED"


def check_name(name: str) -> None:
    """Refuse a name that is not one. It is text to everybody: what belongs to a connector is keyed
    by its generation, so a name may hold `/`, spaces and any letter. What cannot be printed could
    forge a line of a log, or hide in a table.

    Raises:
        ConfigError: `config.name`.
    """
    fits = 0 < len(name) <= LONGEST_NAME and name.isprintable() and name == name.strip()
    if not fits or name in _STEPS:
        raise ConfigError(
            "config.name",
            f"{name[:LONGEST_NAME]!r} cannot be the name of a connector",
            fix=f"Use up to {LONGEST_NAME} characters that can be printed, without white space at "
            "either end.",
            config_path="name",
        )


def check_config(name: str, config: Mapping[str, str]) -> None:
    """Refuse a configuration that is too large or names another connector. Its keys are the
    worker's to judge: it has the plugin.

    Raises:
        ConfigError: `config.too_large`, `config.name_mismatch`, `config.empty_key`.
    """
    check_size(name, config)
    if config.get("name", name) != name:
        raise ConfigError(
            "config.name_mismatch",
            f"the configuration of {name} names another connector",
            fix=f"Leave `name` out, or set it to {name}.",
            config_path="name",
            suggestion=name,
        )
    if "" in config:
        raise ConfigError("config.empty_key", f"a key of {name} is empty", fix="Remove it.")


def created(existing: Stored | None, wanted: Connector, generation: str, now: float) -> Stored:
    """Return a new connector.

    Raises:
        ConfigError: `config.exists`.
    """
    if existing is not None:
        raise ConfigError(
            "config.exists",
            f"a connector named {wanted.name} exists",
            fix="Choose another name, or put a new configuration.",
            config_path="name",
        )
    made = replace(wanted, generation=generation, revision=0, version=1, restarts=())
    return Stored(made, now)


def changed(existing: Stored, wanted: Connector, now: float) -> Stored:
    """Return a connector with a new configuration; the same object when nothing is new. Secret keys
    that were not known alone make no new version.

    Raises:
        ConfigError: `config.kind_changed`: its offsets would mean something else.
    """
    old = existing.connector
    kind = old.kind if wanted.kind is ConnectorKind.UNSPECIFIED else wanted.kind
    if old.kind not in {kind, ConnectorKind.UNSPECIFIED}:
        raise ConfigError(
            "config.kind_changed",
            f"{old.name} is a {old.kind.name.lower()}, and cannot become a {kind.name.lower()}",
            fix="Delete it and create it again, or choose another name.",
        )
    # earlier versions are shown, too, and may have had other plugins
    secret_keys = tuple(sorted({*old.secret_keys, *wanted.secret_keys}))
    if dict(old.config) == dict(wanted.config) and old.kind is kind:
        if secret_keys == tuple(sorted(old.secret_keys)):
            return existing
        return replace(existing, connector=replace(old, secret_keys=secret_keys))
    version = old.version + 1
    new = replace(old, config=wanted.config, kind=kind, version=version, secret_keys=secret_keys)
    return replace(existing, connector=new, updated_at=now)


def patched(existing: Stored, settings: Mapping[str, str], removed: Collection[str]) -> Connector:
    """Return the connector that is wanted when single keys are set and removed.

    Raises:
        ConfigError: `config.patch_twice`: a key is set and removed.
    """
    twice = sorted(settings.keys() & set(removed))
    if twice:
        raise ConfigError(
            "config.patch_twice",
            f"`{twice[0]}` is both set and removed",
            fix="Do one of both.",
            config_path=twice[0],
        )
    kept = {k: v for k, v in existing.connector.config.items() if k not in removed}
    return replace(existing.connector, config={**kept, **settings})


def restarted(existing: Stored, request: Restart, now: float) -> Stored:
    """Return a connector with a request to restart more; its marker is newer than all before.

    Raises:
        ConfigError: `config.restart_task`: the task is not one of this generation.
        RetriableError: `config.too_many_restarts`.
    """
    connector = existing.connector
    if request.task_id and not _is_task(request.task_id, connector.generation):
        raise ConfigError(
            "config.restart_task",
            f"{request.task_id[:100]!r} is no task of {connector.name}",
            fix=f"Name a task as its status does: {connector.generation}-<number>.",
        )
    kept = connector.restarts
    marker = kept[-1].marker + 1 if kept else 1
    young = [one for one in kept if one.requested_at > now - RESTART_KEPT]
    if len(young) >= MOST_RESTARTS:
        raise RetriableError(
            "config.too_many_restarts",
            f"{len(young)} restarts of {connector.name} were asked for in {RESTART_KEPT:g} s",
            fix="Restart the connector with its tasks, by one request.",
            retry_after=RESTART_KEPT,
        )
    restarts = (*young, replace(request, marker=marker, requested_at=now))
    return replace(existing, connector=replace(connector, restarts=restarts))


def targeted(existing: Stored, state: TargetState, now: float) -> Stored:
    """Return a connector with a wanted state; the same object when it has it already."""
    if existing.connector.target_state is state:
        return existing
    return replace(
        existing, connector=replace(existing.connector, target_state=state), updated_at=now
    )


def check_target_state(number: int, *, unset: bool) -> None:
    """Refuse a state that is none; `unset` may be left out.

    Raises:
        ConfigError: `config.target_state`.
    """
    if number not in frozenset(map(int, TargetState)) or (not number and not unset):
        raise ConfigError(
            "config.target_state",
            f"{number} is no target state" if number else "no target state is named",
            fix=f"Name {_STATES}.",
        )


def check_revision(existing: Stored, expected: int) -> None:
    """Refuse a write that was made from an older state; 0 expects nothing.

    Raises:
        ConfigError: `config.revision_changed`; its suggestion is the current revision.
    """
    current = existing.connector.revision
    if expected not in {0, current}:
        raise ConfigError(
            "config.revision_changed",
            f"{existing.connector.name} is at revision {current}, not {expected}",
            fix=f"Read it again, and repeat the change with revision {current}.",
            suggestion=str(current),
        )


def check_generation(existing: Stored, generation: str) -> None:
    """Refuse what is meant for a deleted namesake (invariant 10).

    Raises:
        ConfigError: `config.generation_changed`.
    """
    current = existing.connector.generation
    if generation != current and not faults.hit("config.generation_check"):
        raise ConfigError(
            "config.generation_changed",
            f"{existing.connector.name} was made again: its generation is {current}, "
            f"not {generation[:64]}",
            fix="Read the connector again, and plan anew.",
        )


def _is_task(task_id: str, generation: str) -> bool:
    number = task_id.removeprefix(f"{generation}-")
    return number != task_id and number.isascii() and number.isdigit()


def not_found(name: str, existing: Iterable[str]) -> ConfigError:
    """Return the error for a connector that is not there, with the names that look like it."""
    near = nearest(name, existing)
    return ConfigError(
        "config.not_found",
        f"there is no connector named {name[:200]!r}",
        fix=f"Did you mean {' or '.join(near)}?" if near else "List the connectors that exist.",
        config_path="name",
    )
