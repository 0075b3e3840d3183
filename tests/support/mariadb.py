"""Real MariaDB for tests, on a private port and folder, with a binary log of rows.

    with MariadbServer() as server:
        server.sql("CREATE DATABASE shop")
        url = server.url("shop")
        server.kill(); server.start()

The programs are those of `MARIADB_BIN`, else Debian's (package mariadb-server). The user is
`penstock` with the password of the same name, with all rights.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from support.processes import DIES_WITH_US, free_ports

USER = "penstock"
PASSWORD = "penstock"
_ROWS_OF_LOG = ("--binlog-format=ROW", "--binlog-row-image=FULL", "--binlog-row-metadata=FULL")


def mariadb_program(name: str) -> str:
    """Return the path of a program; a machine without it fails the test."""
    path = os.pathsep.join([os.environ.get("MARIADB_BIN", ""), "/usr/sbin", os.environ["PATH"]])
    found = shutil.which(name, path=path)
    if found is None:
        pytest.fail("no MariaDB: run deploy/local/setup.sh dev, or name its folder in MARIADB_BIN")
    return found


class MariadbServer:
    """One server. Leaving the `with` block kills it."""

    def __init__(self, *options: str) -> None:
        """Prepare a folder of its own, short because of its unix socket. `options`: mariadbd's."""
        self.folder = Path(tempfile.mkdtemp(prefix="psm-"))
        (self.port,) = free_ports(1)
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "", port: int | None = None) -> str:
        """Return a JDBC URL."""
        return f"jdbc:mariadb://127.0.0.1:{port or self.port}/{database}"

    def initialize(self) -> None:
        """Make the data folder, and the user."""
        self._run(
            mariadb_program("mariadb-install-db"),
            *(f"--datadir={self._data}", "--user=root", "--auth-root-authentication-method=normal"),
            *("--skip-test-db", "--no-defaults", f"--tmpdir={self._temporary}"),
        )

    def start(self) -> None:
        """Start the server, and wait until it takes connections."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*DIES_WITH_US, *self._command(), *self._options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
            )
        self._wait()
        self.sql(f"CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'")
        self.sql(f"GRANT ALL PRIVILEGES ON *.* TO '{USER}'@'%' WITH GRANT OPTION")

    def _command(self) -> list[str]:
        return [
            mariadb_program("mariadbd"),
            *("--no-defaults", "--user=root", f"--datadir={self._data}", f"--port={self.port}"),
            f"--tmpdir={self._temporary}",
            *("--bind-address=127.0.0.1", f"--socket={self._socket}"),
            *("--server-id=1", "--log-bin=binlog", *_ROWS_OF_LOG, "--gtid-strict-mode=ON"),
            *("--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1"),
            *("--innodb-buffer-pool-size=128M", "--innodb-log-file-size=96M"),
            *("--character-set-server=utf8mb4", "--skip-name-resolve", "--local-infile=ON"),
            "--performance-schema=OFF",
        ]

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Stop it without ending it."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGCONT)

    def sql(self, statement: str, database: str = "") -> str:
        """Run statements as root; returns what they print, tabs between columns."""
        where = ("--no-defaults", "-uroot", f"--socket={self._socket}", "-N", "-B")
        return self._run(
            mariadb_program("mariadb"), *where, "--default-character-set=utf8mb4", database or "",
            text=statement,
        )  # fmt: skip

    def close(self) -> None:
        """Kill it and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        self.initialize()
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    @property
    def _temporary(self) -> str:
        """One of its own: a server that starts deletes the temporary tables of its neighbours."""
        (self.folder / "t").mkdir(exist_ok=True)
        return str(self.folder / "t")

    @property
    def _socket(self) -> str:
        return str(self.folder / "s")

    def _run(self, program: str, *arguments: str, text: str = "") -> str:
        done = subprocess.run(
            [program, *filter(None, arguments)],
            cwd=self.folder,
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{Path(program).name} failed\n{done.stdout}")
        return done.stdout.strip()

    def _wait(self) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                self.sql("SELECT 1")
            except RuntimeError:
                assert self._process is not None
                if self._process.poll() is not None:
                    break
                time.sleep(0.05)
            else:
                return
        raise RuntimeError((self.folder / "log").read_text(errors="replace")[-3000:])
