"""Topics of one cluster in another one. One broker is both clusters: names tell them apart."""

import struct
import time

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from penstock_kafka import CheckpointSource, HeartbeatSource, KafkaSink, MirrorSource
from penstock_kafka.mirror.offset_syncs import OffsetSyncStore
from penstock_kafka.mirror.policy import NameFilter, ReplicationPolicy
from penstock_kafka.mirror.records import Checkpoint, OffsetSync

from penstock_connector import Partition
from penstock_connector._config import read_config
from penstock_connector.testing import RemoteError, alter_offsets, plan, sink_task, source_task
from penstock_kit.testing import wait_until
from support.kafka import PASSWORD, USER

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def clusters(kafka, topic, **more):
    return {
        "source.cluster.alias": "A", "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": kafka.bootstrap,
        "target.cluster.bootstrap.servers": kafka.bootstrap, "topics": topic,
    } | {name.replace("__", "."): text for name, text in more.items()}  # fmt: skip


def sink(kafka, topic):
    return {
        "bootstrap.servers": kafka.bootstrap, "key.converter": BYTES, "value.converter": BYTES,
        "positions": "true", "offset.syncs.topic": f"{topic}-syncs", "offset.syncs.prefix": "A.",
        "offsets.storage.topic": f"{topic}-offsets", "transactional.id.prefix": f"{topic}-",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("is_identity", "topic", "remote", "cycle"),
    [
        (False, "orders", "A.orders", False),
        (False, "B.orders", "A.B.orders", True),
        (False, "C.B.orders", "A.C.B.orders", True),
        (True, "orders", "orders", False),
        (True, "B.orders", "B.orders", False),
        (True, "heartbeats", "A.heartbeats", False),
        (True, "B.heartbeats", "A.B.heartbeats", True),
    ],
)
def test_names_are_those_of_mirror_maker(is_identity, topic, remote, cycle):
    policy = ReplicationPolicy(".", is_identity, "A")
    assert policy.remote_name(topic) == remote
    assert policy.is_cycle(topic, "B") is cycle


def test_which_topics_are_mirrored():
    policy, names = ReplicationPolicy(".", False, "A"), NameFilter(["o.*"], ["other"], "topics")
    assert not policy.mirrors("penstock-offsets", "B", NameFilter([".*"], [], "topics"))
    taken = ["orders", "other", "x", "heartbeats", "B.heartbeats", "o.internal", "__o", "B.orders"]
    assert [one for one in taken if policy.mirrors(one, "B", names)] == ["orders", "heartbeats"]


def test_records_are_those_of_mirror_maker():
    key, value = OffsetSync("té", 3, 7, 9).encode()
    assert (key, value) == (b"\x00\x03t\xc3\xa9\x00\x00\x00\x03", struct.pack(">qq", 7, 9))
    assert OffsetSync.decode(key, value) == OffsetSync("té", 3, 7, 9)
    assert OffsetSync.decode(key[:-1], value) is None
    assert OffsetSync.decode(None, None) is None
    key, value = Checkpoint("g", "A.t", 1, 5, 6, "m").encode()
    assert key == b"\x00\x01g\x00\x03A.t\x00\x00\x00\x01"
    assert value == b"\x00\x00" + struct.pack(">qq", 5, 6) + b"\x00\x01m"


def test_offsets_are_translated_so_that_nothing_is_left_out():
    syncs = OffsetSyncStore()
    for upstream, downstream in ((10, 0), (20, 9), (30, 21)):
        syncs.add(OffsetSync("t", 0, upstream, downstream))
    found = {at: syncs.translate("t", 0, at) for at in (9, 10, 15, 20, 21, 31)}
    assert found == {9: None, 10: 0, 15: 1, 20: 9, 21: 10, 31: 22}
    assert syncs.translate("t", 1, 10) is None
    syncs.add(OffsetSync("t", 0, 5, 0))
    assert syncs.translate("t", 0, 31) == 1, "the topic was made anew"


@pytest.mark.parametrize(
    ("wrong", "code", "path"),
    [
        ({"source.cluster.bootstrap.servers": ""}, "config.missing", "source.cluster.bootstrap"),
        ({"source.cluster.bootstrap.servers": "b"}, "kafka.bootstrap_servers", "'b'"),
        ({"source.cluster.retries": "1"}, "config.unknown_key", "source.cluster.retries"),
        ({"target.cluster.alias": "A"}, "config.conflict", "both clusters"),
        ({"replication.policy.class": "my.Policy"}, "config.invalid_value", "replication.policy"),
        ({"topics": "("}, "config.bad_pattern", "topics"),
    ],
)
def test_what_cannot_be_mirrored_is_refused(kafka, topic, wrong, code, path):
    with pytest.raises(RemoteError) as caught:
        plan(MirrorSource, clusters(kafka, topic) | wrong)
    assert caught.value.code == code
    assert path in str(caught.value)


def move(kafka, topic, count, **more):
    """Mirror messages into the sink; returns the batches and the offsets."""
    with (
        source_task(MirrorSource, clusters(kafka, topic, **more)) as source,
        sink_task(KafkaSink, sink(kafka, topic)) as target,
    ):
        rows = []
        while sum(one.num_rows for one in rows) < count:
            rows.append(source.fetch(source.until("ready").ready.seq))
        for at, batch in enumerate(rows):
            target.put(batch, txn_id=1, slot=at, dataset=f"A.{topic}")
        target.prepare(1, [(at, 0, one.num_rows) for at, one in enumerate(rows)], b"t")
        target.commit(1)
    return rows


def test_messages_are_byte_for_byte_in_the_same_partition(kafka, topic):
    kafka.create_topic(topic, 3, **{"retention.ms": "98765432100"})
    sent = [(b"\xff", b"\x00"), (None, b"x"), (b"k", None), (None, None)]
    kafka.produce(topic, sent, partition=2, headers=[("h", b"1"), ("h", None)])
    move(kafka, topic, 4)
    there = kafka.admin().list_topics(f"A.{topic}", timeout=10).topics[f"A.{topic}"]
    assert len(there.partitions) == 3
    resource, admin = ConfigResource(ResourceType.TOPIC, f"A.{topic}"), kafka.admin()
    found = admin.describe_configs([resource])[resource].result(30)
    assert found["retention.ms"].value == "98765432100"
    messages, originals = kafka.read(f"A.{topic}"), kafka.read(topic)
    assert [(one.key(), one.value()) for one in messages] == sent
    for one, original in zip(messages, originals, strict=True):
        assert one.partition() == 2
        assert one.headers() == original.headers()
        assert one.timestamp() == original.timestamp()
    syncs = [OffsetSync.decode(one.key(), one.value()) for one in kafka.read(f"{topic}-syncs")]
    assert syncs == [OffsetSync(topic, 2, 0, 0), OffsetSync(topic, 2, 3, 3)]


def test_a_mirror_goes_on_at_the_offsets_of_mirror_maker(kafka, topic):
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, b"%d" % n) for n in range(5)])
    assert len(plan(MirrorSource, clusters(kafka, topic))) == 1
    offsets = {f'{{"cluster":"A","partition":0,"topic":"{topic}"}}': {"offset": 2}}
    with source_task(MirrorSource, clusters(kafka, topic), offsets=offsets) as task:
        rows = task.rows(2)
        task.until("checkpoint")
        task.commit()
        assert task.offsets == {next(iter(offsets)): {"offset": 4}}
    assert [row["value"] for row in rows] == [b"3", b"4"]


def test_partitions_that_appear_are_added_in_the_target(kafka, topic):
    kafka.create_topic(topic)
    kafka.create_topic(f"A.{topic}")
    kafka.add_partitions(topic, 4)
    kafka.produce(topic, [(None, b"x")], partition=3)
    move(kafka, topic, 1)
    assert [one.partition() for one in kafka.read(f"A.{topic}")] == [3]


ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
READ, WRITE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.ALL


def rights(kafka, topic):
    """Return who may and may not do what with a topic."""
    pattern = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL)
    of_topic = AclBindingFilter(*pattern, None, None, AclOperation.ANY, AclPermissionType.ANY)
    admin = kafka.admin()
    found = admin.describe_acls(of_topic, request_timeout=30).result(30)
    return {(one.principal, one.host, one.operation, one.permission_type) for one in found}


def give(kafka, topic, *given):
    pattern = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL)
    admin = kafka.admin()
    for answer in admin.create_acls([AclBinding(*pattern, *one) for one in given]).values():
        answer.result(30)


@pytest.fixture
def only_rights_of(kafka, topic):
    """Take rights to topics away again: other tests expect those that they give themselves."""
    yield
    admin, literal, operation = kafka.admin(), ResourcePatternType.LITERAL, AclOperation.ANY
    filters = [
        AclBindingFilter(
            ResourceType.TOPIC, name, literal, None, None, operation, AclPermissionType.ANY
        )
        for name in (topic, f"A.{topic}")
    ]
    for answer in admin.delete_acls(filters).values():
        answer.result(30)
    for name in (topic, f"A.{topic}"):
        wait_until(lambda name=name: not rights(kafka, name), 30, "the rights to be gone")


@pytest.mark.usefixtures("only_rights_of")
def test_users_may_read_the_mirror_and_never_write_it(kafka, topic, caplog):
    kafka.create_topic(topic)
    given = [
        ("User:reader", "10.0.0.1", READ, ALLOW), ("User:writer", "*", WRITE, ALLOW),
        ("User:owner", "*", ALL, ALLOW), ("User:nobody", "*", WRITE, DENY),
        ("User:banned", "*", ALL, DENY), ("User:owner", "*", READ, ALLOW),
    ]  # fmt: skip
    give(kafka, topic, *given)
    expected = {
        ("User:reader", "10.0.0.1", READ, ALLOW), ("User:owner", "*", READ, ALLOW),
        ("User:nobody", "*", WRITE, DENY), ("User:banned", "*", ALL, DENY),
    }  # fmt: skip
    off = clusters(kafka, topic, sync__topic__acls__enabled="false")
    with source_task(MirrorSource, off):
        assert rights(kafka, f"A.{topic}") == set()
    often = clusters(kafka, topic, sync__topic__acls__interval__seconds="1")
    with source_task(MirrorSource, often):
        wait_until(lambda: rights(kafka, f"A.{topic}") == expected, 30, "the rights")
        more = ("User:later", "*", READ, ALLOW)
        give(kafka, topic, more)
        wait_until(lambda: rights(kafka, f"A.{topic}") == expected | {more}, 30, "a new right")
    assert rights(kafka, topic) == {*given, more}
    assert "are not mirrored" not in caplog.text


def test_rights_that_may_not_be_seen_are_logged_and_stop_nothing(kafka, topic, caplog):
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, b"x")])
    given = clusters(kafka, topic) | {
        "source.cluster.bootstrap.servers": kafka.guarded,
        "source.cluster.security.protocol": "SASL_PLAINTEXT",
        "source.cluster.sasl.username": USER,
        "source.cluster.sasl.password": PASSWORD,
    }
    cluster = (ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE)
    with kafka.forbid(cluster), source_task(MirrorSource, given) as task:
        assert [row["value"] for row in task.rows(1)] == [b"x"]
    assert "rights to topics of the source are not mirrored" in caplog.text


def test_groups_have_checkpoints_and_may_move(kafka, topic):
    kafka.create_topic(topic)
    kafka.produce(topic, [(None, b"%d" % n) for n in range(10)])
    group = f"g-{topic}"
    kafka.create_topic("mm2-offset-syncs.A.internal", **{"cleanup.policy": "compact"})
    kafka.create_topic(f"A.{topic}")
    kafka.produce(f"A.{topic}", [(None, b"before")] * 3)
    for upstream, downstream in ((0, 3), (9, 12)):
        kafka.produce(
            "mm2-offset-syncs.A.internal",
            [OffsetSync(topic, 0, upstream, downstream).encode()],
        )
    kafka.set_group_offset(group, topic, 0, 10)
    more = {"groups": f"{group}.*", "sync.group.offsets.enabled": "true"}
    given = clusters(kafka, topic, emit__checkpoints__interval__seconds="0.1") | more
    del given["topics"]
    with source_task(CheckpointSource, given) as task:
        (row,) = task.rows(1)
    expected = Checkpoint(group, f"A.{topic}", 0, 10, 13)
    assert (row["__key"], row["value"]) == expected.encode()
    assert kafka.group_offset(group, f"A.{topic}") == 13


def test_a_partition_keeps_offset_syncs_of_all_its_past():
    syncs = OffsetSyncStore()
    for at in range(10_000):
        syncs.add(OffsetSync("t", 0, at * 10, at * 11))
    assert len(syncs.known["t", 0]) <= 256
    assert syncs.translate("t", 0, 0) == 0
    assert syncs.translate("t", 0, 99_990) == 109_989
    assert 0 < syncs.translate("t", 0, 50_000) <= 55_000


def test_offsets_of_a_mirror_are_those_of_the_last_message(kafka, topic):
    kafka.create_topic(topic)
    now_ms = time.time_ns() // 1_000_000
    kafka.produce(topic, [(None, b"x")] * 3, timestamp=now_ms)
    key = {"cluster": "A", "topic": topic, "partition": 0}

    def altered(offset):
        wanted = [Partition(key, offset)]
        (found,) = alter_offsets(MirrorSource, clusters(kafka, topic), wanted)
        assert found.key == key
        return found.offset

    assert altered({"offset": 2}) == {"offset": 2}
    assert altered({"offset": -1}) == {"offset": -1}
    assert altered({"timestamp": now_ms}) == {"offset": -1}
    assert altered({"timestamp": now_ms + 1}) == {"offset": 2}
    with pytest.raises(RemoteError):
        altered({"offset": 3})


@pytest.mark.parametrize("kind", [CheckpointSource, HeartbeatSource])
def test_keys_about_rights_load_in_all_sources_of_a_mirror(kind):
    given = {"source.cluster.bootstrap.servers": "a:9092", "sync.topic.acls.enabled": "false"}
    given |= {"target.cluster.bootstrap.servers": "b:9092"}
    given |= {"sync.topic.acls.interval.seconds": "60"}
    _, errors = read_config(kind.config_type, given)
    assert not errors


@pytest.mark.parametrize("seconds", ["0", "-1"])
def test_an_interval_of_nothing_is_none(kafka, topic, seconds):
    given = clusters(kafka, topic, emit__heartbeats__interval__seconds=seconds)
    del given["topics"]
    assert plan(HeartbeatSource, given) == []


def test_heartbeats_come_in_time(kafka, topic):
    given = clusters(kafka, topic, emit__heartbeats__interval__seconds="0.05")
    del given["topics"]
    with source_task(HeartbeatSource, given) as task:
        rows = task.rows(3)
    assert {row["__key"] for row in rows} == {b"\x00\x01A\x00\x01B"}
    times = [struct.unpack(">hq", row["value"])[1] for row in rows]
    assert times == sorted(set(times))


def test_offset_syncs_of_rows_without_positions_are_refused(kafka, topic):
    with (
        sink_task(KafkaSink, sink(kafka, topic)) as task,
        pytest.raises(ValueError, match="do not say where their messages are"),
    ):
        task.write([{"value": b"1"}], dataset=topic)


def test_a_key_that_does_nothing_is_told():
    mirror = {"source.cluster.bootstrap.servers": "a:9092", "source.admin.retries": "3"}
    mirror |= {"replication.factor": "3", "sync.topic.configs.enabled": "false"}
    mirror |= {"source.cluster.sasl.jaas.confg": "x", "source.consumer.max.poll.recrods": "1"}
    config, errors = read_config(MirrorSource.config_type, mirror)
    assert not errors
    assert set(config.unused_keys()) == mirror.keys() - {"source.cluster.bootstrap.servers"}
    both = {f"{end}.cluster.bootstrap.servers": "a:9092" for end in ("source", "target")}
    rights = {"sync.topic.acls.enabled": "false", "sync.topic.acls.interval.seconds": "60"}
    config, errors = read_config(MirrorSource.config_type, both | rights)
    assert not errors
    assert set(config.unused_keys()) == {"sync.topic.acls.interval.seconds"}
    given = {"bootstrap.servers": "a:9092", "offset.syncs.prefix": "A."}
    given |= {"positions": "true", "dead.letters": "rows"}
    config, errors = read_config(KafkaSink.config_type, given)
    assert not errors
    assert set(config.unused_keys()) == {"offset.syncs.prefix", "positions"}
