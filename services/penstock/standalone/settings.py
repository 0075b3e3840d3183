"""The worker's own keys, and Kafka Connect's worker keys that mean something here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.gateway.settings import KEYS as OF_THE_GATEWAY
from penstock.model.config_def import ConfigKey, combined, read
from penstock.model.errors import ConfigError, Diagnostic, ErrorClass, Severity
from penstock.worker import process_keys
from penstock.worker.process_settings import MachineSettings, machine_settings

KEYS: Final = (
    ConfigKey("state.dir", doc="Folder of all state: offsets, connectors, topics."),
    ConfigKey("offset.storage.file.filename", doc="Kafka Connect's: names the state folder."),
    *OF_THE_GATEWAY,
    *process_keys.KEYS,
)

IGNORED: Final = (
    "bootstrap.servers", "key.converter", "value.converter", "header.converter",
    "offset.flush.", "internal.", "producer.", "consumer.", "admin.",
    "rest.", "group.id", "config.storage.", "offset.storage.",
    "status.storage.", "plugin.discovery",
)  # fmt: skip
"""Kafka Connect's worker keys that load and have no effect in standalone mode."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Where a node keeps its state and what it runs with. `rest` are the values of the gateway's
    keys; `placed` tells whether the file says where the REST API is.
    """

    state_dir: Path
    machine: MachineSettings
    rest: Mapping[str, Any]
    placed: bool


def node_settings(config: Mapping[str, str]) -> tuple[NodeSettings, list[Diagnostic]]:
    """Return the settings of a worker file, and warnings about keys without effect.

    Raises:
        ConfigError: a key is misspelt or has a wrong value.
    """
    ours = {k: v for k, v in config.items() if _is_ours(k) and not k.startswith(process_keys.OPEN)}
    values, errors = read(KEYS, ours)
    if errors:
        raise combined(errors)
    state = _state_dir(values)
    runs_with = machine_settings(values, config, state / "topics")
    rest = {key.name: values[key.name] for key in OF_THE_GATEWAY}
    settings = NodeSettings(state, runs_with, rest, "listeners" in config)
    return settings, [_no_effect(key) for key in sorted(config) if not _is_ours(key)]


def default_state_dir() -> Path:
    """Return where state is kept when nothing else is said."""
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "penstock"


def _is_ours(key: str) -> bool:
    return key in {k.name for k in KEYS} or not key.startswith(IGNORED)


def _state_dir(values: Mapping[str, str]) -> Path:
    if values["state.dir"]:
        return Path(values["state.dir"]).absolute()
    if values["offset.storage.file.filename"]:
        return Path(values["offset.storage.file.filename"] + ".penstock").absolute()
    return default_state_dir() / "standalone"


def _no_effect(key: str) -> Diagnostic:
    what = "topics are embedded: no broker is asked" if key == "bootstrap.servers" else "no effect"
    return Diagnostic(
        "config.not_here_yet",
        f"`{key}` is known from Kafka Connect and is not used in standalone mode ({what})",
        ErrorClass.CONFIG,
        Severity.WARNING,
        fix="Remove it, or leave it: it does no harm.",
        config_path=key,
    )


def prepare_folder(path: Path) -> None:
    """Make a state folder, private to its owner.

    Raises:
        ConfigError: `state.not_writable`.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            "state.not_writable",
            f"the state folder {path} cannot be made: {error.strerror}",
            fix="Choose another folder with `state.dir`.",
            config_path="state.dir",
        ) from error
