"""A mirror of one cluster of Kafka in another one, with MirrorMaker's configurations: killed while
it runs, read by MirrorMaker's own client.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from penstock_kafka.mirror.records import encode_heartbeat

from penstock_kit.testing import PenstockProcess
from support import maven
from support.checkout import ROOT
from support.kafka import VERSION, KafkaServer
from support.processes import DIES_WITH_US, PLAIN
from support.standalone import Standalone

pytestmark = pytest.mark.timeout(600)

SOON: Final = 180.0
MESSAGES: Final = 8_000
PARTITIONS: Final = 3
CLIENT: Final = """
import java.time.Duration;
import java.util.Map;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

public class Translate {
    public static void main(String[] args) throws Exception {
        Map<String, Object> cluster = Map.of("bootstrap.servers", args[0]);
        System.out.println("clusters " + RemoteClusterUtils.upstreamClusters(cluster));
        RemoteClusterUtils.translateOffsets(cluster, "A", args[1], Duration.ofSeconds(30))
            .forEach((place, offset) -> System.out.println(place + " " + offset.offset()));
    }
}
"""


def translated(folder: Path, servers: str, group: str) -> list[str]:
    """Return what MirrorMaker's own client says of a group in the target."""
    program = folder / "Translate.java"
    program.write_text(CLIENT, encoding="utf-8")
    jars = maven.jars(
        f"kafka-mirror-client/{VERSION}",
        f"org.apache.kafka:connect-mirror-client:{VERSION}",
        "org.slf4j:slf4j-nop:1.7.36",
    )
    command = [*DIES_WITH_US, "java", "-cp", f"{jars}/*", program, servers, group]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.split("\n")[:-1])


def test_a_mirror_is_that_of_mirror_maker(tmp_path: Path) -> None:
    with KafkaServer(tmp_path / "source") as source, KafkaServer(tmp_path / "target") as target:
        source.create_topic("orders", PARTITIONS)
        for number in range(PARTITIONS):
            sent = [(b"k%d" % at, b"%d" % at) for at in range(MESSAGES)]
            source.produce("orders", sent, partition=number, headers=[("h", b"v")])
        source.create_topic(
            "heartbeats"
        )  # by which clients see where a cluster has its topics from
        source.produce("heartbeats", [encode_heartbeat("Z", "A", 1)])
        source.set_group_offset("readers", "orders", 1, MESSAGES)
        clusters = {
            "source.cluster.alias": "A",
            "target.cluster.alias": "B",
            "source.cluster.bootstrap.servers": source.bootstrap,
            "target.cluster.bootstrap.servers": target.bootstrap,
        }
        package = "org.apache.kafka.connect.mirror"
        connectors = {
            "orders": {
                **clusters,
                "connector.class": f"{package}.MirrorSourceConnector",
                "topics": "orders",
                "replication.factor": "1",
                "tasks.max": 1,
                "batch.max.rows": 50,
                "consumer.max.poll.records": 50,
            },
            "checkpoints": {
                **clusters,
                "connector.class": f"{package}.MirrorCheckpointConnector",
                "emit.checkpoints.interval.seconds": "1",
                "sync.group.offsets.enabled": "true",
            },
            "heartbeats": {**clusters, "connector.class": f"{package}.MirrorHeartbeatConnector"},
        }
        node = {"bootstrap.servers": target.bootstrap}

        def count() -> int:
            there = target.admin().list_topics(timeout=10).topics
            return len(target.read("A.orders")) if "A.orders" in there else 0

        with Standalone(tmp_path / "node", node, module=PLAIN, **connectors) as running:
            running.wait_for(lambda: target.count("A.orders") > 0, "some messages")
            running.process.kill()
        assert count() < PARTITIONS * MESSAGES, "the kill came after the end"
        with Standalone(tmp_path / "node", node, module=PLAIN, **connectors) as running:
            running.wait_for(lambda: count() >= PARTITIONS * MESSAGES, "all messages")
            messages = target.read("A.orders")
            last = max(one.offset() for one in messages if one.partition() == 1)
            running.wait_for(
                lambda: target.group_offset("readers", "A.orders", 1) == last + 1,
                "the group behind the last message",
            )
        for number in range(PARTITIONS):
            found = [one.value() for one in messages if one.partition() == number]
            assert found == [b"%d" % at for at in range(MESSAGES)], "each once, in order"
        assert {one.headers()[0] for one in messages} == {("h", b"v")}
        said = translated(tmp_path, target.bootstrap, "readers")
        assert f"A.orders-1 {last + 1}" in said
        assert "clusters [A]" in said


def test_mirror_makers_file_mirrors_both_ways_without_a_cycle(tmp_path: Path) -> None:
    with KafkaServer(tmp_path / "a") as a, KafkaServer(tmp_path / "b") as b:
        file = tmp_path / "connect-mirror-maker.properties"
        file.write_text(
            f"""\
clusters = A, B
A.bootstrap.servers = {a.bootstrap}
B.bootstrap.servers = {b.bootstrap}
A->B.enabled = true
B->A.enabled = true
topics = .*orders
replication.factor = 1
emit.checkpoints.interval.seconds = 1
sync.group.offsets.enabled = true
state.dir = {tmp_path}/state
listeners = none
""",
            encoding="utf-8",
        )
        for cluster, name in ((a, b"a"), (b, b"b")):
            cluster.create_topic("orders")
            cluster.produce("orders", [(None, name)])
            cluster.set_group_offset("readers", "orders", 0, 1)

        def values(cluster: KafkaServer, topic: str) -> list[bytes]:
            there = cluster.admin().list_topics(timeout=10).topics
            return [one.value() for one in cluster.read(topic)] if topic in there else []

        command = PenstockProcess(tmp_path / "run", "mirror-maker", file)
        with command as process:
            for cluster, topic, value in ((b, "A.orders", b"a"), (a, "B.orders", b"b")):
                process.wait_for(partial(_equals, values, cluster, topic, [value]), SOON, topic)
                process.wait_for(
                    partial(_equals, cluster.group_offset, "readers", topic, 1), SOON, "the group"
                )
            # what came from the other side before these has been seen by both mirrors now
            a.produce("orders", [(None, b"later")])
            process.wait_for(
                partial(_equals, values, b, "A.orders", [b"a", b"later"]), SOON, "one more"
            )
            process.stop()
        for cluster in (a, b):
            topics = cluster.admin().list_topics(timeout=10).topics
            assert not {"A.B.orders", "B.A.orders"} & set(topics)


def test_its_command_takes_a_file_as_kafkas_does(tmp_path: Path) -> None:
    file = tmp_path / "connect-mirror-maker.properties"
    file.write_text("clusters = A, B\nA.bootstrap.servers = a:9092\n", encoding="utf-8")
    command = ["bash", str(ROOT / "deploy" / "local" / "bin" / "connect-mirror-maker.sh"), file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "[config.missing] the cluster B has no brokers" in done.stderr


def _equals(ask: Callable[..., object], *words: object) -> bool:
    return ask(*words[:-1]) == words[-1]
