"""What a file of keys says, of a service or of `penstock standalone`, looked at piece by piece."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from penstock.cli.looks.found import Found, folder, refused
from penstock.cli.looks.listeners import listeners
from penstock.cli.looks.members import members
from penstock.cli.looks.reach import reach
from penstock.cluster import keys as cluster
from penstock.cluster.keys import written
from penstock.model.config_def import ConfigKey, read
from penstock.model.errors import ConfigError, error_of
from penstock.pipeline_files.files import read_flat
from penstock.plugin import Registry
from penstock.standalone import settings as standalone
from penstock.telemetry import Secret
from penstock.worker.config.reach import REACH

_ALL: Final[dict[str, ConfigKey]] = {
    key.name: key
    for keys in (standalone.KEYS, *cluster.KEYS.values())
    for key in keys
}  # fmt: skip


def configured(file: Path) -> tuple[list[Found], Collection[str]]:
    """Return what was found of what a file and the variables of the environment say, and the names
    of the keys that they say. A file says of whom it is by its keys: those of all are known.

    Raises:
        ConfigError: `config.file_…`.
    """
    said = {**read_flat(file), **written(_ALL.values(), os.environ)}
    told = {
        key: value
        for key, value in said.items()
        if key in _ALL or not key.startswith((*cluster.OPEN, *standalone.IGNORED))
    }
    is_service = not told.keys().isdisjoint(key.name for key in cluster.COMMON)
    own = {} if is_service else {key.name: key for key in standalone.KEYS}  # of other defaults
    values, errors = read((_ALL | own).values(), told)
    found = [refused(f"key {error.diagnostic.config_path}", error) for error in errors]
    wrong = {error.diagnostic.config_path for error in errors}
    values = {key: _hidden(key, value) for key, value in values.items()}
    for names, look in _LOOKS:
        if not names.isdisjoint(told) and names.isdisjoint(wrong):
            found += look(values)
    if REACH not in wrong:
        found += reach(values[REACH], said)
    return found, told.keys()


def _hidden(key: str, value: Any) -> Any:
    return Secret(str(value)) if _ALL[key].type == "password" and value else value  # invariant 9


def _folders(values: Mapping[str, Any]) -> Iterator[Found]:
    if values["state.dir"]:
        yield folder("state", Path(values["state.dir"]), "state.dir")
    elif values["offset.storage.file.filename"]:
        file = Path(values["offset.storage.file.filename"])
        yield folder("state", file.parent, "offset.storage.file.filename")
    if values["topics.dir"] and "://" not in values["topics.dir"]:
        yield folder("topics", Path(values["topics.dir"]), "topics.dir")


def _plugins(values: Mapping[str, Any]) -> Iterator[Found]:
    paths, sealed = map(Path, values["plugin.path"]), values["plugin.only.sealed"]
    registry = Registry.load(paths, builtin=False, only_sealed=sealed)
    for problem in registry.problems:
        yield refused("plugin", error_of(problem), "plugin.path")
    for one in registry.manifests:
        try:
            program = one.remote.address if one.remote else one.argv()[0]
        except ConfigError as error:
            yield refused(f"plugin {one.name}", error)
            continue
        yield Found(f"plugin {one.name}", ok=True, found=f"{one.version}, {program}")


_LOOKS: Final[tuple[tuple[frozenset[str], Callable[[Mapping[str, Any]], Any]], ...]] = (
    (frozenset(name for name in _ALL if name.startswith("etcd.")), members),
    (
        frozenset(name for name in _ALL if name.startswith(("listeners", "admin.", "listener."))),
        listeners,
    ),
    (frozenset({"state.dir", "topics.dir", "offset.storage.file.filename"}), _folders),
    (frozenset({"plugin.path", "plugin.only.sealed"}), _plugins),
)
"""Looks, each with the keys that it is for: taken when one of them is said, and none is wrong."""
