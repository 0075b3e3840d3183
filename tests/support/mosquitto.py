"""Real Mosquitto for tests, on a private port and folder.

    with MosquittoServer(folder) as server:
        server.publish("plant/1", b"21.5")

Debian's packages are unpacked into a cache folder (`support.debian`).
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from paho.mqtt import client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from penstock_kit.testing import wait_until
from support import debian
from support.processes import DIES_WITH_US, free_ports

USER, PASSWORD = "writer", "secret-of-mosquitto"
_PACKAGES = ("mosquitto", "libmosquitto1", "libcjson1", "libdlt2", "libwrap0", "libwebsockets17")
_WITHIN = 300.0


class MosquittoServer:
    """One broker. Leaving the `with` block kills it.

    Attributes:
        port: Without TLS; `USER` has to log in.
        tls_port: With TLS, where a certificate was given.
    """

    def __init__(
        self, folder: Path, *, certificate: Sequence[Path] = (), lines: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.port, self.tls_port = free_ports(2)
        self._certificate, self._lines = certificate, list(lines)
        self._process: subprocess.Popen[bytes] | None = None
        self.set_password(PASSWORD)

    @property
    def uri(self) -> str:
        """Its address."""
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def keys(self) -> dict[str, str]:
        """Keys of a connector that connects to it."""
        return {"mqtt.server.uri": self.uri, "mqtt.username": USER, "mqtt.password": PASSWORD}

    def set_password(self, password: str) -> None:
        """Give `USER` another password; a running broker takes it at its next start."""
        (self.folder / "users").touch(0o600)
        _run(
            *_command("usr/bin/mosquitto_passwd"), "-b", str(self.folder / "users"), USER, password
        )

    def configure(self, *lines: str) -> None:
        """Set lines of its configuration, for its next start."""
        self._lines = list(lines)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        lines = [
            "per_listener_settings false", "user root", "persistence true",
            f"persistence_location {self.folder}/", "autosave_interval 0",
            "autosave_on_changes true",
            "max_queued_messages 0", f"password_file {self.folder / 'users'}",
            "allow_anonymous false", f"pid_file {self.folder / 'pid'}",
            f"listener {self.port} 127.0.0.1",
        ]  # fmt: skip
        lines += self._lines
        if self._certificate:
            ca, cert, key = self._certificate
            lines += [
                f"listener {self.tls_port} 127.0.0.1", f"cafile {ca}", f"certfile {cert}",
                f"keyfile {key}",
            ]  # fmt: skip
        file = self.folder / "mosquitto.conf"
        file.write_text("\n".join(lines) + "\n")
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*DIES_WITH_US, *_command("usr/sbin/mosquitto"), "-c", str(file)],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env=debian.environment(mosquitto_tree()),
            )  # fmt: skip
        wait_until(self._answers, 20, "mosquitto answers")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def stop(self) -> None:
        """End it; it stores its sessions."""
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

    def client(self, name: str = "", *, clean: bool = True, expiry: int = 0) -> Client:
        """Return a client that is connected."""
        return Client(self.port, name, clean=clean, expiry=expiry)

    def publish(self, topic: str, *payloads: bytes, qos: int = 1, retain: bool = False) -> None:
        """Send messages, and wait until the broker has them."""
        with self.client() as client:
            client.publish(topic, *payloads, qos=qos, retain=retain)

    def subscribe(self, name: str, *filters: str) -> None:
        """Make a session that keeps the messages of topics."""
        with self.client(name, clean=False, expiry=3600) as client:
            client.subscribe(*filters)


class Client:
    """A bare client, in a thread of its own; `messages` has what came."""

    def __init__(self, port: int, name: str, *, clean: bool, expiry: int) -> None:
        self.messages: list[Any] = []
        self._is_connected = threading.Event()
        self._is_subscribed = threading.Event()
        self.had_session = False
        self._paho = paho.Client(
            paho.CallbackAPIVersion.VERSION2, client_id=name, protocol=paho.MQTTv5
        )
        self._paho.username_pw_set(USER, PASSWORD)
        self._paho.max_inflight_messages_set(1000)
        self._paho.max_queued_messages_set(0)
        self._paho.on_connect = self._on_connect
        self._paho.on_subscribe = lambda *_: self._is_subscribed.set()
        self._paho.on_message = lambda _, __, message: self.messages.append(message)
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = expiry
        self._paho.connect("127.0.0.1", port, clean_start=clean, properties=properties)
        self._paho.loop_start()
        assert self._is_connected.wait(20), "the broker does not take the connection"

    def _on_connect(self, _: Any, __: Any, flags: Any, reason: Any, ___: Any) -> None:
        assert not reason.is_failure, reason
        self.had_session = flags.session_present
        self._is_connected.set()

    def publish(
        self, topic: str, *payloads: bytes, qos: int = 1, retain: bool = False,
        properties: Sequence[tuple[str, str]] = (),
    ) -> None:  # fmt: skip
        """Send messages, and wait until the broker has them."""
        given = Properties(PacketTypes.PUBLISH)
        if properties:
            given.UserProperty = list(properties)
        sent = [self._paho.publish(topic, one, qos, retain, given) for one in payloads]
        for one in sent:
            one.wait_for_publish(30)
            assert one.is_published()

    def subscribe(self, *filters: str, qos: int = 1) -> None:
        """Subscribe, and wait until the broker has taken it."""
        self._is_subscribed.clear()
        self._paho.subscribe([(one, SubscribeOptions(qos=qos)) for one in filters])
        assert self._is_subscribed.wait(20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._paho.disconnect()
        self._paho.loop_stop()


def _command(name: str) -> list[str]:
    return [str(mosquitto_tree() / name)]


def _run(*command: str) -> None:
    subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=_WITHIN,
        stdin=subprocess.DEVNULL, env=debian.environment(mosquitto_tree()),
    )  # fmt: skip


def mosquitto_tree() -> Path:
    """Return the folder that Mosquitto is unpacked in."""
    return debian.unpacked("mosquitto", *_PACKAGES)
