"""Known clients of Kafka Connect's REST API, as their registries have them, behind one face.

    with opened("go-kafka/connect", gateway.address, folder) as client:
        client.call("create", name="orders", config={...})

What a gateway refuses is a `Refused`, made of the client's own error. Python's client is called
here, the others by a driver in their own language, which reads calls as lines of JSON.
"""

from __future__ import annotations

import json
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import requests

from kafka_connect import KafkaConnect
from support.foreign import go_build, npm_install

HERE: Final = Path(__file__).parent
LIFE: Final = frozenset(
    [
        "names",
        "create",
        "info",
        "config",
        "status",
        "tasks",
        "update",
        "delete",
        "pause",
        "resume",
        "restart",
    ]
)
"""What every client knows."""

KNOWN: Final = {
    "kafka-connect-py": LIFE
    | {"cluster", "expanded", "plugins", "validate", "stop", "topics", "reset topics"}
    | {"task status", "restart task", "restart with tasks"},
    "go-kafka/connect": LIFE,
    "kafka-connect-client": LIFE
    | {"cluster", "expanded", "plugins", "validate", "stop", "reset topics"}
    | {"offsets", "alter offsets", "reset offsets", "task status", "restart task"},
}
"""What each client knows. `kafka-connect-client` has a call for topics, too, which reads the answer
as text and fails with every server.
"""

_ANSWERED: Final = 60.0
"""Seconds for a driver to end, once nobody asks it."""


class Refused(Exception):  # noqa: N818 - it is what it says
    """What a gateway refused: the client's own error, its status and its text."""

    def __init__(self, kind: str, status: int, message: str) -> None:
        super().__init__(kind, status, message)
        self.kind, self.status, self.message = kind, status, message


class Client(ABC):
    """A client, asked by the names of Kafka Connect's calls."""

    @abstractmethod
    def call(self, what: str, **given: Any) -> Any:
        """Call the gateway, and return what the client returns."""


@contextmanager
def opened(name: str, address: str, folder: Path) -> Iterator[Client]:
    """Open a client of a gateway; what it needs is installed into a folder."""
    if name == "kafka-connect-py":
        yield _Py(address)
    elif name == "go-kafka/connect":
        program = go_build(folder, HERE / "go", ".") / "driver"
        with _Driven([program, f"http://{address}"]) as client:
            yield client
    else:
        project = npm_install(HERE / "node", folder / "node")
        with _Driven(["node", project / "driver.js", address]) as client:
            yield client


class _Driven(Client):
    """A client in another language."""

    def __init__(self, command: list[str | Path]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(_ANSWERED) == 0

    def call(self, what: str, **given: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"call": what, **given}) + "\n")
        self._process.stdin.flush()
        outcome = json.loads(self._process.stdout.readline())
        if refused := outcome.get("refused"):
            raise Refused(**refused)
        return outcome.get("value")


class _Py(Client):
    """kafka-connect-py."""

    def __init__(self, address: str) -> None:
        api = KafkaConnect(f"http://{address}")
        self._calls: dict[str, Callable[..., Any]] = {
            "cluster": api.get_cluster_info,
            "names": api.list_connectors,
            "expanded": lambda: api.list_connectors(expand="status"),
            "plugins": api.list_connector_plugins,
            "validate": api.validate_connector_config,
            "create": lambda name, config: api.create_connector({"name": name, "config": config}),
            "info": api.get_connector,
            "config": api.get_connector_config,
            "status": api.get_connector_status,
            "tasks": api.list_connector_tasks,
            "topics": api.list_connector_topics,
            "reset topics": api.reset_connector_topics,
            "update": api.update_connector,
            "delete": api.delete_connector,
            "pause": api.pause_connector,
            "resume": api.resume_connector,
            "stop": api.stop_connector,
            "restart": api.restart_connector,
            "restart with tasks": lambda name: api.restart_connector(name, include_tasks=True),
            "task status": api.get_connector_task_status,
            "restart task": api.restart_connector_task,
        }

    def call(self, what: str, **given: Any) -> Any:
        try:
            return self._calls[what](*given.values())
        except requests.HTTPError as error:
            text = str(error) if error.response is None else error.response.text
            told = json.loads(text)
            raise Refused(type(error).__name__, told["error_code"], told["message"]) from None
