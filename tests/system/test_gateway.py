"""The gateway as a process of a cluster, and a cluster in which everybody shows a certificate."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.client import ConfigClient
from penstock.model.errors import PenstockError
from penstock.rpc.channels import MutualTls
from penstock_kit.testing import PenstockProcess, wait_until
from support.certificates import Authority
from support.cluster import READY, Cluster
from support.flow import SPARK, Flow

pytestmark = pytest.mark.timeout(300)

ANY = "http://127.0.0.1:0"


def rest(process: PenstockProcess) -> httpx.Client:
    """Return a client of a gateway, once it says where it is."""
    process.wait_for(lambda: "REST at " in process.output, READY, "the gateway to listen")
    (url,) = re.findall(r"REST at (http://\S+)", process.output)
    return httpx.Client(base_url=url, timeout=60)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster without workers, in which everybody shows a certificate. `tests/contract/gateway`
    does without certificates.
    """
    with Cluster(
        tmp_path / "cluster", plain=True, tls=Authority(tmp_path / "authority")
    ) as cluster:
        yield cluster


def test_any_gateway_answers_and_a_killed_one_loses_nothing(cluster: Cluster) -> None:
    first = cluster.start("gateway", "g1", listeners=ANY)
    second = cluster.start("gateway", "g2", listeners=ANY)
    with rest(first) as one, rest(second) as other:
        wait_until(lambda: one.get("/connectors").json() == [], READY, "an answer")
        told = other.get("/health")
        assert (told.status_code, told.json()["status"]) == (503, "starting")
        assert "no worker" in told.json()["message"]
        first.kill()
        assert other.get("/connectors").json() == []
        cluster.processes["config"].kill()
        away = other.get("/connectors")
        assert away.status_code in {500, 503}, away.text
        cluster.start("config", "config")
        wait_until(lambda: other.get("/connectors").status_code == 200, READY, "config to be back")
    assert second.stop(READY) == 0


def test_a_gateway_tells_the_numbers_of_every_process(cluster: Cluster) -> None:
    """Leases, stores and the leader, over TLS too; of one that is gone, that it is."""
    process = cluster.start("gateway", "g1", listeners=ANY)
    with rest(process) as gateway:

        def numbers() -> dict[tuple[str, str], float]:
            answer = gateway.get("/metrics")
            families = text_string_to_metric_families(answer.text) if answer.is_success else ()
            samples = [one for family in families for one in family.samples]
            return {
                (s.name, s.labels["service"]): s.value for s in samples if "service" in s.labels
            }

        services = {"config", "offset", "scheduler", "gateway"}

        def known() -> bool:
            found = numbers()
            registered = {s for n, s in found if n == "penstock_member_registrations_total"}
            return registered == services and bool(
                found.get(("penstock_leader_turns_total", "scheduler"))
            )

        wait_until(known, READY, "all processes to tell")
        found = numbers()
        for service in services:
            assert found["penstock_member_registrations_total", service] == 1
            assert 0 < found["penstock_lease_left_seconds", service] <= 5
            assert found["penstock_processes", service] == 1
            assert found["penstock_processes_silent", service] == 0
        for service in ("config", "offset", "scheduler"):
            assert found["penstock_store_writes_total", service] >= 0
        assert found["penstock_leader_sessions", "scheduler"] == 0
        cluster.processes["config"].kill()
        silent = ("penstock_processes_silent", "config")
        wait_until(lambda: numbers().get(silent) == 1, READY, "a killed process to be silent")
        there = ("penstock_processes", "config")
        wait_until(lambda: numbers().get(there) == 0, READY, "its lease to end")


def test_a_connector_is_made_and_runs_in_a_cluster_of_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    with Cluster(tmp_path / "cluster", plain=True, tls=authority) as cluster:
        cluster.workers("w1", **SPARK)
        process = cluster.start("gateway", "g1", listeners=ANY)
        flow = Flow(cluster, tasks=1)
        with rest(process) as gateway:
            config = {
                "source.connector.class": "verifiable-source",
                "source.rate": 60,
                "sink.connector.class": "verifiable-sink",
                "sink.ledger": str(flow.ledger),
                "flush.interval": "500ms",
            }
            made = gateway.put(f"/connectors/{flow.name}/config", json=config)
            assert made.status_code == 201, made.text
            flow.advance()
            gateway.delete(f"/connectors/{flow.name}")
        worker = MutualTls(authority.ca, *authority.sign("worker.penstock")).dial("config")
        address = next(
            line.rpartition("reached at ")[2].strip()
            for line in cluster.processes["config"].output.splitlines()
            if "reached at " in line
        )

        async def deleted() -> str:
            async with ConfigClient(address, dial=worker) as client:
                try:
                    await client.delete("any")
                except PenstockError as error:
                    return error.code
            return ""

        assert cluster.run(deleted()) == "rpc.denied"
