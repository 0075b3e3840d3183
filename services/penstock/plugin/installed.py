"""The plugin path, which may be looked at again: plugins come, change and go."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from penstock.plugin.registry import Registry

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
