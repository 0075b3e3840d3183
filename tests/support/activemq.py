"""A real broker of ActiveMQ for tests, Classic or Artemis, on private ports, in a private folder.

    with ActivemqBroker("classic", folder) as broker:
        broker.url; broker.kill(); broker.start()

Its jars come from Maven (`support.maven`); its main class is a file of Java beside this one. It
asks for a user: `USER` with `PASSWORD`. `url` is STOMP, `tls_url` STOMP in TLS with a certificate
that `ca` signed, `openwire_url` the port where Classic speaks OpenWire only and Artemis everything.
"""

from __future__ import annotations

import shutil
import signal
import socket
import ssl
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock_amqp.connection import Address, Connection, Dialing
from penstock_amqp.frames import encode_frame, encode_headers
from penstock_amqp.headers import destination_of, routing_of
from penstock_kit.testing import wait_until
from support import maven
from support.certificates import Authority
from support.processes import DIES_WITH_US, free_ports

CLASSIC, ARTEMIS = "6.3.1", "2.40.0"
USER, PASSWORD = "mover", "secret-of-activemq"
_LAST: Final = b"the last one of a test"
_START_S: Final = 90.0
_MAINS: Final = Path(__file__).parent / "activemq_brokers"
_SLF4J: Final = "org.slf4j:slf4j-simple:2.0.17"


class ActivemqBroker:
    """A broker. Leaving the `with` block kills it."""

    def __init__(self, product: str, folder: Path) -> None:
        """`product` is `classic` or `artemis`."""
        self.product = product
        self._folder = folder
        self._ports = free_ports(3)
        self._password = PASSWORD
        self._process: subprocess.Popen[bytes] | None = None
        self._authority = Authority(folder / "certificates")

    @property
    def url(self) -> str:
        """Where it speaks STOMP."""
        return f"stomp://127.0.0.1:{self._ports[0]}"

    @property
    def tls_url(self) -> str:
        """Where it speaks STOMP in TLS."""
        return f"stomp+ssl://127.0.0.1:{self._ports[1]}"

    @property
    def openwire_url(self) -> str:
        """Where it speaks OpenWire; Artemis speaks STOMP there, too."""
        return f"tcp://127.0.0.1:{self._ports[2]}"

    @property
    def ca(self) -> Path:
        """The certificate that signed its own."""
        return self._authority.ca

    @property
    def login(self) -> dict[str, str]:
        """Keys of a connector that reach it."""
        names = ("activemq.url", "activemq.username", "activemq.password")
        return dict(zip(names, (self.url, USER, PASSWORD), strict=True))

    def __enter__(self) -> Self:
        """Start it."""
        pem, secret = self._authority.sign("activemq", address="127.0.0.1")
        subprocess.run(
            [
                "openssl", "pkcs12", "-export", "-in", str(pem), "-inkey", str(secret),
                "-out", str(self._keys), "-passout", "pass:certificates",
            ],
            check=True, capture_output=True,
        )  # fmt: skip
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill it."""
        self.kill()

    @property
    def _keys(self) -> Path:
        return self._folder / "keys.p12"

    def start(self, password: str = PASSWORD) -> None:
        """Start it, and wait until it listens. `password` is that of the user from now on."""
        self._password = password
        main = _MAINS / f"{self.product.capitalize()}.java"
        ports = map(str, self._ports)
        given = [str(self._folder / "data"), *ports, USER, password, str(self._keys)]
        java = [
            "java",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
        ]
        command = [*DIES_WITH_US, *java, "-cp", f"{_jars(self.product)}/*", str(main), *given]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)
        wait_until(self._listens, _START_S, f"{self.product} listens")

    @property
    def _log(self) -> Path:
        return self._folder / "broker.log"

    def _listens(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            text = self._log.read_text(encoding="utf-8", errors="replace")
            raise AssertionError(f"{self.product} ended: {text[-2000:]}")
        for port in self._ports:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) != 0:
                    return False
        return True

    def _connection(self) -> Connection:
        host, _, port = self.url.removeprefix("stomp://").partition(":")
        dialing = Dialing(
            [Address(host, int(port), is_tls=False)], USER, self._password, "",
            ssl.create_default_context, 30.0,
        )  # fmt: skip
        return Connection.open(dialing)

    def send(self, name: str, *bodies: bytes, is_topic: bool = False, **headers: str) -> None:
        """Send messages, and wait until they are stored. Names of headers have `-` for `_`."""
        connection = self._connection()
        named = {one.replace("_", "-"): value for one, value in headers.items()}
        place = {**self._place(connection, name, is_topic), "persistent": "true"}
        lines = encode_headers({**place, **named}.items())
        data = b"".join(b"SEND\n%stransaction:t\n\n%s\x00" % (lines, body) for body in bodies)
        begin = encode_frame("BEGIN", {"transaction": "t"})
        connection.call(begin + data, "COMMIT", {"transaction": "t"}, "the messages")
        connection.close()

    def rest(self, name: str) -> list[bytes]:
        """Take away all messages that are left, up to an own one that is sent last."""
        self.send(name, _LAST)
        connection, found = self._connection(), list[bytes]()
        headers = {"id": "0", "ack": "client-individual", "subscription-type": "ANYCAST"}
        place = self._place(connection, name, is_topic=False)
        place.pop("destination-type", None)
        connection.send(encode_frame("SUBSCRIBE", {**headers, **place}))
        while _LAST not in found:
            frames = connection.receive(30.0)
            assert frames, f"{name} does not end: {found[-3:]}"
            for one in frames:
                found.append(one.body)
                connection.send(encode_frame("ACK", {"id": one.headers["ack"]}))
        connection.close()
        found.remove(_LAST)
        return found

    def _place(self, connection: Connection, name: str, is_topic: bool) -> dict[str, str]:
        place = destination_of(name, is_topic=is_topic, is_artemis=connection.is_artemis)
        return {"destination": place, "destination-type": routing_of(is_topic=is_topic)}

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        if (process := self._process) is not None:
            self._process = None
            process.kill()
            process.wait()
            with suppress(OSError):  # what a dead broker has locked is free
                (self._folder / "data" / "lock").unlink()

    def clear(self) -> None:
        """Remove what it has stored; it must not run."""
        shutil.rmtree(self._folder / "data", ignore_errors=True)

    def freeze(self) -> None:
        """Stop it, so that it keeps its connections and answers nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen broker go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


def _jars(product: str) -> Path:
    if product == "classic":
        return maven.jars(f"activemq/classic-{CLASSIC}", *_coordinates("activemq", CLASSIC), _SLF4J)
    return maven.jars(f"activemq/artemis-{ARTEMIS}", *_coordinates("artemis", ARTEMIS), _SLF4J)


def _coordinates(product: str, version: str) -> Sequence[str]:
    parts = {
        "activemq": ("activemq-broker", "activemq-stomp", "activemq-kahadb-store", "activemq-jaas"),
        "artemis": ("artemis-server", "artemis-stomp-protocol"),
    }[product]
    group = "org.apache.activemq"
    return [f"{group}:{part}:{version}" for part in parts]
