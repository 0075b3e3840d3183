"""The settings of a standalone node: its keys, Kafka Connect's worker keys, and its folders."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from penstock.gateway.settings import KEYS as GATEWAY_KEYS
from penstock.model.config_def import ConfigKey, combine_errors, parse_with_errors
from penstock.model.errors import ConfigError, Diagnostic
from penstock.plugin.catalog.registry import find_plugin_folders
from penstock.standalone.connect_keys import is_connect_key, is_met, unused_keys, with_own_names
from penstock.worker import process_keys
from penstock.worker.config.broker_topics import is_used
from penstock.worker.process_settings import WorkerSettings, read_worker_settings

KEYS: Final = (
    ConfigKey("state.dir", doc="Folder of all state: offsets, connectors, topics."),
    ConfigKey("offset.storage.file.filename", doc="Kafka Connect's key; it sets the state folder."),
    *GATEWAY_KEYS,
    *process_keys.KEYS,
)

STATE_FILE: Final = "state.db"
"""File in the state folder with connectors, offsets and plans."""

_LISTENERS: Final = frozenset({"listeners", "listeners.rocketmq"})

_NAMES: Final = frozenset(key.name for key in KEYS)


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The settings of a node. `rest` are the values of the gateway's keys. `has_listeners`: the
    file sets the address of the REST API.
    """

    state_dir: Path
    worker: WorkerSettings
    rest: Mapping[str, Any]
    has_listeners: bool


def node_settings(
    config: Mapping[str, str], folders: Mapping[str, tuple[str, ...]] = MappingProxyType({})
) -> tuple[NodeSettings, list[Diagnostic]]:
    """Return the settings of a worker file, and warnings about keys without effect. `folders` are
    keys with lists of folders, whose names may have any character.

    Raises:
        ConfigError: a key is misspelt or has a wrong value.
    """
    config = with_own_names(config)
    open_keys = {key for key in config if process_keys.is_open_key(key)}
    known = {key: config[key] for key in config if key in _NAMES or not is_connect_key(key)}
    known = {key: value for key, value in known.items() if key not in open_keys}
    values, errors = parse_with_errors(KEYS, known)
    if errors:
        raise combine_errors(errors)
    values.update(folders)
    state = _state_dir(values)
    worker = read_worker_settings(values, config, state / "topics")
    rest = {key.name: values[key.name] for key in GATEWAY_KEYS}
    settings = NodeSettings(state, worker, rest, bool(_LISTENERS & config.keys()))
    in_force = {
        key
        for key, value in config.items()
        if is_used(worker.brokers, key) or is_met(key, value, worker.brokers.default)
    }
    return settings, unused_keys(config, {*_NAMES, *in_force})


def pipeline_settings(
    folders: Sequence[Path],
    state_dir: Path,
    plugins: Sequence[Path] = (),
    more: Mapping[str, str] = MappingProxyType({}),
) -> NodeSettings:
    """Return the settings of a node for pipeline files that a user runs by hand.

    Args:
        folders: The folders of the files: plugins and Python functions beside them are found.
        state_dir: The folder of the state.
        plugins: Folders of plugins, instead of those beside the files.
        more: Further keys.

    References to environment variables and files are resolved: what the files may read, the user
    may read.
    """
    with_plugins = plugins or [folder for folder in folders if find_plugin_folders(folder)]
    settings, _ = node_settings(
        {
            "state.dir": str(state_dir),
            "config.providers": "env,file,dir",
            "config.providers.env.param.allowlist.pattern": ".*",
            "config.providers.file.param.allowed.paths": "/",
            "config.providers.dir.param.allowed.paths": "/",
            **more,
        },
        {
            "plugin.path": tuple(str(folder.absolute()) for folder in with_plugins),
            "functions.path": tuple(str(folder.absolute()) for folder in folders),
        },
    )
    return settings


def default_state_dir() -> Path:
    """Return the default folder of state."""
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "penstock"


_PIPELINE: Final = "pipeline"
"""File of a state folder with the path of the pipeline that it belongs to."""


def pipeline_state_dir(pipeline: Path, verb: str, name: str = "") -> Path:
    """Return a verb's state folder of a pipeline file: by its `name`, wherever the file is moved;
    without one, by the path of the file. `claim_state_dir` takes it.
    """
    if name:
        part = quote(name, safe="")
        # a name of dots alone would be another folder
        return default_state_dir() / verb / (part if part.strip(".") else part.replace(".", "%2E"))
    digest = hashlib.sha256(str(pipeline.resolve()).encode()).hexdigest()[:12]
    return default_state_dir() / verb / f"{pipeline.stem}-{digest}"


def claim_state_dir(folder: Path, pipeline: Path, *, fresh: bool = False) -> None:
    """Note in a state folder to which pipeline file it belongs; `fresh` removes what is in it.

    Raises:
        ConfigError: `pipeline.name_taken`: to another one, which is still there;
            `state.not_writable`.
    """
    path, owner = pipeline.resolve(), folder / _PIPELINE
    if owner.is_file():
        other = Path(owner.read_text(encoding="utf-8"))
        if other != path and other.is_file():
            raise _name_taken(path, other)
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
    prepare_folder(folder)
    owner.write_text(str(path), encoding="utf-8")


def _name_taken(path: Path, other: Path) -> ConfigError:
    return ConfigError(
        "pipeline.name_taken",
        f"{path} has the name of {other}, and would go on from the offsets of that",
        fix="Give one of them another `name`; or name a folder of its own with `--state`.",
        config_path="name",
    )


def _state_dir(values: Mapping[str, str]) -> Path:
    if values["state.dir"]:
        return Path(values["state.dir"]).absolute()
    if values["offset.storage.file.filename"]:
        return Path(values["offset.storage.file.filename"] + ".penstock").absolute()
    return default_state_dir() / "standalone"


def prepare_folder(path: Path) -> None:
    """Create a state folder, private to its owner.

    Raises:
        ConfigError: `state.not_writable`.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            "state.not_writable",
            f"the state folder {path} cannot be created: {error.strerror}",
            fix="Choose another folder: `state.dir`, or `--state` of `run` and `dev`.",
            config_path="state.dir",
        ) from error


PREFIX: Final = "penstock-"
"""Prefix of scratch folders in the system's folder for temporary files. It is short, because the
path of a socket has at most 107 bytes.
"""

_LOCK: Final = "alive"


@contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """Yield a private folder for sockets and Spark's scratch files, and remove it at the end, with
    the folders of processes that were killed.

    A process holds a lock in its folder as long as it lives, however it ends: a folder whose lock
    is free belongs to no process.
    """
    parent = parent or Path(tempfile.gettempdir())
    _remove_orphans(parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    new = folder / f"{_LOCK}.new"
    lock = os.open(new, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        new.rename(folder / _LOCK)  # other processes never see it unlocked
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _remove_orphans(parent: Path) -> None:
    for folder in parent.glob(f"{PREFIX}*"):
        # a folder without the file is being created, or is no scratch folder
        with suppress(OSError):
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
