"""What is installed, and which plugin, in which version, serves a class of connectors. The plugin
path may be looked at again: plugins come, change and go.
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

from penstock.model.errors import ConfigError, Diagnostic, nearest
from penstock.plugin.errors import printable
from penstock.plugin.installed import seal
from penstock.plugin.installed.manifest import FILE_NAME, ConnectorEntry, Manifest, read_manifest
from penstock.plugin.installed.versions import Requirement, Version, parse_requirement

_PASSED_OVER: Final = frozenset(
    {"__pycache__", ".git", ".venv", "node_modules", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
)
"""Folders that tools write, or that are too large to be looked at often."""
_MOST_FILES: Final = 5_000
"""Looked at in about 20 ms; what is beyond is not seen to change."""


def fingerprint(folder: Path) -> str:
    """Return the text: from names, sizes and times of change."""
    digest = hashlib.sha256()
    for number, (name, size, changed) in enumerate(_files(folder, "")):
        if number == _MOST_FILES:
            break
        digest.update(f"{name}\0{size}\0{changed}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]


def fingerprinted(manifest: Manifest) -> Manifest:
    """Return a manifest that knows its files."""
    return replace(manifest, fingerprint=fingerprint(manifest.folder))


def _files(folder: Path, below: str) -> Iterator[tuple[str, int, int]]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            name = f"{below}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _PASSED_OVER:
                    yield from _files(folder / entry.name, f"{name}/")
            else:
                with suppress(OSError):  # it was there a moment ago
                    stat = entry.stat()
                    yield name, stat.st_size, stat.st_mtime_ns


_SHIPPED: Final = ("penstock_builtin", "penstock_databases", "penstock_net")
"""Packages of the plugins that ship."""
_MOST_NAMED: Final = 40
VERSION_KEY: Final = "connector.plugin.version"

_Found: TypeAlias = tuple[Manifest, ConnectorEntry]


class Registry:
    """The installed plugins. Immutable: make a new one to see a plugin that was installed since."""

    def __init__(self, manifests: Iterable[Manifest], problems: Iterable[Diagnostic] = ()) -> None:
        self.problems: tuple[Diagnostic, ...] = tuple(problems)
        """What is left out, and why; it does not stop the others."""
        self.manifests: tuple[Manifest, ...] = ()
        self._by_name: dict[str, list[_Found]] = {}
        for manifest in manifests:
            self._add(manifest)

    @staticmethod
    def load(
        path: Iterable[Path] = (), *, builtin: bool = True, only_sealed: bool = False
    ) -> Registry:
        """Read the manifests of the plugin path, and of the connectors that ship.

        Each folder of `path` has a plugin.toml, or folders that have one. With `only_sealed`, those
        without checksums are left out.
        """
        roots = list(path)
        problems = [_no_folder(root).diagnostic for root in roots if not root.is_dir()]
        manifests = []
        for folder in (folder for root in roots for folder in plugin_folders(root)):
            try:
                if only_sealed and not seal.is_sealed(folder):
                    raise _not_sealed(folder)
                manifests.append(fingerprinted(read_manifest(folder)))
            except ConfigError as error:
                problems.append(error.diagnostic)
        shipped = _builtin() if builtin else []
        return Registry([*manifests, *map(read_manifest, shipped)], problems)

    def find(self, name: str, version: str = "") -> tuple[Manifest, ConnectorEntry]:
        """Return the plugin and the connector of a class name, an alias or `plugin/connector`: the
        newest version of it that `version` allows.

        Raises:
            ConfigError: `plugin.not_installed`, `plugin.ambiguous`, `plugin.no_such_version`,
                `plugin.bad_version`.
        """
        wanted = _requirement(version)
        found = self._by_name.get(name, [])
        if not found:
            raise self._not_installed(name)
        if len({manifest.name for manifest, _ in found}) > 1:
            raise _ambiguous(name, found)
        allowed = [one for one in found if wanted.allows(one[0].version)]
        if not allowed:
            raise _no_such_version(name, wanted, found)
        return max(allowed, key=lambda one: Version(one[0].version))

    def _add(self, manifest: Manifest) -> None:
        version = Version(manifest.version)
        for other in self.manifests:
            if other.name == manifest.name and Version(other.version) == version:
                self.problems = (*self.problems, _twice(manifest, other).diagnostic)
                return
        self.manifests = (*self.manifests, manifest)
        for entry in manifest.connectors:
            for name in {*entry.names, f"{manifest.name}/{entry.name}"}:
                self._by_name.setdefault(name, []).append((manifest, entry))

    def _not_installed(self, name: str) -> ConfigError:
        like = nearest(name, self._by_name)
        installed = sorted({e.name for m in self.manifests for e in m.connectors})
        shown = ", ".join(installed[:_MOST_NAMED]) or "nothing"
        more = f" and {len(installed) - _MOST_NAMED} more" if len(installed) > _MOST_NAMED else ""
        broken = "".join(f" Left out: {p.message}. {p.fix}" for p in self.problems[:3])
        return ConfigError(
            "plugin.not_installed",
            f"no installed plugin serves {name!r}; installed: {shown}{more}.{broken}",
            config_path="connector.class",
            suggestion=like[0] if like else "",
            fix=f"Did you mean {' or '.join(like)}?"
            if like
            else "Install the plugin: put its folder with plugin.toml on the plugin path.",
        )


def _requirement(text: str) -> Requirement:
    try:
        return parse_requirement(text)
    except ValueError as error:
        raise ConfigError(
            "plugin.bad_version",
            f"{printable(text, 100)!r} names no versions: {error}",
            config_path=VERSION_KEY,
            fix="Write a version like 1.2.0, or a range like [1.2,2.0).",
        ) from None


def _no_such_version(name: str, wanted: Requirement, found: list[_Found]) -> ConfigError:
    versions = sorted({manifest.version for manifest, _ in found}, key=Version)
    return ConfigError(
        "plugin.no_such_version",
        f"{name!r} is not installed in version {wanted.text}; installed: {', '.join(versions)}",
        config_path=VERSION_KEY,
        suggestion=versions[-1],
        fix="Install that version beside the others, or allow one that is there.",
    )


def _ambiguous(name: str, found: list[_Found]) -> ConfigError:
    choices = list(dict.fromkeys(f"{manifest.name}/{entry.name}" for manifest, entry in found))
    return ConfigError(
        "plugin.ambiguous",
        f"{name!r} is served by several plugins: {', '.join(choices)}",
        config_path="connector.class",
        suggestion=choices[0],
        fix="Write the plugin's name before the connector's, with a slash between.",
    )


def _twice(manifest: Manifest, other: Manifest) -> ConfigError:
    return ConfigError(
        "plugin.twice",
        f"{manifest.folder}: {manifest.name} {manifest.version} is there already, "
        f"from {other.folder}",
        config_path="version",
        fix="Remove one of them, or give it a version of its own.",
    )


def _not_sealed(folder: Path) -> ConfigError:
    return ConfigError(
        "plugin.not_sealed",
        f"{folder} has no checksums, and this worker takes only sealed plugins",
        config_path="plugin.only.sealed",
        fix=f"Look at what is in it, then `penstock plugin seal {folder}`; or set "
        "`plugin.only.sealed=false` where any plugin may run.",
    )


def _no_folder(root: Path) -> ConfigError:
    return ConfigError(
        "plugin.no_folder",
        f"there is no folder {root}",
        config_path="plugin.path",
        fix="Make it, or take it off the plugin path.",
    )


def plugin_folders(root: Path) -> list[Path]:
    """Return the folders with a manifest: this one, or those in it."""
    if (root / FILE_NAME).is_file():
        return [root]
    if not root.is_dir():
        return []
    return sorted(f for f in root.iterdir() if (f / FILE_NAME).is_file())


def _builtin() -> list[Path]:
    """Return the folders of the shipped connectors; they are found, not imported."""
    specs = [importlib.util.find_spec(name) for name in _SHIPPED]
    places = [place for spec in specs if spec for place in spec.submodule_search_locations or ()]
    return [Path(place) for place in places if (Path(place) / FILE_NAME).is_file()]


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PluginPath:
    """Where plugins are installed, and which of them may be taken."""

    folders: tuple[Path, ...] = ()
    only_sealed: bool = False
    builtin: bool = True

    def load(self) -> Registry:
        """Read what is there now."""
        return Registry.load(self.folders, builtin=self.builtin, only_sealed=self.only_sealed)


def tell_problems(now: Registry, before: Registry | None = None) -> None:
    """Log what is left out, unless that was so before."""
    for problem in now.problems:
        if before is None or problem not in before.problems:
            _log.warning("plugin left out: %s", problem)


def tell_changes(before: Registry, now: Registry) -> bool:
    """Log what came, changed and went; tell whether anything did."""
    old = {(m.name, m.version): m for m in before.manifests}
    new = {(m.name, m.version): m for m in now.manifests}
    changed = {key for key in new.keys() & old.keys() if new[key] != old[key]}
    for keys, what in (
        (new.keys() - old.keys(), "is installed"),
        (old.keys() - new.keys(), "is gone; what runs of it goes on"),
        (changed, "was replaced; what runs of it goes on"),
    ):
        for name, version in sorted(keys):
            _log.info("plugin %s %s %s", name, version, what)
    tell_problems(now, before)
    return bool(old.keys() ^ new.keys() or changed)
