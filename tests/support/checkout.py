"""The checkout under test: its root, its files, scratch copies of it."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = (
    ROOT / "services/penstock",
    ROOT / "connectors/kit/penstock_kit",
    ROOT / "connectors/python/penstock_connector",
    ROOT / "connectors/python/penstock_values",
    ROOT / "connectors/python/penstock_converters",
    ROOT / "connectors/builtin/penstock_builtin",
    ROOT / "connectors/databases/penstock_databases",
    ROOT / "connectors/kafka/penstock_kafka",
    ROOT / "connectors/net/penstock_net",
    ROOT / "connectors/amqp/penstock_amqp",
    ROOT / "connectors/metrics/penstock_metrics",
    ROOT / "connectors/analytics/penstock_analytics",
    ROOT / "connectors/messaging/penstock_messaging",
    ROOT / "connectors/search/penstock_search",
    ROOT / "connectors/rocketmq/penstock_rocketmq",
)
"""The import packages of the distribution."""

GENERATED = ROOT / "services/penstock/api"


def product_files() -> Iterator[Path]:
    """Yield the Python files that are installed at a user's, without the generated ones."""
    for package in PRODUCT:
        yield from (file for file in python_files(package) if GENERATED not in file.parents)


def test_files() -> Iterator[Path]:
    """Yield the Python files of the tests."""
    yield from python_files(ROOT / "tests")
    for tests in (ROOT / "connectors").glob("*/tests"):
        yield from python_files(tests)


def python_files(folder: Path) -> Iterator[Path]:
    """Yield the Python files below a folder."""
    yield from sorted(folder.rglob("*.py"))


@cache
def syntax_of(file: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def name_of(file: Path) -> str:
    """Return how a failure calls a file: its path from the root."""
    return str(file.relative_to(ROOT))


def copy_of_checkout(folder: Path) -> Path:
    """Return a scratch copy of the files that make the packages and their rules."""
    for name in ("services", "connectors", "proto"):
        ignored = shutil.ignore_patterns("__pycache__", "node_modules")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("pyproject.toml", "buf.yaml"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def run(*command: str | Path, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command with the tools of this environment first on PATH; errors join the output."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**os.environ, "PATH": path, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=False,
    )
