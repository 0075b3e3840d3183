"""What is installed, and which plugin serves a class of connectors."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from penstock.model.errors import ConfigError, Diagnostic, nearest
from penstock.plugin.manifest import FILE_NAME, ConnectorEntry, Manifest, read_manifest

_log = logging.getLogger(__name__)

_SHIPPED: Final = ("penstock_builtin", "penstock_databases")
"""Packages of the plugins that ship."""
_MOST_NAMED: Final = 40


class Registry:
    """The installed plugins. Immutable: make a new one to see a plugin that was installed since."""

    def __init__(self, manifests: Iterable[Manifest], problems: Iterable[Diagnostic] = ()) -> None:
        self.manifests = tuple(manifests)
        self.problems = tuple(problems)
        """Manifests that could not be read; they do not stop the others."""
        self._by_name: dict[str, list[tuple[Manifest, ConnectorEntry]]] = {}
        for manifest in self.manifests:
            for entry in manifest.connectors:
                for name in (*entry.names, f"{manifest.name}/{entry.name}"):
                    self._by_name.setdefault(name, []).append((manifest, entry))

    @staticmethod
    def load(path: Iterable[Path] = (), *, builtin: bool = True) -> Registry:
        """Read the manifests of the plugin path, and of the connectors that ship.

        Each folder of `path` has a plugin.toml, or folders that have one.
        """
        manifests, problems = [], []
        for folder in [*(f for root in path for f in _folders(root)), *_builtin(builtin)]:
            try:
                manifests.append(read_manifest(folder))
            except ConfigError as error:
                _log.warning("plugin left out: %s", error)
                problems.append(error.diagnostic)
        return Registry(manifests, problems)

    def find(self, name: str) -> tuple[Manifest, ConnectorEntry]:
        """Return the plugin and the connector of a class name, an alias or `plugin/connector`.

        Raises:
            ConfigError: `plugin.not_installed`, `plugin.ambiguous`.
        """
        found = self._by_name.get(name, [])
        if len(found) == 1:
            return found[0]
        if found:
            choices = [f"{manifest.name}/{entry.name}" for manifest, entry in found]
            raise ConfigError(
                "plugin.ambiguous",
                f"{name!r} is served by several plugins: {', '.join(choices)}",
                config_path="connector.class",
                suggestion=choices[0],
                fix="Write the plugin's name before the connector's, with a slash between.",
            )
        raise self._not_installed(name)

    def _not_installed(self, name: str) -> ConfigError:
        like = nearest(name, self._by_name)
        installed = sorted(e.name for m in self.manifests for e in m.connectors)
        shown = ", ".join(installed[:_MOST_NAMED]) or "nothing"
        more = f" and {len(installed) - _MOST_NAMED} more" if len(installed) > _MOST_NAMED else ""
        broken = "".join(f" Left out: {p.message}." for p in self.problems[:3])
        return ConfigError(
            "plugin.not_installed",
            f"no installed plugin serves {name!r}; installed: {shown}{more}.{broken}",
            config_path="connector.class",
            suggestion=like[0] if like else "",
            fix=f"Did you mean {' or '.join(like)}?"
            if like
            else "Install the plugin: put its folder with plugin.toml on the plugin path.",
        )


def _folders(root: Path) -> list[Path]:
    if (root / FILE_NAME).is_file():
        return [root]
    if not root.is_dir():
        _log.warning("plugin path: there is no folder %s", root)
        return []
    return sorted(f for f in root.iterdir() if (f / FILE_NAME).is_file())


def _builtin(wanted: bool) -> list[Path]:
    """Return the folders of the shipped connectors; they are found, not imported."""
    specs = [importlib.util.find_spec(name) for name in _SHIPPED] if wanted else []
    places = [place for spec in specs if spec for place in spec.submodule_search_locations or ()]
    return [Path(place) for place in places if (Path(place) / FILE_NAME).is_file()]
