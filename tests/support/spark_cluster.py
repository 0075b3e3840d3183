"""A standalone Spark cluster on this machine, out of the jars that PySpark brings."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark

from penstock_kit.testing import wait_until
from support.processes import DIES_WITH_US, free_ports

_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"


@contextmanager
def spark_cluster(folder: Path, cores: int = 4) -> Iterator[str]:
    """Yield the URL of a master with one worker; both end with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    port, ui, worker_ui = free_ports(3)
    url = f"spark://127.0.0.1:{port}"
    master = _start(folder, _MASTER, "--port", str(port), "--webui-port", str(ui))
    try:
        wait_until(lambda: "Starting Spark master" in _log(folder, _MASTER), 60, "Spark's master")
        size = ("--cores", str(cores), "--memory", "3g", "--webui-port", str(worker_ui))
        worker = _start(folder, _WORKER, *size, "--work-dir", str(folder / "work"), url)
        try:
            registered = "Successfully registered with master"
            wait_until(lambda: registered in _log(folder, _WORKER), 60, "Spark's worker")
            yield url
        finally:
            _end(worker)
    finally:
        _end(master)


def _scala(home: Path) -> str:
    (core,) = (home / "jars").glob("spark-core_*.jar")
    return core.name.removeprefix("spark-core_").partition("-")[0]


def _start(folder: Path, main: str, *arguments: str) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_SCALA_VERSION": _scala(home),  # as Spark's own scripts set it
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_NO_DAEMONIZE": "1",
    }
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    command = [str(java), "-Xmx256m", "-cp", f"{home / 'jars'}/*", main, "--host", "127.0.0.1"]
    with (folder / f"{main}.log").open("wb") as log:
        return subprocess.Popen(
            [*DIES_WITH_US, *command, *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _log(folder: Path, main: str) -> str:
    return (folder / f"{main}.log").read_text(encoding="utf-8", errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
