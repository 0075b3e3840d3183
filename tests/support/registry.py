"""A real schema registry for tests: Apicurio, which speaks Confluent's protocol. One process, with
its schemas in memory, on a private port.

    with SchemaRegistryServer(folder) as registry:
        registry.url; registry.kill()

It comes from Maven (`support.maven`), and needs Java 21 or newer (`support.java`).
"""

from __future__ import annotations

import os
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock_kit.testing import wait_until
from support import maven
from support.java import find_java
from support.processes import DIES_WITH_US, free_ports

VERSION: Final = "3.3.3"
_ARCHIVE: Final = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
_START_S: Final = 120.0
_PATH: Final = "/apis/ccompat/v7"


class SchemaRegistryServer:
    """A registry. Leaving the `with` block kills it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port, self._management = free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        """The URL of Confluent's protocol."""
        return f"{self.root}{_PATH}"

    def __enter__(self) -> Self:
        """Start it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        app = maven.unpacked(f"apicurio/{VERSION}", _ARCHIVE)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._folder),
            "QUARKUS_HTTP_HOST": "127.0.0.1",
            "QUARKUS_HTTP_PORT": str(self._port),
            "QUARKUS_MANAGEMENT_HOST": "127.0.0.1",
            "QUARKUS_MANAGEMENT_PORT": str(self._management),
            "APICURIO_STORAGE_KIND": "sql",
            "APICURIO_STORAGE_SQL_KIND": "h2",
        }
        options = ("-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", f"-Djava.io.tmpdir={self._folder}")
        command = [*DIES_WITH_US, str(find_java(21)), *options, "-jar", "quarkus-run.jar"]
        with (self._folder / "registry.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=app, env=environment
            )
        wait_until(self._answers, _START_S, "the registry answers")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill it."""
        self.kill()

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            log = (self._folder / "registry.log").read_text(encoding="utf-8", errors="replace")
            raise AssertionError(f"the registry ended: {log[-2000:]}")
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=1) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
