"""`penstock standalone worker.properties a.properties b.properties`, as Kafka Connect has it."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import httpx
import pytest

from penstock.gateway.access import passwords
from penstock_kit.testing import PenstockProcess
from system.pipelines import ended, nothing_left, nothing_runs

WORKER = """\
bootstrap.servers=localhost:9092
topics.backend=embedded
key.converter.schemas.enable=true
value.converter.schemas.enable=true
offset.storage.file.filename={folder}/connect.offsets
offset.flush.interval.ms=10000
"""

SOURCE = """\
name=local-file-source
connector.class=FileStreamSource
tasks.max=1
file={folder}/in.txt
topic=connect-test
"""

SINK = """\
name=local-file-sink
connector.class=org.apache.kafka.connect.file.FileStreamSinkConnector
tasks.max=1
file={folder}/out.txt
topics=connect-test
"""

PAUSED = """\
state=PAUSED
source.connector.class=file-source
source.file={folder}/in.txt
sink.connector.class=file-sink
sink.file={folder}/paused.txt
"""

MISSING = """\
name=oracle
connector.class=io.debezium.connector.oracle.OracleConnector
database.password=123456
"""

MOVING = 180.0
"""Seconds until rows arrive, with a start of a JVM before the first."""


class Standalone:
    """The three files of Kafka Connect's quick start, in a folder, and that of a pipeline."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        texts = {"worker": WORKER, "source": SOURCE, "sink": SINK, "paused": PAUSED}
        self.files = [write(folder, name, text) for name, text in texts.items()]
        self._starts = 0

    def command(self) -> PenstockProcess:
        """Return the next start of the same command."""
        self._starts += 1
        return PenstockProcess(self.folder / f"run{self._starts}", "standalone", *self.files)

    def add(self, count: int) -> None:
        """Append numbered lines to the source's file."""
        first = len(self.lines)
        new = [f"line {number}" for number in range(first, first + count)]
        with (self.folder / "in.txt").open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in new)
        self.lines += new

    def written(self) -> list[str]:
        """Return what the sink's file has."""
        path = self.folder / "out.txt"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def arrive(self, process: PenstockProcess, stage: str) -> None:
        """Wait until as many lines are there as were given; they must be the same."""
        process.wait_for(lambda: len(self.written()) >= len(self.lines), MOVING, stage)
        assert self.written() == self.lines


def write(folder: Path, name: str, text: str) -> Path:
    """Write a properties file; `{folder}` in it is replaced."""
    path = folder / f"{name}.properties"
    path.write_text(text.replace("{folder}", str(folder)), encoding="utf-8")
    return path


@pytest.mark.timeout(600)
def test_kafka_connects_files_run_as_they_are_and_survive_every_kill(tmp_path: Path) -> None:
    """File → topic → file: a kill of the JVM, then of the command, then an orderly stop."""
    standalone = Standalone(tmp_path)
    standalone.add(1000)
    with standalone.command() as process:
        standalone.arrive(process, "the first lines to arrive")
        jvm = next(p for p in process.process_tree() if p.program == "java")
        os.kill(jvm.pid, signal.SIGKILL)
        standalone.add(500)
        standalone.arrive(process, "lines to arrive through a new JVM")
        standalone.add(5000)
        process.kill()
        nothing_runs(process)
    with standalone.command() as process:
        standalone.add(500)
        standalone.arrive(process, "lines to arrive after the kill")
        assert "connector paused is paused (pipeline)" in process.output
        process.signal(signal.SIGTERM)
        process.wait_for(lambda: process.returncode is not None, 60, "the end after SIGTERM")
        assert ended(process).code == 0
        nothing_left(process)
        assert "warning: [config.not_here_yet] `bootstrap.servers`" in process.output
    assert standalone.written() == standalone.lines
    assert not (tmp_path / "paused.txt").exists()


def test_files_for_a_plugin_that_is_missing_load_and_name_it(tmp_path: Path) -> None:
    """The files are read, what has no effect is said, and what is missing has its name."""
    files = [write(tmp_path, "worker", WORKER), write(tmp_path, "connector", MISSING)]
    with PenstockProcess(tmp_path / "run", "standalone", *files) as process:
        outcome = ended(process)
        nothing_left(process)
    assert outcome.code == 2, outcome.output
    assert "error: [plugin.not_installed]" in outcome.output
    assert "'io.debezium.connector.oracle.OracleConnector'" in outcome.output
    for key in ("bootstrap.servers", "key.converter.schemas.enable", "offset.flush.interval.ms"):
        assert f"warning: [config.not_here_yet] `{key}`" in outcome.output
    assert "123456" not in outcome.output
    assert "Traceback" not in outcome.output


USERS = """\
users:
  vera: {password: "%s", may: [viewer]}
"""


def test_its_rest_api_asks_who_it_is(tmp_path: Path) -> None:
    """The keys of the gateway mean the same here."""
    (tmp_path / "users.yaml").write_text(USERS % passwords.hash_password("secret"))
    told = "listeners=http://:0\nauth.users={folder}/users.yaml\n"
    standalone = Standalone(tmp_path)
    write(tmp_path, "worker", WORKER + told)
    with standalone.command() as process:
        process.wait_for(lambda: "REST at " in process.output, MOVING, "its REST API")
        url = re.search(r"REST at (\S+)", process.output)[1].replace("0.0.0.0", "127.0.0.1")
        assert httpx.get(f"{url}/connectors").status_code == 401
        with httpx.Client(base_url=url, auth=("vera", "secret"), timeout=60) as vera:
            assert "paused" in vera.get("/connectors").json()
            assert vera.put("/connectors/paused/resume").status_code == 403


def test_it_is_open_to_others_only_where_that_is_meant(tmp_path: Path) -> None:
    standalone = Standalone(tmp_path)
    write(tmp_path, "worker", WORKER + "listeners=http://:0\n")
    with standalone.command() as process:
        outcome = ended(process)
        nothing_left(process)
    assert outcome.code == 2, outcome.output
    assert "error: [access.open]" in outcome.output


def test_without_connectors_it_waits_for_those_of_its_rest_api(tmp_path: Path) -> None:
    standalone = Standalone(tmp_path)
    write(tmp_path, "worker", WORKER + "listeners=http://127.0.0.1:0\n")
    standalone.files = standalone.files[:1]
    standalone.add(3)
    with standalone.command() as process:
        process.wait_for(lambda: "REST at " in process.output, MOVING, "its REST API")
        url = re.search(r"REST at (\S+)", process.output)[1]
        with httpx.Client(base_url=url, timeout=60) as client:
            assert client.get("/connectors").json() == []
            for text in (SOURCE, SINK):
                lines = text.replace("{folder}", str(tmp_path)).splitlines()
                config = dict(line.split("=", 1) for line in lines)
                body = {"name": config["name"], "config": config}
                assert client.post("/connectors", json=body).status_code == 201
        standalone.arrive(process, f"lines to arrive through connectors of {url}")
