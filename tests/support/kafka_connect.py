"""A real Kafka Connect for tests: one standalone worker beside a broker (`support.kafka`).

    with KafkaConnect(folder, kafka.bootstrap) as connect:
        connect.create("lines", **{"connector.class": "FileStreamSource", …})
        connect.stop("lines")
        connect.offsets("lines")

Its jars come from Maven (`support.maven`). `connect.url` is its REST API.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

from penstock_kit.testing import wait_until
from support import maven
from support.kafka import VERSION
from support.processes import DIES_WITH_US, free_ports

DEBEZIUM: Final = "3.6.1.Final"
APICURIO: Final = "2.6.13.Final"
_START_S: Final = 90.0
SOON: Final = 60.0
_DEBEZIUM_PARTS: Final = ("api", "embedded", "connector-postgres", "connector-mysql")
_PROPERTIES: Final = """
bootstrap.servers={bootstrap}
listeners=http://127.0.0.1:{port}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.file.filename={folder}/offsets
offset.flush.interval.ms=1000
plugin.discovery=service_load
consumer.metadata.max.age.ms=1000
"""


def jars() -> Path:
    """Return the folder with the jars of Kafka Connect, Debezium and Apicurio's converters."""
    return maven.jars(
        f"kafka-connect/{VERSION}-{DEBEZIUM}-{APICURIO}",
        *(f"org.apache.kafka:connect-{part}:{VERSION}" for part in ("runtime", "file")),
        *(f"io.debezium:debezium-{part}:{DEBEZIUM}" for part in _DEBEZIUM_PARTS),
        f"io.apicurio:apicurio-registry-utils-converter:{APICURIO}",
        "org.slf4j:slf4j-simple:1.7.36",
    )


class KafkaConnect:
    """A worker. Leaving the `with` block kills it."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self._folder, self._bootstrap = folder, bootstrap
        (self._port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        self.client = httpx.Client(base_url=self.url, timeout=SOON)

    @property
    def url(self) -> str:
        """Its REST API."""
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        """Start it, and wait until it answers."""
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / "connect-standalone.properties"
        values = {"bootstrap": self._bootstrap, "port": self._port, "folder": self._folder}
        file.write_text(_PROPERTIES.format(**values), encoding="utf-8")
        options = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        command = [*DIES_WITH_US, "java", *options, "-cp", f"{jars()}/*"]
        with (self._folder / "connect.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "org.apache.kafka.connect.cli.ConnectStandalone", str(file)],
                stdout=log,
                stderr=log,
            )
        wait_until(self._answers, _START_S, "Kafka Connect answers")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill it."""
        self.client.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"Kafka Connect ended: {self.log[-2000:]}"
        try:
            return self.client.get("/connectors").is_success
        except httpx.TransportError:
            return False

    @property
    def log(self) -> str:
        """What it has logged."""
        return (self._folder / "connect.log").read_text(encoding="utf-8", errors="replace")

    def create(self, name: str, **config: object) -> None:
        """Create a connector that runs."""
        texts = {key: str(value) for key, value in config.items()}
        self._send("POST", "/connectors", {"name": name, "config": texts})

    def stop(self, name: str) -> None:
        """Stop a connector, and wait until it has no tasks."""
        self._send("PUT", f"/connectors/{name}/stop")
        wait_until(lambda: self._is_stopped(name), SOON, f"{name} to stop")

    def resume(self, name: str) -> None:
        """Let a connector run."""
        self._send("PUT", f"/connectors/{name}/resume")

    def offsets(self, name: str) -> list[dict[str, Any]]:
        """Return the offsets of a connector."""
        found: list[dict[str, Any]] = self._send("GET", f"/connectors/{name}/offsets")["offsets"]
        return found

    def failure(self, name: str) -> str:
        """Return why the task of a connector failed; empty: it has not."""
        tasks = self._send("GET", f"/connectors/{name}/status")["tasks"]
        return "\n".join(task["trace"] for task in tasks if "trace" in task)

    def _is_stopped(self, name: str) -> bool:
        status = self._send("GET", f"/connectors/{name}/status")
        return status["connector"]["state"] == "STOPPED" and not status["tasks"]

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.client.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None
