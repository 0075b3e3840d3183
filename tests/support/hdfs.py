"""A real HDFS for tests: a name node and a data node in one process, on private ports and in a
private folder.

    with HdfsServer(folder) as hdfs:
        hdfs.url; hdfs.kill(); hdfs.start()

Its jars come from Maven (`support.maven`). Files belong to `USER`, who has all rights.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock_kit.testing import wait_until
from support import maven
from support.processes import DIES_WITH_US, free_ports

VERSION: Final = "3.5.0"
USER: Final = "hdfs"
_START_S: Final = 120.0
_SOURCE: Final = Path(__file__).with_name("MiniHdfs.java")


class HdfsServer:
    """A cluster of one data node. Leaving the `with` block kills it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port, self._http = free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None
        self._formatted = False

    @property
    def url(self) -> str:
        """What paths begin with."""
        return f"hdfs://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, with the files that it had, and wait until it takes writes."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._log.write_bytes(b"")
        jars = maven.jars(
            f"hdfs/minicluster-{VERSION}",
            f"org.apache.hadoop:hadoop-client-minicluster:{VERSION}",
        )
        options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Duser.name={USER}"]
        options.append(f"-Djava.io.tmpdir={self._folder}")
        arguments = [str(self._folder / "data"), str(self.port), str(self._http)]
        arguments.append("keep" if self._formatted else "format")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*DIES_WITH_US, "java", *options, "-cp", f"{jars}/*", str(_SOURCE), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=self._environment(),
            )
        wait_until(self._is_ready, _START_S, "HDFS is ready")
        self._formatted = True

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Stop it without ending it: whoever asks hangs."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def _log(self) -> Path:
        return self._folder / "hdfs.log"

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "HADOOP_USER_NAME": USER}

    def _is_ready(self) -> bool:
        assert self._process is not None
        text = self._log.read_text(encoding="utf-8", errors="replace")
        assert self._process.poll() is None, f"HDFS ended: {text[-3000:]}"
        return "\nready\n" in f"\n{text}"
