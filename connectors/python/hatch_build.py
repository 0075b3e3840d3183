"""Puts the generated code of the plugin protocol into the wheel of `penstock-connector`.

A protobuf file may be registered only once in a process, so there is one copy of its code,
`services/penstock/api`, under one import name. This distribution ships the part that a plugin
needs; the distribution `penstock` ships the rest of that package and depends on this one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROTOCOL: Final = (
    "__init__.py",
    "py.typed",
    "api/__init__.py",
    "api/connector",
    "api/error",
    "api/record",
)
"""Parts of the package `penstock`. `pyproject.toml` of the checkout excludes the same ones."""


class ProtocolHook(BuildHookInterface[Any]):
    """Adds the protocol to a wheel and to a source distribution."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files to include."""
        if version == "editable":
            return
        root = Path(self.root)
        package = root / "penstock"  # in an unpacked source distribution
        if not package.is_dir():
            package = root.parents[1] / "services/penstock"
        for part in PROTOCOL:
            build_data["force_include"][str(package / part)] = f"penstock/{part}"
