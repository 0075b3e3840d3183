"""A real ClickHouse of 2018 for tests, the one that Debian has, on a private port and folder.

    with OldClickHouse() as server:
        server.port

It knows neither Arrow nor tokens: what it is good for is to be refused by name. Its packages, and
what of their libraries this machine has not, are downloaded once by apt and unpacked into a cache
folder: nothing is installed and no service is started. `PENSTOCK_CACHE` names the cache folder
(else `~/.cache/penstock`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest

from penstock_kit.testing import wait_until
from support.processes import DIES_WITH_US, free_ports

_DOWNLOAD_WITHIN: Final = 300.0

_CONFIG: Final = """<yandex>
<logger><level>warning</level><console>1</console></logger>
<http_port>{http}</http_port><tcp_port>{tcp}</tcp_port><interserver_http_port>{inner}</interserver_http_port>
<listen_host>127.0.0.1</listen_host><path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path>
<users_config>{folder}/users.xml</users_config><default_profile>default</default_profile>
<default_database>default</default_database><mark_cache_size>5368709</mark_cache_size>
</yandex>"""

_USERS: Final = """<yandex>
<profiles><default></default></profiles><quotas><default></default></quotas>
<users><default><password></password><networks><ip>127.0.0.1</ip></networks>
<profile>default</profile><quota>default</quota></default></users>
</yandex>"""


class OldClickHouse:
    """One server. Leaving the `with` block kills it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="psc-"))
        self.port, tcp, inner = free_ports(3)
        settings = {"http": self.port, "tcp": tcp, "inner": inner, "folder": self.folder}
        (self.folder / "config.xml").write_text(_CONFIG.format(**settings))
        (self.folder / "users.xml").write_text(_USERS)

    def __enter__(self) -> Self:
        tree = _tree()
        libraries = [f"{tree}/usr/lib/x86_64-linux-gnu", f"{tree}/lib/x86_64-linux-gnu"]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *DIES_WITH_US,
                    f"{tree}/usr/sbin/clickhouse-server",
                    f"--config-file={self.folder}/config.xml",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, "LD_LIBRARY_PATH": ":".join(libraries)},
            )
        wait_until(self._answers, 60, "a ClickHouse of 2018")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError((self.folder / "log").read_text(errors="replace")[-3000:])
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ping", timeout=5) as answer:
                return answer.read() == b"Ok.\n"
        except OSError:
            return False


def _tree() -> Path:
    """Return the folder that it is in; a machine without a way to get it fails the test."""
    base = Path(os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache/penstock", "clickhouse")
    base.mkdir(parents=True, exist_ok=True)
    with _locked(base):
        tree = base / "tree"
        if not tree.exists():
            try:
                _unpack(base, tree)
            except (OSError, subprocess.SubprocessError) as error:
                said = getattr(error, "stderr", None) or error
                pytest.fail(
                    f"no clickhouse-server by apt: {str(said)[-500:]}. Let apt reach Debian"
                )
        return tree


def _unpack(base: Path, tree: Path) -> None:
    (base / "apt/archives/partial").mkdir(parents=True, exist_ok=True)
    options = [f"-oDir::Cache={base / 'apt'}", "-oAPT::Sandbox::User=root"]
    wanted = ["--no-install-recommends", "-y", "--download-only", "install", "clickhouse-server"]
    _run("apt-get", *options, *wanted)
    half = tree.with_suffix(".half")
    shutil.rmtree(half, ignore_errors=True)
    for package in sorted((base / "apt/archives").glob("*.deb")):
        _run("dpkg", "-x", str(package), str(half))
    half.rename(tree)


def _run(*command: str) -> None:
    subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=_DOWNLOAD_WITHIN,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


@contextlib.contextmanager
def _locked(base: Path) -> Iterator[None]:
    """Let one process at a time fill the cache."""
    with (base / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
