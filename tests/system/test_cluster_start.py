"""A service that cannot start, or is asked the wrong thing: a coded error, nothing half-done."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client import ConfigClient, SchedulerClient
from penstock.model.connector import Connector, ConnectorKind
from penstock.model.errors import PenstockError
from penstock_kit.testing import PenstockProcess
from support.cluster import READY, Cluster
from support.etcd import EtcdServers
from support.processes import free_ports

pytestmark = pytest.mark.timeout(400)


def start(folder: Path, service: str, **keys: str) -> PenstockProcess:
    """Return a process of a service, not started."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "service.json"
    file.write_text(json.dumps(keys), encoding="utf-8")
    return PenstockProcess(folder, service, "--config", file)


def ended(folder: Path, service: str, **keys: str) -> tuple[int, str]:
    """Run a service that cannot start; returns its exit code and what it said."""
    with start(folder, service, **keys) as process:
        return process.wait(READY), process.output


def test_etcd_away(tmp_path: Path) -> None:
    """It says at once which address does not answer and how long it waits, then gives up."""
    (port,) = free_ports(1)
    endpoint = f"127.0.0.1:{port}"
    with start(tmp_path, "config", **{"etcd.endpoints": endpoint}) as process:
        process.wait_for(lambda: endpoint in process.output, READY, "a word about the address")
        assert process.returncode is None
        assert process.wait(READY) == 1
        assert "[etcd.unreachable]" in process.output
        assert endpoint in process.output


def test_wrong_credentials(tmp_path: Path) -> None:
    """Refused at once; the password is in no output."""
    with EtcdServers(tmp_path / "etcd") as etcd:
        for command in (
            ("user", "add", "root:secret-one"),
            ("user", "grant-role", "root", "root"),
            ("auth", "enable"),
        ):
            etcd.control(0, *command)
        keys = {"etcd.endpoints": ",".join(etcd.endpoints), "etcd.user": "root"}
        code, output = ended(
            tmp_path / "s", "config", **keys, **{"etcd.password": "hunter2hunter2"}
        )
        assert code in {1, 2}, output
        assert "etcd.credentials_refused" in output
        assert "hunter2" not in output


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"etcd.endpoint": "a:1"}, "config.unknown_key"),
        ({"store": "postgresql", "etcd.endpoints": "ETCD"}, "config.missing"),
        ({"listen": "203.0.113.7:1", "etcd.endpoints": "ETCD"}, "rpc.address_in_use"),
    ],
)
def test_wrong_settings(tmp_path: Path, keys: dict[str, str], code: str) -> None:
    """Every key that cannot be is named."""
    with EtcdServers(tmp_path / "etcd") as etcd:
        texts = {k: v.replace("ETCD", ",".join(etcd.endpoints)) for k, v in keys.items()}
        ended_with, output = ended(tmp_path / "s", "offset", **texts)
        assert ended_with == 2, output
        assert f"[{code}]" in output


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster without workers, with two schedulers."""
    with Cluster(tmp_path_factory.mktemp("cluster"), plain=True) as cluster:
        cluster.start("scheduler", "second")
        cluster.until(cluster.cluster, READY, "a leader")
        cluster.config(lambda config: config.list())  # it has taken the cluster's name
        yield cluster


@pytest.mark.parametrize("service", ["config", "offset"])
def test_two_clusters_with_one_name(control: Cluster, tmp_path: Path, service: str) -> None:
    """A service that keeps its state elsewhere belongs to another cluster."""
    control.offset(lambda offset: offset.get("g1", []))  # it has written down its store, too
    keys = {
        "etcd.endpoints": ",".join(control.etcd.endpoints),
        "store": "postgresql",
        "store.url": "postgresql://nobody:nothing@127.0.0.1:1/none",
    }
    code, output = ended(tmp_path, service, **keys)
    assert code == 2, output
    assert "[cluster.name_taken]" in output


def test_a_store_that_cannot_be_opened_takes_no_name(tmp_path: Path) -> None:
    """With the right URL the service starts."""
    with EtcdServers(tmp_path / "etcd") as etcd:
        keys = {"etcd.endpoints": ",".join(etcd.endpoints)}
        url = "postgresql://nobody:nothing@127.0.0.1:1/none?sslmode=wrong"
        wrong = {"store": "postgresql", "store.url": url}
        code, output = ended(tmp_path / "wrong", "config", **keys, **wrong)
        assert code in {1, 2}, output
        with start(tmp_path / "right", "config", **keys) as process:
            process.wait_for(lambda: "registered as" in process.output, READY, "a member")


def test_one_id_twice(control: Cluster, tmp_path: Path) -> None:
    """The second instance ends, the first goes on."""
    keys = {"etcd.endpoints": ",".join(control.etcd.endpoints), "instance.id": "config-1"}
    first = control.processes["config"]
    code, output = ended(tmp_path, "config", **keys)
    assert code == 2, output
    assert "[member.taken]" in output
    assert first.returncode is None


def test_a_scheduler_that_does_not_lead_names_the_one_that_does(control: Cluster) -> None:
    """And a client that may ask any goes there by itself."""
    leader = control.cluster().leader
    names = ("scheduler", "second")
    addresses = [address_of(control.processes[name]) for name in names]
    (other,) = (address for address in addresses if address != leader)

    async def ask() -> PenstockError | None:
        async with SchedulerClient(other) as client:
            try:
                await client.get_cluster()
            except PenstockError as error:
                return error
            return None

    def names_leader() -> bool:
        refused = control.run(ask())
        assert refused is not None
        assert refused.code == "scheduler.not_leader"
        return refused.diagnostic.suggestion == leader

    # it hears of an election a moment later than the one that won
    control.until(names_leader, READY, "the other scheduler to know the leader")

    async def follow() -> str:
        async with SchedulerClient(lambda: [other]) as client:
            return (await client.get_cluster()).leader

    assert control.run(follow()) == leader


def address_of(process: PenstockProcess) -> str:
    """Return where an instance says that it is reached, once it does."""
    said = re.compile(r"reached at (\S+)\n")
    process.wait_for(lambda: said.search(process.output), READY, "a scheduler to say where it is")
    return said.findall(process.output)[0]


def test_two_clients_update_one_connector(control: Cluster) -> None:
    """The one whose revision is old is told the current one, and nothing is written."""
    config = {"name": "both", "connector.class": "generator"}
    stored = control.create("both", config, ConnectorKind.SOURCE)

    async def put(client: ConfigClient, rate: str) -> Connector:
        wanted = Connector("both", {**config, "rate": rate}, ConnectorKind.SOURCE)
        return (await client.put(wanted, expected_revision=stored.revision))[0]

    won = control.config(lambda client: put(client, "1"))
    with pytest.raises(PenstockError) as caught:
        control.config(lambda client: put(client, "2"))
    assert caught.value.code == "config.revision_changed"
    assert str(won.revision) in caught.value.diagnostic.message
    assert control.config(lambda client: client.get("both")).config["rate"] == "1"
