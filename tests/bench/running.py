"""Runs Penstock for a benchmark: its files, its process, and what is visible at the sink."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from penstock_kit.testing import PenstockProcess

START = 90.0
"""Seconds that a cold start with its first rows may take before a benchmark gives up."""


class Output:
    """What a file sink has made visible: the files of one folder, in the order of their names."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.file = folder / "out.txt"

    def parts(self) -> list[Path]:
        """Return the visible files; those in the making start with a dot or an underscore."""
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return sorted((p for p in found if not _hidden(p.relative_to(self.folder))), key=_natural)

    def size(self) -> int:
        """Return how many bytes are visible."""
        total = 0
        for path in self.parts():
            try:
                total += path.stat().st_size
            except FileNotFoundError:  # renamed between the two looks
                continue
        return total


@contextmanager
def working_folder(*, keep: bool = False) -> Iterator[Path]:
    """Give a folder for one run, removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        yield folder
    finally:
        if keep:
            print(f"kept {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def document(folder: Path, name: str, content: Mapping[str, Any]) -> Path:
    """Write a YAML file; returns its path."""
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(dict(content), sort_keys=False), encoding="utf-8")
    return path


def pipeline(folder: Path, content: Mapping[str, Any]) -> PenstockProcess:
    """Prepare `penstock run` of a pipeline that never ends by itself."""
    path = document(folder, "pipeline", content)
    return PenstockProcess(folder, "run", path, "--state", folder / "state", "--no-progress")


def standalone(
    folder: Path, *connectors: Mapping[str, Any], worker: Mapping[str, Any] | None = None
) -> PenstockProcess:
    """Prepare `penstock standalone` of some connectors; each has a `name`."""
    files = [document(folder, "worker", {"state.dir": str(folder / "state"), **(worker or {})})]
    files += [document(folder, connector["name"], connector) for connector in connectors]
    return PenstockProcess(folder, "standalone", *files)


def until_visible(process: PenstockProcess, output: Output, size: int, deadline: float) -> float:
    """Wait until `size` bytes are visible; returns the time at which they were."""
    process.wait_for(lambda: output.size() >= size, deadline, f"{size:,} bytes at the sink")
    return time.monotonic()


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _natural(path: Path) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", str(path))
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
