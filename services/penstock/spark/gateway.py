"""The JVM's process, and the connection to it.

pyspark starts a JVM too, but drops the process when the start fails, and waits for ever when it
hangs. So the process is started here, and pyspark is only told where to connect.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from pyspark import SparkConf
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from penstock.spark.environment import of_engine

START_WITHIN: Final = 120.0
"""Seconds in which the JVM has to answer. It needs two; more on a machine that is overloaded."""

LOOK_EVERY: Final = 0.05
"""Seconds between two looks for the JVM's answer, which is a file."""


def spawn(conf: SparkConf, folder: Path, output: IO[Any] | None) -> subprocess.Popen[bytes]:
    """Start the JVM, in a session of its own: a Ctrl-C in the terminal is ours to handle.

    It ends when its standard input does, thus with this process. It writes where it listens into
    `folder`; `connect` waits for that.
    """
    command = [str(Path(_find_spark_home(), "bin", "spark-submit"))]
    for key, value in conf.getAll():
        command += ["--conf", f"{key}={value}"]
    command += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    environment = {
        **of_engine(os.environ),
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(_answer(folder)),
    }
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        env=environment,
        start_new_session=True,
    )


def connect(process: subprocess.Popen[bytes], folder: Path) -> Any:
    """Wait until the JVM listens, and return pyspark's gateway to it.

    Raises:
        ChildProcessError: The JVM ended first.
        TimeoutError: It does not answer.
    """
    answer, deadline = _answer(folder), time.monotonic() + START_WITHIN
    while not answer.is_file():  # it is moved into its place when it is whole
        if process.poll() is not None:
            raise ChildProcessError(f"the JVM ended with status {process.returncode}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"the JVM did not answer within {START_WITHIN:g} s")
        time.sleep(LOOK_EVERY)
    with answer.open("rb") as file:
        port, secret = read_int(file), UTF8Deserializer().loads(file)
    with _told({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}):
        return launch_gateway()


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the JVM, or the scripts that are about to become it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def answer_folder(parent: Path | None) -> Iterator[Path]:
    """Yield a private folder for the JVM's answer: it holds a secret."""
    with tempfile.TemporaryDirectory(prefix="penstock-jvm-", dir=parent) as folder:
        yield Path(folder)


@contextmanager
def _told(variables: dict[str, str]) -> Iterator[None]:
    """Set variables of this process for a moment: pyspark knows no other way."""
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


def _answer(folder: Path) -> Path:
    return folder / "listens-at"
