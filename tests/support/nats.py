"""Real nats-server for tests, with JetStream, on a private port and folder.

    with NatsServer(folder) as server:
        server.add_stream("orders")
        server.publish("orders.1", b'{"id": 1}')

Its package is Debian's, unpacked into a cache folder (`support.debian`).
"""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from penstock_connector._config import parse_config
from penstock_kit.testing import wait_until
from penstock_messaging.nats.config import NatsConfig
from penstock_messaging.nats.connection import Connection
from penstock_messaging.nats.protocol import (
    decode_headers,
    encode_headers,
    encode_publish,
    status_of,
)
from support import debian
from support.processes import DIES_WITH_US, free_ports

USER, PASSWORD = "writer", "secret-of-nats"
_USERS = f'authorization {{ users = [ {{ user: {USER}, password: "{PASSWORD}" }} ] }}'


@dataclass(frozen=True)
class Stored:
    """A message of a stream."""

    subject: str
    payload: bytes
    headers: dict[str, str]
    sequence: int


class NatsServer:
    """One server. Leaving the `with` block kills it.

    Args:
        folder: Where it stores its streams.
        users: Its configuration of users.
        lines: More lines of its configuration.

    Attributes:
        port: Where it listens.
    """

    def __init__(self, folder: Path, *, users: str = _USERS, lines: Sequence[str] = ()) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (self.port,) = free_ports(1)
        self._users, self._lines = users, list(lines)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def keys(self) -> dict[str, str]:
        """Keys of a connector that connects to it."""
        return {
            "nats.servers": f"nats://127.0.0.1:{self.port}",
            "nats.username": USER,
            "nats.password": PASSWORD,
        }

    def configure(self, *lines: str, users: str = _USERS) -> None:
        """Set lines of its configuration, for its next start."""
        self._lines, self._users = list(lines), users

    def start(self, *, has_jetstream: bool = True) -> None:
        """Start it, and wait until it answers."""
        lines = [f"listen: 127.0.0.1:{self.port}", self._users, *self._lines]
        if has_jetstream:
            lines.append(f'jetstream {{ store_dir: "{self.folder}" }}')
        file = self.folder / "nats.conf"
        file.write_text("\n".join(lines) + "\n")
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*DIES_WITH_US, str(nats_tree() / "usr/sbin/nats-server"), "-c", str(file)],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        wait_until(self._answers, 20, "nats-server answers")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def stop(self) -> None:
        """End it; it keeps its streams."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)
            self._process = None

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)
            self._process = None

    def pause(self, *, is_paused: bool) -> None:
        """Let it hang, or go on."""
        assert self._process is not None
        self._process.send_signal(19 if is_paused else 18)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @contextlib.contextmanager
    def connection(self, keys: Mapping[str, str] | None = None) -> Iterator[Connection]:
        """Connect to it, as the keys of a connector say."""
        config = parse_config(NatsConfig, {**(keys or self.keys), "nats.stream": "s"})
        opened = Connection.open(config.dialing())
        try:
            yield opened
        finally:
            opened.close()

    def request(self, verb: str, **body: Any) -> dict[str, Any]:
        """Return the answer to a request of JetStream, which may be an error."""
        with self.connection() as connection:
            return _request(connection, verb, body)

    def add_stream(
        self, name: str, *subjects: str, keys: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        """Create a stream, with subjects as its name unless others are given; as another user,
        whom keys of a connector log in.
        """
        given = {"name": name, "subjects": list(subjects) or [name, f"{name}.>"], **more}
        with self.connection(keys) as connection:
            answer = _request(connection, f"STREAM.CREATE.{name}", {"storage": "file", **given})
        assert "error" not in answer, answer

    def publish(self, subject: str, *payloads: bytes, headers: Any = ()) -> list[int]:
        """Send messages; return their numbers when the stream has them."""
        numbers = []
        with self.connection() as connection:
            for at, payload in enumerate(payloads):
                reply = f"{connection.inbox}.p{at}"
                told = encode_headers([(name, value.encode()) for name, value in headers])
                connection.send(encode_publish(subject, payload, reply, told))
            while len(numbers) < len(payloads):
                for frame in connection.receive(20):
                    assert not status_of(frame.headers)[0], frame
                    numbers.append(json.loads(frame.payload)["seq"])
        return numbers

    def messages(self, stream: str) -> list[Stored]:
        """Return the messages of a stream."""
        found: list[Stored] = []
        with self.connection() as connection:
            state = _request(connection, f"STREAM.INFO.{stream}", {})["state"]
            for number in range(state["first_seq"], state["last_seq"] + 1):
                answer = _request(connection, f"STREAM.MSG.GET.{stream}", {"seq": number})
                if (one := answer.get("message")) is not None:
                    told = decode_headers(base64.b64decode(one.get("hdrs", "")))
                    headers = {name: value.decode() for name, value in told}
                    data = base64.b64decode(one.get("data", ""))
                    found.append(Stored(one["subject"], data, headers, one["seq"]))
        return found


def _request(connection: Connection, verb: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = connection.request(f"$JS.API.{verb}", json.dumps(body).encode(), what=verb)
    found: dict[str, Any] = json.loads(answer.payload)
    return found


def nats_tree() -> Path:
    """Return the folder that nats-server is unpacked in."""
    return debian.unpacked("nats", "nats-server")
