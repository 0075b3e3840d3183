"""A cluster whose services are users of etcd, each with what it is granted: it works, and who has
taken a worker over gets no further by its user (row X18 of the reliability goals).
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator

import pytest

from penstock.cluster.grants import SERVICES
from penstock.etcd import Etcd, operations
from penstock.model.errors import AuthError
from penstock.telemetry.redaction import Secret
from support.cluster import Cluster
from support.etcd import PASSWORD
from support.flow import SPARK, Flow

CANARY = "canary-4711"
STATE = "/penstock/default/state/"


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flow]:
    """Rows flow through a guarded cluster whose state is sealed."""
    folder = tmp_path_factory.mktemp("grants")
    keys = folder / "keys"
    keys.write_bytes(base64.b64encode(bytes(range(32))))
    keys.chmod(0o600)
    with Cluster(folder, plain=True, users=True, store={"store.seal.keys": str(keys)}) as cluster:
        cluster.workers("w1", **SPARK)
        flow = Flow(cluster, tasks=1)
        flow.ledger = folder / CANARY
        flow.start()
        flow.advance()
        yield flow


def allowed(flow: Flow, service: str, key: str, *, write: bool) -> bool:
    """Ask etcd for a key, or to write it, as a service."""

    async def ask() -> None:
        password = Secret(PASSWORD)
        client = await Etcd.connect(flow.cluster.etcd.settings(user=service, password=password))
        try:
            if write:
                await client.txn([], [operations.put(key, b"1")], stage="t")
            else:
                await client.get(key)
        finally:
            await client.close()

    try:
        asyncio.run(ask())
    except AuthError as error:
        if error.code != "etcd.permission_denied":
            raise
        return False
    return True


@pytest.mark.timeout(300)
def test_rows_flow_and_move_to_another_worker(flow: Flow) -> None:
    flow.cluster.workers("w2", **SPARK)
    flow.cluster.processes["w1"].kill()
    flow.advance()
    flow.report().require()


@pytest.mark.timeout(300)
def test_what_etcd_keeps_is_sealed(flow: Flow) -> None:
    kept = flow.cluster.etcd.control(0, "get", "--prefix", STATE)
    assert "connector/flow" in kept
    assert CANARY not in kept
    plans = flow.cluster.etcd.control(0, "get", "--prefix", f"{STATE}plan/").splitlines()
    values = [line for line in plans if not line.startswith(STATE)]
    assert "penstock sealed" in values[0]
    assert not any("partition" in line or "token" in line for line in values)
    stored = flow.cluster.config(lambda config: config.get("flow"))
    assert CANARY in stored.config["sink.ledger"]  # and yet it is there


@pytest.mark.timeout(300)
@pytest.mark.parametrize("service", SERVICES)
def test_who_may_read_and_write_what_others_act_on(flow: Flow, service: str) -> None:
    """The twin is in it: the service whose place it is may."""
    places = {"connector/x": "config", "floor/x": "offset", "drain/x": "scheduler"}
    for key, owner in (places | {"plan/x": "scheduler"}).items():
        for write in (True, False):
            may = allowed(flow, service, STATE + key, write=write)
            assert may == (owner == service), (service, key, write)
    for other in SERVICES:
        place = f"/penstock/default/members/{other}/"
        assert allowed(flow, service, f"{place}x", write=False)
        assert allowed(flow, service, f"{place}probe", write=True) == (other == service)
        flow.cluster.etcd.control(0, "del", f"{place}probe")
    election = "/penstock/default/elections/probe"
    assert allowed(flow, service, election, write=True) == (service == "scheduler")
    for beyond in ("/penstock/other/members/x", "/else"):
        assert not allowed(flow, service, beyond, write=True)
        assert not allowed(flow, service, beyond, write=False)
