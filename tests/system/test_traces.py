"""What a collector gets of a cluster: a trace for each request and each micro-batch; the numbers
and logs of all its processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from penstock.plugin.catalog import seal
from penstock_kit.testing import PenstockProcess, wait_until
from support.checkout import ROOT
from support.cluster import READY, Cluster
from support.flow import SPARK, Flow
from support.foreign import BUILT, go_build, install
from support.traces import Receiver
from system.test_gateway import ANY, rest

pytestmark = pytest.mark.timeout(BUILT)

TRACE = "0af7651916cd43dd8448eb211c80319c"


def family(receiver: Receiver, trace_id: str) -> dict[str, str]:
    """Return the spans of a trace by name, each with the service that sent it."""
    return {
        span.name: service for service, span in receiver.spans() if span.trace_id.hex() == trace_id
    }


def whole(receiver: Receiver, *names: str) -> Callable[[], dict[str, str] | None]:
    """Return what looks for a micro-batch whose trace has all these parts."""

    def look() -> dict[str, str] | None:
        batches: list[Span] = receiver.named("worker.micro_batch")
        found = (family(receiver, one.trace_id.hex()) for one in batches)
        return next((one for one in found if set(names) <= one.keys()), None)

    return look


@dataclass(frozen=True)
class Traced:
    """A cluster whose processes send every span to a receiver."""

    receiver: Receiver
    cluster: Cluster
    gateway: PenstockProcess


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    """A cluster of one worker, which has a plugin in Go."""
    folder = tmp_path_factory.mktemp("traced")
    program = go_build(folder / "programs", ROOT / "connectors/go", "./tests/moody") / "moody"
    plugin = install(ROOT / "connectors/go/tests/moody", program, folder / "plugin")
    seal.write_seal(plugin)  # as a worker of a cluster wants it
    with Receiver() as receiver, pytest.MonkeyPatch.context() as patch:
        for name, value in receiver.environment.items():
            patch.setenv(name, value)
        with Cluster(folder / "cluster") as cluster:
            cluster.workers("w1", **SPARK, **{"plugin.path": str(plugin)})
            gateway = cluster.start("gateway", "g1", listeners=ANY)
            yield Traced(receiver, cluster, gateway)


def test_a_request_and_a_micro_batch_are_followed_through_all_services(traced: Traced) -> None:
    receiver, flow = traced.receiver, Flow(traced.cluster, tasks=1)
    sink = {"sink.connector.class": "verifiable-sink", "sink.ledger": str(flow.ledger)}
    with rest(traced.gateway) as client:
        made(client, flow.name, sink)
    flow.advance()
    request = wait_until_found(lambda: complete(receiver), "the trace of the request")
    batch = wait_until_found(
        whole(
            receiver,
            "worker.move",
            "engine.lane",
            "worker.prepare",
            "worker.store_offsets",
            "worker.commit",
            "worker.tell_source",
            "penstock.api.offset.v1.OffsetService/CommitOffsets",
        ),
        "the trace of a micro-batch",
    )
    told(receiver)
    flow.delete()
    assert request["PUT /connectors/{connector}/config"] == "penstock-gateway"
    assert "penstock-config" in request.values()
    assert request["penstock.api.worker.v1.WorkerService/ValidateConnector"] == "penstock-worker"
    assert batch["worker.move"] == batch["engine.lane"] == "penstock-worker"
    offsets = batch["penstock.api.offset.v1.OffsetService/CommitOffsets"]
    assert offsets == "penstock-offset"


def told(receiver: Receiver) -> None:
    """See the numbers of the task, of calls and of processes come, and lines of logs."""
    names = ("penstock.task.rows.written", "rpc.server.call.duration", "process.memory.usage")

    def all_came() -> bool:
        return all(any(one.value > 0 for one in receiver.numbers(name)) for name in names)

    wait_until(all_came, READY, "the numbers of the cluster")
    (service,) = {one.service for one in receiver.numbers("penstock.task.rows.written")}
    assert service == "penstock-worker"
    assert {one.service for one in receiver.numbers("process.memory.usage")} >= {
        *("penstock-gateway", "penstock-config", "penstock-offset", "penstock-scheduler"),
        "penstock-worker",
    }
    assert "penstock-worker" in {name for name, _ in receiver.lines()}


def test_a_sink_in_go_sees_the_trace_of_its_micro_batch(traced: Traced, tmp_path: Path) -> None:
    """Where its rows are put, which executors do, and where they are prepared."""

    def both() -> bool:
        lines = (tmp_path / "traces").read_text().splitlines()
        batches = {one.trace_id.hex() for one in traced.receiver.named("worker.micro_batch")}
        seen = [
            {line.split("-")[1] for line in lines if line.startswith(f"{stage} 00-")}
            for stage in ("Stage", "Prepare")
        ]
        return all(traces & batches for traces in seen)

    sink = {"sink.connector.class": "moody-traced", "sink.folder": str(tmp_path)}
    with rest(traced.gateway) as client:
        made(client, "into go", sink)
        wait_until(lambda: (tmp_path / "traces").exists() and both(), READY, "the traces")
        client.delete("/connectors/into%20go")


def made(client: httpx.Client, name: str, sink: Mapping[str, str]) -> None:
    """Make a connector of numbered rows, in a trace that somebody else began."""
    config = {
        "source.connector.class": "verifiable-source",
        "source.rate": 60,
        "flush.interval": "500ms",
        **sink,
    }
    headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    answer = client.put(f"/connectors/{quote(name)}/config", json=config, headers=headers)
    assert answer.status_code == 201, answer.text


def complete(receiver: Receiver) -> dict[str, str] | None:
    """Return the request's trace, once all that it needs has come."""
    found = family(receiver, TRACE)
    needed = {"penstock-gateway", "penstock-config", "penstock-worker"}
    return found if needed <= set(found.values()) else None


def wait_until_found(look: Callable[[], dict[str, str] | None], stage: str) -> dict[str, str]:
    """Wait until there is something to be found, and return it."""
    found: list[dict[str, str]] = []

    def there() -> bool:
        one = look()
        found.extend([one] if one else [])
        return bool(found)

    wait_until(there, READY, stage)
    return found[0]
