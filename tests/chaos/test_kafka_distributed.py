"""Kafka Connect's distributed mode, by its worker file: two machines are one cluster, and one of
them dies while rows go into Kafka and out of it.
"""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from penstock_kit.testing import PenstockProcess, Spans, check_delivery, read_ledger
from support.etcd import EtcdServers
from support.kafka import KafkaServer
from support.processes import free_ports

pytestmark = pytest.mark.timeout(600)

ROWS: Final = 30_000
SOON: Final = 180.0

FILE: Final = """\
bootstrap.servers={kafka}
group.id=connect-cluster
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=true
value.converter.schemas.enable=true
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
config.storage.topic=connect-configs
config.storage.replication.factor=1
status.storage.topic=connect-status
status.storage.replication.factor=1
offset.flush.interval.ms=10000
listeners=http://127.0.0.1:{port}
etcd.endpoints={etcd}
state.dir={folder}
topics.dir={folder}/../topics
spark.master=local[2]
"""
"""`connect-distributed.properties` as Kafka ships it, and what two machines of a test need."""


def machine(folder: Path, port: int, kafka: KafkaServer, etcd: EtcdServers) -> PenstockProcess:
    folder.mkdir()
    file = folder / "connect-distributed.properties"
    values = {"kafka": kafka.bootstrap, "port": port, "etcd": ",".join(etcd.endpoints)}
    file.write_text(FILE.format(**values, folder=folder), encoding="utf-8")
    return PenstockProcess(folder / "run", "distributed", file)


def running(port: int, name: str) -> bool:
    """Return whether a connector and its task run, as a machine says."""
    try:
        answer = httpx.get(f"http://127.0.0.1:{port}/connectors/{name}/status", timeout=10)
    except httpx.TransportError:
        return False
    status: dict[str, Any] = answer.json() if answer.status_code == 200 else {"tasks": []}
    return [one["state"] for one in status["tasks"]] == ["RUNNING"]


def create(port: int, name: str, **config: object) -> bool:
    texts = {key.replace("__", "."): str(value) for key, value in config.items()}
    url = f"http://127.0.0.1:{port}/connectors/{name}/config"
    try:
        answer = httpx.put(url, json=texts, timeout=60)
    except httpx.TransportError:
        return False
    assert answer.status_code < 500 or answer.status_code == 503, answer.text
    assert answer.status_code not in {400, 422}, answer.text
    return answer.status_code == 201


def test_a_machine_of_two_dies_and_rows_go_on(tmp_path: Path) -> None:
    ledger, ports = tmp_path / "ledger", free_ports(2)

    def arrived(least: int) -> bool:
        return ledger.exists() and read_ledger(ledger).rows >= least

    with KafkaServer(tmp_path / "kafka") as kafka, EtcdServers(tmp_path / "etcd") as etcd:
        with (
            machine(tmp_path / "a", ports[0], kafka, etcd) as first,
            machine(tmp_path / "b", ports[1], kafka, etcd) as second,
        ):
            write = partial(
                create, ports[0], "write",
                connector__class="verifiable-source", partitions=1, rows=ROWS, rate=1000,
                batch__rows=50, batch__max__rows=100, state__dir=tmp_path / "told",
                topic="numbers",
            )  # fmt: skip
            second.wait_for(write, SOON, "the source to be created")
            read = partial(
                create, ports[1], "read",
                connector__class="verifiable-sink", topics="numbers", ledger=ledger,
                batch__max__rows=100,
            )  # fmt: skip
            second.wait_for(read, SOON, "the sink to be created")
            second.wait_for(partial(arrived, 1000), SOON, "the first rows")
            first.kill()
            assert not arrived(ROWS), "the kill came after the end"
            second.wait_for(partial(arrived, ROWS), SOON, "all rows")
            second.wait_for(partial(running, ports[1], "read"), SOON, "the sink to run")
            second.signal(signal.SIGTERM)
            second.wait_for(lambda: second.returncode is not None, SOON, "the end after SIGTERM")
            assert second.returncode == 0, second.output
        warned = {"config.storage.topic", "status.storage.topic", "offset.flush.interval.ms"}
        assert all(f"[config.not_here_yet] `{key}`" in second.output for key in warned)
        assert "`bootstrap.servers`" not in second.output
        check_delivery({"0": Spans([(0, ROWS - 1)])}, read_ledger(ledger).entries).require()
