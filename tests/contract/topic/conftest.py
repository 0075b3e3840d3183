"""The places that every test of this folder runs in: a folder that processes share, and S3."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock.model import faults
from penstock.topic_files.folder import Folder
from penstock.topic_files.locations import open_folder
from support.processes import DIES_WITH_US
from support.s3 import S3Server


@dataclass(frozen=True)
class Place:
    """Where topics are: as this process has it, and as others open it."""

    folder: Folder
    text: str
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def on_s3(self) -> bool:
        return self.text.startswith("s3:")

    def start(self, program: str, *arguments: object, fault: str = "") -> subprocess.Popen[str]:
        """Run a program whose first argument is this place; it finds the store by AWS_… alone."""
        paths = {"PYTHONPATH": os.pathsep.join(sys.path), faults.VARIABLE: fault}
        return subprocess.Popen(
            [*DIES_WITH_US, sys.executable, "-c", program, self.text, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.environment, **paths},
        )


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(params=["folder", "s3"])
def place(request: Any, tmp_path: Path) -> Place:
    """A place of its own for a test."""
    if request.param == "folder":
        return Place(open_folder(str(tmp_path / "topics")), str(tmp_path / "topics"))
    server: S3Server = request.getfixturevalue("s3_server")
    text = f"s3://topics/{uuid.uuid4().hex[:12]}"
    return Place(open_folder(text, server.settings()), text, server.environment)
