"""Real etcd for tests: one member or several, on private ports and folders.

    with EtcdServers(folder, 3) as servers:
        settings = servers.settings()
        servers.kill(0); servers.start(0)
        servers.pause(1); servers.resume(1)

The binary is `ETCD_BIN`, else `etcd` on PATH (Debian: etcd-server).
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pytest

from penstock.cluster.grants import SERVICES, role_commands
from penstock.etcd import EtcdSettings
from penstock.telemetry.redaction import Secret
from penstock_kit.testing import wait_until
from support.processes import DIES_WITH_US, free_ports

PASSWORD: Final = "secret-of-etcd"
"""Of every user of a guarded one."""


def etcd_binary() -> str:
    """Return the etcd to run; a machine without one fails the test and says what to install."""
    found = os.environ.get("ETCD_BIN") or shutil.which("etcd")
    if not found:
        pytest.fail("no etcd: run deploy/local/setup.sh dev, or name one in ETCD_BIN")
    return found


class EtcdServers:
    """An etcd cluster. Leaving the `with` block kills it."""

    def __init__(
        self,
        folder: Path,
        members: int = 1,
        *options: str,
        host: str = "127.0.0.1",
        fsync: bool = False,
    ) -> None:
        """Prepare `members` of them; `options` go to each. They serve at `host`."""
        self._folder, self._host = folder, host
        ports = free_ports(3 * members)
        self._client, self._peer, self._health = (ports[i::3] for i in range(3))
        # a kill of the process loses nothing that the kernel has; a slow disk would fail tests
        self._options = [*options, *([] if fsync else ["--unsafe-no-fsync"])]
        self._scheme = "https" if "--cert-file" in options else "http"
        self._guarded = False
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The members as HOST:PORT."""
        return tuple(f"{self._host}:{port}" for port in self._client)

    def settings(self, **fields: Any) -> EtcdSettings:
        """Return settings that name all members, for root where there are users."""
        root = {"user": "root", "password": Secret(PASSWORD)} if self._guarded else {}
        return EtcdSettings(**{"endpoints": self.endpoints, **root, **fields})

    def patient_settings(self, **fields: Any) -> EtcdSettings:
        """Return settings with which a slow machine fails no call: for tests of anything else."""
        return self.settings(**{"call_timeout_s": 60.0, "retry_timeout_s": 120.0, **fields})

    def guard(self, cluster: str = "default") -> None:
        """Let nobody in but users: root, and one for each service, with what it is granted."""
        for line in role_commands(cluster):
            self.control(0, *shlex.split(line)[1:])
        for user in ("root", *SERVICES):
            self.control(0, "user", "add", f"{user}:{PASSWORD}")
            role = "root" if user == "root" else f"penstock-{cluster}-{user}"
            self.control(0, "user", "grant-role", user, role)
        self.control(0, "auth", "enable")
        self._guarded = True

    def start(self, *which: int) -> None:
        """Start members (all when none is named), and wait until they serve."""
        numbers = which or range(len(self._client))
        for number in numbers:
            self._start(number)
        for number in numbers:
            self._wait(number)

    def kill(self, number: int) -> None:
        """End a member as a power cut would."""
        process = self._running.pop(number)
        process.kill()
        process.wait()

    def lose(self, number: int) -> None:
        """End a member and remove its data; started again, its revisions begin at 1."""
        self.kill(number)
        shutil.rmtree(self._folder / f"etcd-{number}" / "data")

    def pause(self, number: int) -> None:
        """Stop a member without ending it; returns when none of its threads runs any more."""
        process = self._running[number]
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: _stopped(process.pid), 60, f"etcd member {number} to stop")

    def resume(self, number: int) -> None:
        """Let a paused member go on."""
        self._running[number].send_signal(signal.SIGCONT)

    def leader(self) -> int:
        """Return which running member leads; waits for an election."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            for number in self._running:
                status = json.loads(self.control(number, "endpoint", "status", "-w", "json"))[0]
                if status["Status"]["header"]["member_id"] == status["Status"].get("leader"):
                    return number
            time.sleep(0.05)
        raise TimeoutError("no member leads")

    def control(self, number: int, *arguments: str) -> str:
        """Run etcdctl against one member; returns what it prints."""
        command = ["etcdctl", "--endpoints", self.endpoints[number], *arguments]
        if self._guarded:
            command += ["--user", f"root:{PASSWORD}"]
        if self._scheme == "https":
            command += ["--insecure-transport=false", "--insecure-skip-tls-verify"]
        environment = {**os.environ, "ETCDCTL_API": "3"}
        done = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=True)
        return done.stdout.decode(errors="backslashreplace")  # values may be sealed

    def close(self) -> None:
        """Kill what runs."""
        for number in tuple(self._running):
            self.kill(number)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _start(self, number: int) -> None:
        assert number not in self._running, f"member {number} runs"
        client = f"{self._scheme}://{self._host}:{self._client[number]}"
        peers = [f"http://127.0.0.1:{port}" for port in self._peer]
        home = self._folder / f"etcd-{number}"
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = [
            *DIES_WITH_US,
            etcd_binary(),
            *("--name", f"n{number}", "--data-dir", str(home / "data")),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peers[number], "--initial-advertise-peer-urls", peers[number]),
            *("--initial-cluster", ",".join(f"n{i}={url}" for i, url in enumerate(peers))),
            *(
                "--listen-metrics-urls",
                f"http://127.0.0.1:{self._health[number]}",
            ),  # plain also with TLS
            *("--log-level", "warn", "--logger", "zap", *self._options),
        ]
        with (home / "log").open("ab") as log:
            self._running[number] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _wait(self, number: int) -> None:
        url = f"http://127.0.0.1:{self._health[number]}/health"
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if self._running[number].poll() is not None:
                break
            try:
                with urllib.request.urlopen(url, timeout=1) as answer:
                    if b"true" in answer.read():
                        return
            except (urllib.error.URLError, OSError):
                time.sleep(0.02)
        log = (self._folder / f"etcd-{number}" / "log").read_text(errors="replace")
        raise RuntimeError(f"etcd did not start\n{log[-3000:]}")


def _stopped(pid: int) -> bool:
    """Return whether every thread of a process is stopped: one that runs answers once more."""
    stats = (file.read_text(encoding="utf-8") for file in Path(f"/proc/{pid}/task").glob("*/stat"))
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)
