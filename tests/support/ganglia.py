"""A real gmond of Ganglia for tests, on private ports, without Ganglia's other hosts.

    with GmondServer(folder) as gmond:
        gmond.report("queue_size", 12, units="messages"); gmond.target

Its packages are Debian's (`support.debian`). `FakeGmond` is for answers that gmond does not give.
"""

from __future__ import annotations

import socket
import socketserver
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock_kit.testing import wait_until
from support import debian
from support.processes import DIES_WITH_US, free_ports

CLUSTER, HOST = "plant", "node-7"
_PACKAGES: Final = (
    "ganglia-monitor", "libganglia1", "libapr1", "libconfuse2", "libpcre3", "libtirpc3",
    "libexpat1",
)  # fmt: skip
_CONFIGURATION: Final = """
globals {{ daemonize = no setuid = no mute = no deaf = no override_hostname = "{host}"
  send_metadata_interval = 1 host_dmax = 0 }}
cluster {{ name = "{cluster}" }}
udp_send_channel {{ host = 127.0.0.1 port = {udp} }}
udp_recv_channel {{ bind = 127.0.0.1 port = {udp} }}
tcp_accept_channel {{ bind = 127.0.0.1 port = {port} }}
modules {{
  module {{ name = "core_metrics" }}
  module {{ name = "mem_module" path = "{modules}/modmem.so" }}
  module {{ name = "sys_module" path = "{modules}/modsys.so" }}
}}
collection_group {{ collect_once = yes time_threshold = 20
  metric {{ name = "heartbeat" }} metric {{ name = "os_name" }} metric {{ name = "mem_total" }} }}
collection_group {{ collect_every = 1 time_threshold = 1 metric {{ name = "mem_free" }} }}
"""
_START_S: Final = 60.0


class GmondServer:
    """One gmond. Leaving the `with` block kills it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.port, self._udp = free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def target(self) -> str:
        """Its address."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it has collected."""
        text = _CONFIGURATION.format(
            host=HOST, cluster=CLUSTER, udp=self._udp, port=self.port,
            modules=_tree() / "usr/lib/x86_64-linux-gnu/ganglia",
        )  # fmt: skip
        self._file.write_text(text, encoding="utf-8")
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*DIES_WITH_US, str(_tree() / "usr/sbin/gmond"), "-c", str(self._file)],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=debian.environment(_tree()),
            )  # fmt: skip
        wait_until(self._has_collected, _START_S, "gmond has collected")

    def report(self, name: str, value: object, **options: str) -> None:
        """Report a metric as an application does, by Ganglia's `gmetric`."""
        given = {"type": "double", **options}
        subprocess.run(
            [
                str(_tree() / "usr/bin/gmetric"), "-c", str(self._file), f"--name={name}",
                f"--value={value}", *(f"--{key}={text}" for key, text in given.items()),
            ],
            check=True, capture_output=True, timeout=30, env=debian.environment(_tree()),
        )  # fmt: skip

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.kill()

    def answer(self) -> str:
        """Return what it answers."""
        with socket.create_connection(("127.0.0.1", self.port), 10) as one:
            parts = []
            while block := one.recv(1 << 16):
                parts.append(block)
        return b"".join(parts).decode()

    @property
    def _file(self) -> Path:
        return self._folder / "gmond.conf"

    def _has_collected(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]
        try:
            return all(name in self.answer() for name in ("mem_total", "mem_free", "os_name"))
        except ConnectionError:
            return False


class FakeGmond:
    """Answers whoever connects with the bytes that a test gives it, and closes; `hangs`: and does
    not close.
    """

    def __init__(self, body: bytes, *, hangs: bool = False) -> None:
        ending = self._ending = threading.Event()

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                self.request.sendall(body)
                if hangs:
                    ending.wait(10)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self.target = f"127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _tree() -> Path:
    return debian.unpacked("ganglia", *_PACKAGES)
