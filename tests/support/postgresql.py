"""Real PostgreSQL for tests, on a private port and folder.

    with PostgresqlServer(folder) as server:
        settings = server.settings("schema")
        server.kill(); server.start()

The programs are those of `PG_BIN`, else the newest of Debian's (package postgresql). PostgreSQL
refuses to run as root, so it runs as `postgres` or `nobody` then.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from penstock.store.postgresql.settings import PostgresqlSettings
from penstock.telemetry.redaction import Secret
from penstock_kit.testing import wait_until
from penstock_kit.testing.process_tree import Process, list_tree, read_process
from support.processes import DIES_WITH_US, free_ports


def postgresql_programs() -> Path:
    """Return the folder of the programs; a machine without them fails the test."""
    named = os.environ.get("PG_BIN")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda f: int(f.parent.name))
    if not named and not found:
        pytest.fail("no PostgreSQL: run deploy/local/setup.sh dev, or name its folder in PG_BIN")
    return Path(named) if named else found[-1]


class PostgresqlServer:
    """One server with one database. Leaving the `with` block kills it."""

    def __init__(self, *options: str) -> None:
        """Prepare a cluster in a folder of its own, short because of its unix socket. `options` are
        the server's, for instance `wal_level=logical`.
        """
        self.folder = Path(tempfile.mkdtemp(prefix="psg-"))
        (self.port,) = free_ports(1)
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._as: tuple[str, ...] = ()
        if os.getuid() == 0:
            user = _unprivileged()
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            ids = (f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
            self._as = ("setpriv", *ids)

    def settings(self, schema: str = "penstock", user: str = "penstock") -> PostgresqlSettings:
        """Return settings for one schema."""
        url = f"postgresql://{user}@/postgres?host={self.folder}&port={self.port}"
        return PostgresqlSettings(Secret(url), schema)

    def initialize(self) -> None:
        """Make the cluster."""
        options = ("--username=penstock", "--auth=trust", "--encoding=UTF8", "--no-sync")
        self._run(postgresql_programs() / "initdb", "-D", self._data, *options)

    def start(self) -> None:
        """Start the server, and wait until it takes connections."""
        command = [
            *self._as,
            *DIES_WITH_US,
            str(postgresql_programs() / "postgres"),
            *("-D", self._data, "-p", str(self.port), "-k", str(self.folder)),
            *("-c", "listen_addresses=127.0.0.1", "-c", "max_connections=60"),
            *("-c", "dynamic_shared_memory_type=mmap"),  # in its folder: a kill leaves nothing
            *(part for option in self._options for part in ("-c", option)),
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
            )
        self._wait()

    def kill(self) -> None:
        """End all of it as a power cut would. What serves a connection leads a group of its own,
        and a server does not start while one of the last one's is alive.
        """
        if self._process is None:
            return
        self._process.send_signal(signal.SIGSTOP)  # it forks no more
        family = list_tree(self._process.pid)
        for process in family:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
        wait_until(lambda: not any(_lives(one) for one in family), 60, "PostgreSQL to be gone")

    def sql(self, statement: str) -> str:
        """Run a statement; returns what it prints."""
        where = ("-h", str(self.folder), "-p", str(self.port), "-U", "penstock", "-d", "postgres")
        return self._run(postgresql_programs() / "psql", *where, "-Atc", statement)

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

    def _run(self, program: Path, *arguments: str) -> str:
        done = subprocess.run(
            [*self._as, str(program), *arguments],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program.name} failed\n{done.stdout}")
        return done.stdout.strip()

    def _wait(self) -> None:
        where = ("-h", str(self.folder), "-p", str(self.port), "-q")
        end = time.monotonic() + 60
        while time.monotonic() < end:
            done = subprocess.run([str(postgresql_programs() / "pg_isready"), *where], check=False)
            if done.returncode == 0:
                return
            time.sleep(0.05)
        raise RuntimeError((self.folder / "log").read_text(errors="replace")[-3000:])


def _lives(process: Process) -> bool:
    now = read_process(process.pid)
    return now is not None and now.identity == process.identity


def _unprivileged() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("neither `postgres` nor `nobody` is a user here")
