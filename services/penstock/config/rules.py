"""The rules of connectors: what a change makes of one, and which changes are refused. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from penstock.config.records import StoredConnector
from penstock.model.config_def import check_config_size
from penstock.model.connector import Connector, ConnectorKind, RestartRequest, TargetState
from penstock.model.errors import ConfigError, RetriableError, nearest_names

MAX_NAME_LENGTH: Final = 200
"""Characters of a name. It is in every log line, label and path about the connector."""

MAX_KEPT_OFFSETS: Final = 1000
"""Deleted connectors whose offsets are kept for their namesakes (invariant 12)."""

MAX_RESTART_REQUESTS: Final = 256
"""Restart requests of a connector that are kept (invariant 12): some 20 KiB, beside 512 KiB of
configuration. More are refused, because the scheduler may not have read the oldest."""

RESTART_RETENTION_S: Final = 600.0
"""Seconds for which a restart request is kept. The scheduler accepts it within seconds; no caller
waits longer than this."""

_PATH_STEPS: Final = frozenset({".", ".."})
"""No client can request these names: in a URL they are path steps, even percent-encoded."""

_TARGET_STATES: Final = "RUNNING, PAUSED or STOPPED"


def check_name(name: str) -> None:
    """Refuse an invalid name of a connector.

    What belongs to a connector is keyed by its generation, so a name may contain `/`, spaces and
    any letter. A character that cannot be printed could forge a line of a log, or hide in a table.

    Raises:
        ConfigError: `config.name`.
    """
    is_printable = name.isprintable() and name == name.strip()
    if not 0 < len(name) <= MAX_NAME_LENGTH or not is_printable or name in _PATH_STEPS:
        raise ConfigError(
            "config.name",
            f"{name[:MAX_NAME_LENGTH]!r} cannot be the name of a connector",
            fix=f"Use 1 to {MAX_NAME_LENGTH} printable characters, without white space at the "
            "start or end.",
            config_path="name",
        )


def check_config(name: str, config: Mapping[str, str]) -> None:
    """Refuse a configuration that is too large, or names another connector. A worker checks its
    keys: only workers have the plugins.

    Raises:
        ConfigError: `config.too_large`, `config.name_mismatch`, `config.empty_key`.
    """
    check_config_size(name, config)
    if config.get("name", name) != name:
        raise ConfigError(
            "config.name_mismatch",
            f"`name` in the configuration of {name} is {config['name'][:MAX_NAME_LENGTH]!r}",
            fix=f"Leave `name` out, or set it to {name}.",
            config_path="name",
            suggestion=name,
        )
    if "" in config:
        raise ConfigError(
            "config.empty_key",
            f"the configuration of {name} has an empty key",
            fix="Remove the empty key.",
        )


def create_connector(
    existing: StoredConnector | None,
    new: Connector,
    generation: str,
    now: float,
    kept: Connector | None = None,
) -> StoredConnector:
    """Return a new connector, under `generation`; under that of `kept`, a deleted connector of its
    name, when the offsets of that are kept.

    Its versions and restart requests are counted on: the scheduler may not have seen the deletion.

    Raises:
        ConfigError: `config.exists`, `config.kept_kind`.
    """
    if existing is not None:
        raise ConfigError(
            "config.exists",
            f"a connector named {new.name} exists already",
            fix="Choose another name, or change the existing connector with PUT.",
            config_path="name",
        )
    created = replace(new, generation=generation, revision=0, version=1, restarts=())
    if kept is None:
        return StoredConnector(created, now)
    if ConnectorKind.UNSPECIFIED not in {kept.kind, new.kind} and kept.kind is not new.kind:
        raise ConfigError(
            "config.kept_kind",
            f"the kept offsets of {new.name} are those of a {kept.kind.name.lower()}, and it would "
            f"be a {new.kind.name.lower()}",
            fix=f"Purge them with `penstock offsets purge {shlex.quote(new.name)}`, or choose "
            "another name.",
            config_path="name",
        )
    created = replace(
        created,
        generation=kept.generation,
        kind=new.kind or kept.kind,
        version=kept.version + 1,
        restarts=kept.restarts,
        secret_keys=tuple(sorted({*kept.secret_keys, *new.secret_keys})),
    )
    return StoredConnector(created, now)


def check_kept_count(name: str, count: int) -> None:
    """Refuse to keep the offsets of one more connector.

    Raises:
        ConfigError: `config.too_many_kept`.
    """
    if count >= MAX_KEPT_OFFSETS:
        raise ConfigError(
            "config.too_many_kept",
            f"the offsets of {name} cannot be kept: those of {count} deleted connectors are, the "
            f"limit is {MAX_KEPT_OFFSETS}",
            fix="List them with `penstock offsets kept`, and purge those that no connector will "
            "take up with `penstock offsets purge NAME`.",
        )


def nothing_kept(name: str, others: Iterable[str]) -> ConfigError:
    """Return the error for a name without kept offsets, with similar names."""
    near = nearest_names(name, others)
    return ConfigError(
        "config.nothing_kept",
        f"no offsets are kept for {name[:200]!r}",
        fix=f"Did you mean {' or '.join(near)}?"
        if near
        else "List those that are kept with `penstock offsets kept`.",
        config_path="name",
    )


def change_config(existing: StoredConnector, new: Connector, now: float) -> StoredConnector:
    """Return a connector with a new configuration; the same object when nothing changes. A change
    of only the secret keys makes no new version.

    Raises:
        ConfigError: `config.kind_changed`: its offsets would have another meaning.
    """
    old = existing.connector
    kind = old.kind if new.kind is ConnectorKind.UNSPECIFIED else new.kind
    if old.kind not in {kind, ConnectorKind.UNSPECIFIED}:
        raise ConfigError(
            "config.kind_changed",
            f"{old.name} is a {old.kind.name.lower()} and cannot become a {kind.name.lower()}",
            fix="Delete it and create it again, or choose another name.",
        )
    # earlier versions are shown, too, and may have had other plugins
    secret_keys = tuple(sorted({*old.secret_keys, *new.secret_keys}))
    if dict(old.config) == dict(new.config) and old.kind is kind:
        if secret_keys == tuple(sorted(old.secret_keys)):
            return existing
        return replace(existing, connector=replace(old, secret_keys=secret_keys))
    version = old.version + 1
    changed = replace(old, config=new.config, kind=kind, version=version, secret_keys=secret_keys)
    return replace(existing, connector=changed, updated_at=now)


def patch_config(
    existing: StoredConnector, settings: Mapping[str, str], removed: Collection[str]
) -> Connector:
    """Return a connector with single keys set and removed.

    Raises:
        ConfigError: `config.patch_twice`: a key is set and removed.
    """
    twice = sorted(settings.keys() & set(removed))
    if twice:
        raise ConfigError(
            "config.patch_twice",
            f"the patch both sets and removes `{twice[0]}`",
            fix="Either set the key or remove it.",
            config_path=twice[0],
        )
    kept = {k: v for k, v in existing.connector.config.items() if k not in removed}
    return replace(existing.connector, config={**kept, **settings})


def add_restart_request(
    existing: StoredConnector, request: RestartRequest, now: float
) -> StoredConnector:
    """Return a connector with one more restart request. Its marker is the next number.

    Raises:
        ConfigError: `config.restart_task`: the task does not belong to this generation.
        RetriableError: `config.too_many_restarts`.
    """
    connector = existing.connector
    if request.task_id and not _is_task_of(request.task_id, connector.generation):
        raise ConfigError(
            "config.restart_task",
            f"{request.task_id[:100]!r} is not a task of {connector.name}",
            fix=f"Name a task as its status does: {connector.generation}-<number>.",
        )
    requests = connector.restarts
    marker = requests[-1].marker + 1 if requests else 1
    recent = [one for one in requests if one.requested_at > now - RESTART_RETENTION_S]
    if len(recent) >= MAX_RESTART_REQUESTS:
        raise RetriableError(
            "config.too_many_restarts",
            f"{len(recent)} restarts of {connector.name} were requested in "
            f"{RESTART_RETENTION_S:g} s, the limit is {MAX_RESTART_REQUESTS}",
            fix="Restart the connector with its tasks, by one request.",
            retry_after_s=RESTART_RETENTION_S,
        )
    restarts = (*recent, replace(request, marker=marker, requested_at=now))
    return replace(existing, connector=replace(connector, restarts=restarts))


def change_target_state(
    existing: StoredConnector, state: TargetState, now: float
) -> StoredConnector:
    """Return a connector with a target state; the same object when it has it already."""
    if existing.connector.target_state is state:
        return existing
    connector = replace(existing.connector, target_state=state)
    return replace(existing, connector=connector, updated_at=now)


def check_target_state(number: int, *, may_be_unset: bool) -> None:
    """Refuse a number that is not a target state; 0 (unset) only if it `may_be_unset`.

    Raises:
        ConfigError: `config.target_state`.
    """
    if number not in frozenset(map(int, TargetState)) or (not number and not may_be_unset):
        raise ConfigError(
            "config.target_state",
            f"{number} is not a target state" if number else "the target state is missing",
            fix=f"Use {_TARGET_STATES}.",
        )


def check_revision(existing: StoredConnector, expected: int) -> None:
    """Refuse a write that is based on an older state; 0 expects nothing.

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


def _is_task_of(task_id: str, generation: str) -> bool:
    number = task_id.removeprefix(f"{generation}-")
    return number != task_id and number.isascii() and number.isdigit()


def not_found(name: str, existing: Iterable[str]) -> ConfigError:
    """Return the error for a connector that does not exist, with similar names."""
    near = nearest_names(name, existing)
    return ConfigError(
        "config.not_found",
        f"no connector named {name[:200]!r} exists",
        fix=f"Did you mean {' or '.join(near)}?" if near else "List the connectors that exist.",
        config_path="name",
    )
