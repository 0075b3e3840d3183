"""Real MySQL for tests, on a private port and folder; used as `support.mariadb` is.

    with MysqlServer() as server:
        server.sql("CREATE DATABASE shop")

Debian's stable releases have no MySQL, its unstable one (sid) has. The packages are downloaded
once, their signatures checked by apt, and unpacked into a cache folder: nothing is installed. They
bring the C library that they need and are started by its loader. `PENSTOCK_CACHE` names the cache
folder (else `~/.cache/penstock`); `MYSQL_TREE` names a folder that has such a tree already. The
packages stay in the cache, so the version stays what it is until the folder is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest
from pymysql.constants import CLIENT

from support.mariadb import MariadbServer

_MIRROR = "http://deb.debian.org/debian"
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_DOWNLOAD_WITHIN = 600.0
_SMALL = ("--innodb-redo-log-capacity=8M", "--innodb-buffer-pool-size=64M")


_SEQUENCE = re.compile(r"\bseq_1_to_(\d+)\b")
_LONGEST_SEQUENCE = 10_000_000


def as_mysql(statement: str) -> str:
    """Return a statement with what MySQL has in place of MariaDB's tables of numbers."""
    return _SEQUENCE.sub(
        r"(WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < \1) "
        r"SELECT seq FROM n) numbers",
        statement,
    )


class MysqlServer(MariadbServer):
    """One server. Leaving the `with` block kills it."""

    def url(self, database: str = "", port: int | None = None) -> str:
        """Return a JDBC URL."""
        return f"jdbc:mysql://127.0.0.1:{port or self.port}/{database}"

    def initialize(self) -> None:
        """Take a data folder that was made once: making one takes seconds."""
        made = _cache() / "data"
        half = made.with_suffix(".half")
        command = self._mysqld(half)
        with _locked():
            if not made.exists():
                shutil.rmtree(half, ignore_errors=True)
                self._run(*command, "--initialize-insecure", *_SMALL)
                (half / "auto.cnf").unlink()  # the server's own name: each has another
                half.rename(made)
        subprocess.run(["cp", "-r", "--reflink=auto", made, self._data], check=True)

    def sql(self, statement: str, database: str = "") -> str:
        """Run statements as root; returns what they print, tabs between columns."""
        try:
            connection = pymysql.connect(
                unix_socket=self._socket,
                user="root",
                database=database or None,
                autocommit=True,
                client_flag=CLIENT.MULTI_STATEMENTS,
            )
        except pymysql.MySQLError as error:
            raise RuntimeError(str(error)) from error
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
            lines = list(cursor.fetchall())
            while cursor.nextset():
                lines += cursor.fetchall()
        return "\n".join("\t".join(map(str, line)) for line in lines)

    def _command(self) -> list[str]:
        return [
            *self._mysqld(Path(self._data)),
            *(f"--port={self.port}", "--bind-address=127.0.0.1", f"--socket={self._socket}"),
            *(f"--pid-file={self.folder / 'pid'}", f"--tmpdir={self._temporary}", "--mysqlx=OFF"),
            *("--server-id=1", "--log-bin=binlog", "--binlog-row-image=FULL"),
            *("--binlog-row-metadata=FULL", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"),
            *("--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1", *_SMALL),
            *("--skip-name-resolve", "--local-infile=ON", "--performance-schema=OFF"),
            f"--cte-max-recursion-depth={_LONGEST_SEQUENCE}",
        ]

    def _mysqld(self, data: Path) -> list[str]:
        tree = mysql_tree()
        libraries = tree / "usr/lib/x86_64-linux-gnu"
        return [
            str(libraries / "ld-linux-x86-64.so.2"),
            *("--library-path", str(libraries), str(tree / "usr/sbin/mysqld")),
            *("--no-defaults", f"--basedir={tree / 'usr'}", "--user=root", f"--datadir={data}"),
            f"--lc-messages-dir={tree / 'usr/share/mysql'}",
            f"--plugin-dir={tree / 'usr/lib/mysql/plugin'}",
            "--secure-file-priv=",
        ]


def mysql_tree() -> Path:
    """Return the folder that MySQL is unpacked in; a machine without it and without a way to get
    it fails the test.
    """
    named = os.environ.get("MYSQL_TREE")
    if named:
        return Path(named)
    with _locked():
        tree = _cache() / "tree"
        if not tree.exists():
            try:
                _unpack(tree)
            except (OSError, subprocess.SubprocessError) as error:
                said = getattr(error, "stderr", None) or error
                pytest.fail(
                    f"no MySQL: its packages could not be had from {_MIRROR}: {str(said)[-500:]}. "
                    "Let apt reach it, or name an unpacked tree in MYSQL_TREE"
                )
        return tree


def _unpack(tree: Path) -> None:
    apt = _cache() / "apt"
    for folder in ("lists/partial", "cache/archives/partial", "sources.list.d"):
        (apt / folder).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()  # nothing is installed: all that it needs comes along
    (apt / "sources.list").write_text(f"deb [signed-by={_KEYRING}] {_MIRROR} sid main\n")
    options = {
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": apt / "sources.list.d",
        "Dir::State::lists": apt / "lists",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt / "cache",
        "APT::Get::List-Cleanup": "0",
        "APT::Sandbox::User": "root",  # a cache in a home folder is closed to others
    }
    command = ["apt-get", *(f"-o{name}={value}" for name, value in options.items())]
    _run(*command, "update")
    _run(
        *command, "--no-install-recommends", "-y", "--download-only", "install",
        "mysql-server-core",
    )  # fmt: skip
    half = tree.with_suffix(".half")
    shutil.rmtree(half, ignore_errors=True)
    for package in sorted((apt / "cache/archives").glob("*.deb")):
        _run("dpkg", "-x", str(package), str(half))
    half.rename(tree)


def _run(*command: str) -> None:
    subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=_DOWNLOAD_WITHIN,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def _cache() -> Path:
    base = os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache/penstock"
    folder = Path(base, "mysql")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Let one process at a time fill the cache."""
    with (_cache() / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
