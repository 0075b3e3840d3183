"""What a connector becomes, and what is refused. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from penstock.config.stored import Stored
from penstock.model import faults
from penstock.model.connector import Connector, ConnectorKind, TargetState
from penstock.model.errors import ConfigError, nearest

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""A name is part of keys, file names, metric labels and log lines: what any of those would have to
escape is not in it."""

MOST_KEYS: Final = 5_000
MOST_BYTES: Final = 1 << 20
"""Bounds of one configuration (invariant 12)."""


def check_name(name: str) -> None:
    """Refuse a name that is not one.

    Raises:
        ConfigError: `config.name`.
    """
    if not NAME.fullmatch(name):
        raise ConfigError(
            "config.name",
            f"{name[:200]!r} cannot be the name of a connector",
            fix="Use up to 128 letters, digits, dots, dashes and underscores; begin with a letter "
            "or a digit.",
            config_path="name",
        )


def check_config(name: str, config: Mapping[str, str]) -> None:
    """Refuse a configuration that is too large or names another connector. Its keys are the
    worker's to judge: it has the plugin.

    Raises:
        ConfigError: `config.too_large`, `config.name_mismatch`, `config.empty_key`.
    """
    size = sum(len(key.encode()) + len(value.encode()) for key, value in config.items())
    if len(config) > MOST_KEYS or size > MOST_BYTES:
        raise ConfigError(
            "config.too_large",
            f"the configuration of {name} has {len(config)} keys and {size} bytes",
            fix=f"Stay within {MOST_KEYS} keys and {MOST_BYTES} bytes; put large texts into files.",
        )
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
    return Stored(replace(wanted, generation=generation, revision=0), now)


def changed(existing: Stored, wanted: Connector, now: float) -> Stored:
    """Return a connector with a new configuration; the same object when nothing is new.

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
    if dict(old.config) == dict(wanted.config) and old.kind is kind:
        return existing
    return Stored(replace(old, config=wanted.config, kind=kind), now)


def targeted(existing: Stored, state: TargetState, now: float) -> Stored:
    """Return a connector with a wanted state; the same object when it has it already."""
    if existing.connector.target_state is state:
        return existing
    return Stored(replace(existing.connector, target_state=state), now)


def check_revision(existing: Stored, expected: int) -> None:
    """Refuse a write that was made from an older state; 0 expects nothing.

    Raises:
        ConfigError: `config.revision_changed`.
    """
    current = existing.connector.revision
    if expected not in {0, current}:
        raise ConfigError(
            "config.revision_changed",
            f"{existing.connector.name} is at revision {current}, not {expected}",
            fix="Read it again, and repeat the change.",
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


def not_found(name: str, existing: Iterable[str]) -> ConfigError:
    """Return the error for a connector that is not there, with the names that look like it."""
    near = nearest(name, existing)
    return ConfigError(
        "config.not_found",
        f"there is no connector named {name[:200]!r}",
        fix=f"Did you mean {' or '.join(near)}?" if near else "List the connectors that exist.",
        config_path="name",
    )
