"""The registry of installed plugins: it finds the plugin and version that serve a connector class.

`PluginPath.load` reads the plugin path again; `fingerprint_folder` detects changed files.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from penstock.model.errors import ConfigError, Diagnostic, nearest_names
from penstock.plugin.catalog import seal
from penstock.plugin.catalog.manifest import MANIFEST_FILE, ConnectorEntry, Manifest, read_manifest
from penstock.plugin.catalog.versions import Version, VersionRequirement, parse_requirement
from penstock.plugin.errors import escape_text

_log = logging.getLogger(__name__)

_IGNORED_FOLDERS: Final = frozenset(
    {"__pycache__", ".git", ".venv", "node_modules", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
)
"""Folders that tools write, or that are too large to be read often."""

_MAX_FILES: Final = 5_000
"""Files of a fingerprint, read in about 20 ms. Changes of further files are not detected."""

_SHIPPED: Final = (
    "penstock_builtin",
    "penstock_databases",
    "penstock_kafka",
    "penstock_net",
    "penstock_amqp",
    "penstock_metrics",
    "penstock_analytics",
    "penstock_messaging",
    "penstock_search",
    "penstock_rocketmq",
)
"""Packages of the plugins that are part of the product."""

_MAX_NAMED: Final = 40
VERSION_KEY: Final = "connector.plugin.version"
_Match: TypeAlias = tuple[Manifest, ConnectorEntry]


class Registry:
    """The installed plugins. Immutable: load a new one to find plugins installed since."""

    def __init__(self, manifests: Iterable[Manifest], problems: Iterable[Diagnostic] = ()) -> None:
        self.problems: tuple[Diagnostic, ...] = tuple(problems)
        """Why plugins were left out. One plugin that is left out does not affect the others."""
        self.manifests: tuple[Manifest, ...] = ()
        self._by_name: dict[str, list[_Match]] = {}
        for manifest in manifests:
            self._add(manifest)

    @staticmethod
    def load(
        path: Iterable[Path] = (), *, builtin: bool = True, only_sealed: bool = False
    ) -> Registry:
        """Read the manifests of the plugin path and of the plugins that are part of the product.

        Each folder of `path` has a plugin.toml, or has folders with one. With `only_sealed`,
        plugins without a seal are left out.
        """
        roots = list(path)
        problems = [_no_folder(root).diagnostic for root in roots if not root.is_dir()]
        manifests = []
        for folder in (folder for root in roots for folder in find_plugin_folders(root)):
            try:
                if only_sealed and not seal.is_sealed(folder):
                    raise _not_sealed(folder)
                manifests.append(with_fingerprint(read_manifest(folder)))
            except ConfigError as error:
                problems.append(error.diagnostic)
        shipped = _find_builtin() if builtin else []
        return Registry([*manifests, *map(read_manifest, shipped)], problems)

    def find(self, name: str, version: str = "") -> tuple[Manifest, ConnectorEntry]:
        """Return the plugin and the connector of a class name, an alias or `plugin/connector`, in
        the newest version that `version` allows.

        Raises:
            ConfigError: `plugin.not_installed`, `plugin.ambiguous`, `plugin.no_such_version`,
                `plugin.bad_version`.
        """
        requirement = _parse_version(version)
        found = self._by_name.get(name, [])
        if not found:
            raise self._not_installed(name)
        if len({manifest.name for manifest, _ in found}) > 1:
            raise _ambiguous(name, found)
        allowed = [match for match in found if requirement.allows(match[0].version)]
        if not allowed:
            raise _no_such_version(name, requirement, found)
        return max(allowed, key=lambda match: Version(match[0].version))

    def _add(self, manifest: Manifest) -> None:
        version = Version(manifest.version)
        for other in self.manifests:
            if other.name == manifest.name and Version(other.version) == version:
                self.problems = (*self.problems, _installed_twice(manifest, other).diagnostic)
                return
        self.manifests = (*self.manifests, manifest)
        for entry in manifest.connectors:
            for name in {*entry.names, *entry.simple_names, f"{manifest.name}/{entry.name}"}:
                self._by_name.setdefault(name, []).append((manifest, entry))

    def _not_installed(self, name: str) -> ConfigError:
        similar = nearest_names(name, self._by_name)
        installed = sorted({e.name for m in self.manifests for e in m.connectors})
        shown = ", ".join(installed[:_MAX_NAMED]) or "nothing"
        more = f" and {len(installed) - _MAX_NAMED} more" if len(installed) > _MAX_NAMED else ""
        left_out = "".join(f" Left out: {p.message}. {p.fix}" for p in self.problems[:3])
        return ConfigError(
            "plugin.not_installed",
            f"no installed plugin serves {name!r}; installed: {shown}{more}.{left_out}",
            config_path="connector.class",
            suggestion=similar[0] if similar else "",
            fix=f"Did you mean {' or '.join(similar)}?"
            if similar
            else "Install the plugin: put its folder, with plugin.toml, on the `plugin.path`.",
        )


@dataclass(frozen=True, slots=True)
class PluginPath:
    """Where plugins are installed, and which of them may run."""

    folders: tuple[Path, ...] = ()
    only_sealed: bool = False
    builtin: bool = True

    def load(self) -> Registry:
        """Read the manifests that are installed now."""
        return Registry.load(self.folders, builtin=self.builtin, only_sealed=self.only_sealed)


def log_problems(now: Registry, before: Registry | None = None) -> None:
    """Log why plugins are left out, except for problems that `before` had too."""
    for problem in now.problems:
        if before is None or problem not in before.problems:
            _log.warning("plugin left out: %s", problem)


def log_changes(before: Registry, now: Registry) -> bool:
    """Log the plugins that were added, changed and removed; return whether there are any."""
    old = {(m.name, m.version): m for m in before.manifests}
    new = {(m.name, m.version): m for m in now.manifests}
    changed = {key for key in new.keys() & old.keys() if new[key] != old[key]}
    for keys, change in (
        (new.keys() - old.keys(), "is installed"),
        (old.keys() - new.keys(), "was removed; its running processes continue"),
        (changed, "was replaced; its running processes continue"),
    ):
        for name, version in sorted(keys):
            _log.info("plugin %s %s %s", name, version, change)
    log_problems(now, before)
    return bool(old.keys() ^ new.keys() or changed)


def find_plugin_folders(root: Path) -> list[Path]:
    """Return the folders with a manifest: `root` itself, or its sub-folders."""
    if (root / MANIFEST_FILE).is_file():
        return [root]
    if not root.is_dir():
        return []
    return sorted(f for f in root.iterdir() if (f / MANIFEST_FILE).is_file())


def _find_builtin() -> list[Path]:
    """Return the folders of the plugins of the product, without importing them."""
    specs = [importlib.util.find_spec(name) for name in _SHIPPED]
    locations = [path for spec in specs if spec for path in spec.submodule_search_locations or ()]
    return [Path(path) for path in locations if (Path(path) / MANIFEST_FILE).is_file()]


def fingerprint_folder(folder: Path) -> str:
    """Return a short hash of the names, sizes and modification times of the files."""
    digest = hashlib.sha256()
    for number, (name, size, modified_ns) in enumerate(_list_files(folder, "")):
        if number == _MAX_FILES:
            break
        digest.update(f"{name}\0{size}\0{modified_ns}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]


def with_fingerprint(manifest: Manifest) -> Manifest:
    """Return the manifest with the fingerprint of its folder."""
    return replace(manifest, fingerprint=fingerprint_folder(manifest.folder))


def _list_files(folder: Path, prefix: str) -> Iterator[tuple[str, int, int]]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            name = f"{prefix}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _IGNORED_FOLDERS:
                    yield from _list_files(folder / entry.name, f"{name}/")
            else:
                with suppress(OSError):  # removed meanwhile
                    stat = entry.stat()
                    yield name, stat.st_size, stat.st_mtime_ns


def _parse_version(text: str) -> VersionRequirement:
    try:
        return parse_requirement(text)
    except ValueError as error:
        raise ConfigError(
            "plugin.bad_version",
            f"{escape_text(text, 100)!r} is not a version or a range of versions: {error}",
            config_path=VERSION_KEY,
            fix="Write a version like 1.2.0, or a range like [1.2,2.0).",
        ) from None


def _no_such_version(
    name: str, requirement: VersionRequirement, found: list[_Match]
) -> ConfigError:
    versions = sorted({manifest.version for manifest, _ in found}, key=Version)
    return ConfigError(
        "plugin.no_such_version",
        f"{name!r} is not installed in version {requirement.text}; installed: "
        f"{', '.join(versions)}",
        config_path=VERSION_KEY,
        suggestion=versions[-1],
        fix="Install that version beside the others, or allow a version that is installed.",
    )


def _ambiguous(name: str, found: list[_Match]) -> ConfigError:
    choices = list(dict.fromkeys(f"{manifest.name}/{entry.name}" for manifest, entry in found))
    return ConfigError(
        "plugin.ambiguous",
        f"{name!r} is served by several plugins: {', '.join(choices)}",
        config_path="connector.class",
        suggestion=choices[0],
        fix=f"Write `plugin/connector`, for example {choices[0]}.",
    )


def _installed_twice(manifest: Manifest, other: Manifest) -> ConfigError:
    return ConfigError(
        "plugin.twice",
        f"{manifest.folder}: {manifest.name} {manifest.version} is already installed "
        f"in {other.folder}",
        config_path="version",
        fix="Remove one of the folders, or change the `version` of one.",
    )


def _not_sealed(folder: Path) -> ConfigError:
    return ConfigError(
        "plugin.not_sealed",
        f"{folder} has no seal, and this worker runs only sealed plugins",
        config_path="plugin.only.sealed",
        fix=f"Review its files, then `penstock plugin seal {folder}`. Or set "
        "`plugin.only.sealed=false` where any plugin may run.",
    )


def _no_folder(root: Path) -> ConfigError:
    return ConfigError(
        "plugin.no_folder",
        f"the folder {root} does not exist",
        config_path="plugin.path",
        fix="Create the folder, or remove it from `plugin.path`.",
    )
