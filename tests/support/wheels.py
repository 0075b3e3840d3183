"""The wheels of the product and of the SDK, and environments that they are installed into."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from support.checkout import ROOT

PRODUCT: str = "."
SDK: str = "connectors/python"
"""Folders of the projects, in a checkout."""


def read_project(folder: str | Path) -> dict[str, Any]:
    """Return the project table of a folder's pyproject.toml."""
    project: dict[str, Any] = tomllib.loads((ROOT / folder / "pyproject.toml").read_text("utf-8"))
    return project["project"]


def build_wheel(source: Path, target: Path) -> Path:
    """Build the wheel with the environment's own hatchling: nothing is fetched."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    (wheel,) = target.glob("*.whl")
    return wheel


def build_wheels(checkout: Path, target: Path) -> list[Path]:
    """Build the wheels that make the product."""
    folders = {SDK: target / "sdk", PRODUCT: target / "product"}
    return [build_wheel(checkout / project, folder) for project, folder in folders.items()]


def names_in(wheel: Path) -> set[str]:
    """Return the files of a wheel, without its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def make_environment(folder: Path, wheels: Iterable[Path]) -> Path:
    """Make a virtual environment with wheels and nothing else; return its site-packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    install = ["install", "-q", "--no-deps", "--no-index", "--no-compile", *map(str, wheels)]
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    subprocess.run([*pip, *install], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    return packages


def link_requirements(requirements: Iterable[str], packages: Path) -> None:
    """Link what a project requires, and what that requires, from this environment."""
    for distribution in _find_distributions(requirements):
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            if not (packages / top).exists():
                (packages / top).symlink_to(Path(str(distribution.locate_file(top))))


def _find_distributions(requirements: Iterable[str]) -> Iterable[metadata.Distribution]:
    todo, found = [*requirements], dict[str, metadata.Distribution]()
    while todo:
        requirement = Requirement(todo.pop())
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if wanted and requirement.name not in found:
            found[requirement.name] = metadata.distribution(requirement.name)
            todo.extend(found[requirement.name].requires or ())
    return found.values()
