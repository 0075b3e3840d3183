"""Rows as messages: what they hold, and that each is there once."""

import json
import threading
import time
import zlib

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from penstock_kafka import KafkaSink, broker, kafka_sink, offsets_topic

from penstock.plugin.limits import Deadlines
from penstock_connector import CommitMode, staging
from penstock_connector.testing import RemoteError, sink_task
from penstock_kit.testing import wait_until
from support.kafka import PASSWORD, USER

PLAIN = {"value.converter.schemas.enable": "false", "key.converter.schemas.enable": "false"}
UPDATE, DELETE, TRUNCATE = 2, 3, 7
SCHEMA = pa.schema(
    {
        "n": pa.int64(), "__key": pa.string(), "__ts_us": pa.int64(),
        "__headers": pa.map_(pa.string(), pa.binary()),
    }
)  # fmt: skip


def config(kafka, topic, **more):
    return {**task_of(kafka, topic), **PLAIN, **more}


def task_of(kafka, topic):
    """A configuration with which no other test meets this one."""
    return {
        "bootstrap.servers": kafka.bootstrap, "topic": topic,
        "offsets.storage.topic": f"{topic}-offsets", "transactional.id.prefix": f"{topic}-",
    }  # fmt: skip


def put(task, txn_id, *numbers):
    """Put rows and prepare their transaction."""
    task.put([{"n": number} for number in numbers], txn_id=txn_id)
    task.prepare(txn_id, [(0, 0, len(numbers))], f"after {txn_id}".encode())


def failures(results):
    return [(one.row, one.reason.code) for result in results for one in result.failed]


def numbers(kafka, topic, **how):
    return [json.loads(one.value())["n"] for one in kafka.read(topic, **how)]


def test_rows_are_messages_with_keys(kafka, topic):
    rows = [{"id": number, "name": f"n{number}"} for number in range(3)]
    with sink_task(KafkaSink, config(kafka, topic)) as task:
        task.write(rows, dataset="any", key_columns=("id",))
    found = kafka.read(topic)
    assert [json.loads(one.key()) for one in found] == [{"id": number} for number in range(3)]
    assert [json.loads(one.value()) for one in found] == rows


def test_a_topic_is_that_of_the_dataset_and_created(kafka, topic):
    more = {"topic": "${dataset}.out", "topic.creation.default.partitions": "3"}
    with sink_task(KafkaSink, config(kafka, topic) | more) as task:
        task.write([{"n": 1}], dataset=topic)
    assert numbers(kafka, f"{topic}.out") == [1]
    found = kafka.admin().list_topics(f"{topic}.out", timeout=10).topics[f"{topic}.out"]
    assert len(found.partitions) == 3


PLACED = pa.schema({"n": pa.int64(), "__partition": pa.int32()})


def test_rows_may_choose_their_partition(kafka, topic):
    rows = [{"n": at, "__partition": at % 3 if at % 4 else None} for at in range(24)]
    more = {"positions": "true", "topic.creation.default.partitions": "4"}
    with sink_task(KafkaSink, config(kafka, topic) | more) as task:
        task.write(pa.RecordBatch.from_pylist(rows, PLACED))
    found = {json.loads(one.value())["n"]: one.partition() for one in kafka.read(topic)}
    assert sorted(found) == list(range(24))
    assert all(found[at] == at % 3 for at in range(24) if at % 4)


def test_a_partition_that_the_topic_lacks_is_an_error(kafka, topic):
    with sink_task(KafkaSink, config(kafka, topic, positions="true")) as task:
        put = task.put(pa.RecordBatch.from_pylist([{"n": 1, "__partition": -1}], PLACED), txn_id=1)
        assert failures(put) == [(0, "kafka.no_partition")]
        with pytest.raises(RemoteError) as caught:
            task.write(pa.RecordBatch.from_pylist([{"n": 1, "__partition": 1}], PLACED))
    assert caught.value.code == "kafka.no_partition"
    assert f"partition 1 of {topic}" in str(caught.value)


def test_messages_that_the_brokers_have_leave_the_memory(kafka, topic, monkeypatch):
    def no_file():
        raise OSError("a file is made, as for rows beyond the memory")

    monkeypatch.setattr(kafka_sink, "_MEMORY_BYTES", 300_000)
    monkeypatch.setattr(staging.tempfile, "TemporaryFile", no_file)
    with sink_task(KafkaSink, config(kafka, topic)) as task:
        for _ in range(4):
            task.write([{"n": number, "text": "x" * 1_000} for number in range(200)])
        with pytest.raises(RemoteError) as caught:
            task.write([{"n": number, "text": "x" * 1_000} for number in range(400)])
    assert caught.value.code == "kafka.spill_failed"
    assert len(kafka.read(topic)) == 800


@pytest.mark.parametrize("headers", [[("h", b"1"), ("h", b"2")], None])
def test_keys_times_and_headers_are_those_of_the_row(kafka, topic, headers):
    now_ms = time.time_ns() // 1_000_000  # an older message would be removed by retention
    row = {"n": 1, "__key": "k", "__ts_us": now_ms * 1000, "__headers": headers}
    text = {"key.converter": "string"}
    given = {k: v for k, v in config(kafka, topic, **text).items() if "key.converter." not in k}
    with sink_task(KafkaSink, given) as task:
        task.write(pa.RecordBatch.from_pylist([row], SCHEMA), dataset="any")
    (found,) = kafka.read(topic)
    assert (found.key(), found.timestamp()[1]) == (b"k", now_ms)
    assert found.headers() == headers


def test_a_deleted_row_is_a_tombstone_and_needs_a_key(kafka, topic):
    with sink_task(KafkaSink, config(kafka, topic)) as task:
        task.write([{"id": 1, "__op": DELETE}], dataset="keyed", key_columns=("id",))
        (found,) = kafka.read(topic)
        assert (found.key(), found.value()) == (b'{"id":1}', None)
        rows = [{"id": 2, "__op": DELETE}, {"id": 3, "__op": TRUNCATE}]
        assert failures(task.put(rows, txn_id=2)) == [
            (0, "kafka.delete_without_key"),
            (1, "kafka.unsupported_change"),
        ]


def test_an_update_that_changes_the_key_is_refused(kafka, topic):
    rows = [
        {"id": 2, "__op": UPDATE, "__before": {"id": 1}},
        {"id": 3, "__op": UPDATE, "__before": {"id": 3}},
    ]
    with sink_task(KafkaSink, config(kafka, topic)) as task:
        results = task.put(rows, txn_id=1, dataset="keyed", key_columns=("id",))
    assert failures(results) == [(0, "kafka.key_changed")]


@pytest.mark.parametrize("converter", ["json", "string"])
def test_a_line_of_a_file_is_the_value_itself(kafka, topic, converter):
    given = {**task_of(kafka, topic), "value.converter": converter}
    with sink_task(KafkaSink, given) as task:
        task.write([{"line": "a b"}], dataset="any")
    (found,) = kafka.read(topic)
    if converter == "string":
        assert found.value() == b"a b"
    else:
        assert json.loads(found.value()) == {
            "schema": {"type": "string", "optional": True}, "payload": "a b",
        }  # fmt: skip


def test_a_message_that_is_too_large_is_a_bad_row(kafka, topic):
    rows = [{"n": 1, "text": "x"}, {"n": 2, "text": "x" * 2000}]
    with sink_task(
        KafkaSink, config(kafka, topic, **{"producer.max.request.size": "1800"})
    ) as task:
        assert failures(task.put(rows, txn_id=1)) == [(1, "kafka.too_large")]


def test_nothing_is_seen_before_the_commit_and_all_of_it_after(kafka, topic):
    with sink_task(KafkaSink, config(kafka, topic)) as task:
        put(task, 1, 1)
        assert kafka.read(topic) == []
        task.commit(1)
        assert numbers(kafka, topic) == [1]


def test_a_run_that_died_before_its_commit_wrote_nothing_and_the_next_one_knows(kafka, topic):
    with sink_task(KafkaSink, config(kafka, topic)) as task:
        put(task, 1, 1)
        task.commit(1)
        put(task, 2, 2)  # and no commit
    with sink_task(KafkaSink, config(kafka, topic), epoch=2) as task:
        last = task.opened.committed
        assert (last.txn_id, last.epoch, last.token) == (1, 1, b"after 1")
        put(task, 2, 2)
        task.commit(2)
    assert numbers(kafka, topic) == [1, 2]
    # who reads what was never committed sees the row of the run that died
    assert numbers(kafka, topic, isolation="read_uncommitted") == [1, 2, 2]


def test_twin_without_its_record_in_the_transaction_a_run_knows_of_none(kafka, topic, monkeypatch):
    monkeypatch.setattr("penstock_kafka.offsets_topic.OffsetsTopic.put", lambda *_: None)
    with sink_task(KafkaSink, config(kafka, topic)) as task:
        put(task, 1, 1)
        task.commit(1)
    with sink_task(KafkaSink, config(kafka, topic), epoch=2) as task:
        assert not task.opened.HasField("committed"), "a host would go on behind the row"


def test_a_task_begins_while_others_write_to_its_partition_of_offsets(kafka, topic, monkeypatch):
    """The client tells of no end of a partition that always has more."""
    monkeypatch.setattr(offsets_topic, "READ_TIMEOUT_S", 10.0)
    with sink_task(KafkaSink, config(kafka, topic)) as task:
        put(task, 1, 1)
        task.commit(1)
    partition, done = zlib.crc32(b"test-0") % 25, threading.Event()

    def write():
        mine = {"bootstrap.servers": kafka.bootstrap, "transactional.id": f"{topic}-other"}
        producer = Producer(mine)
        producer.init_transactions(30)
        while not done.wait(0.1):
            producer.begin_transaction()
            producer.produce(f"{topic}-offsets", b"{}", b"other", partition)
            producer.commit_transaction(30)

    other = threading.Thread(target=write)
    other.start()
    try:
        wait_until(lambda: kafka.count(f"{topic}-offsets") > 20, 30, "others to write")
        with sink_task(KafkaSink, config(kafka, topic), epoch=2) as task:
            assert task.opened.committed.txn_id == 1
    finally:
        done.set()
        other.join()


def test_an_older_run_is_fenced_by_a_newer_one(kafka, topic):
    with sink_task(KafkaSink, config(kafka, topic)) as old:
        old.put([{"n": 1}], txn_id=1)
        with sink_task(KafkaSink, config(kafka, topic), epoch=2) as new:
            put(new, 1, 2)
            new.commit(1)
            with pytest.raises(RemoteError, match=r"kafka\.fenced"):
                old.prepare(1, [(0, 0, 1)])
    assert numbers(kafka, topic) == [2]


def test_twin_with_another_transactional_id_an_older_run_still_writes(kafka, topic):
    other = {"transactional.id.prefix": f"{topic}-other-"}
    with sink_task(KafkaSink, config(kafka, topic)) as old:
        with sink_task(KafkaSink, config(kafka, topic) | other, epoch=2) as new:
            put(new, 1, 2)
            new.commit(1)
        put(old, 1, 1)
        old.commit(1)
    assert numbers(kafka, topic) == [2, 1]


def test_a_user_logs_in(kafka, topic):
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": USER}
    given = config(kafka, topic) | {"bootstrap.servers": kafka.guarded} | login
    with sink_task(KafkaSink, given | {"sasl.password": PASSWORD}) as task:
        task.write([{"n": 1}])
    assert numbers(kafka, topic) == [1]
    with (
        pytest.raises(RemoteError, match=r"kafka\.not_authorized"),
        sink_task(KafkaSink, given | {"sasl.password": "wrong"}),
    ):
        pass


def test_it_commits_in_kafka_and_in_no_other_way():
    assert KafkaSink.commit_modes == (CommitMode.SINK,)


def test_brokers_that_are_away_are_named_before_the_host_gives_up(monkeypatch, topic):
    host = Deadlines().open_s
    assert host > broker.REACH_TIMEOUT_S
    assert host > broker.REQUEST_TIMEOUT_S
    monkeypatch.setattr(broker, "REACH_TIMEOUT_S", 1.0)
    away = {"bootstrap.servers": "127.0.0.1:1", "topic": topic, **PLAIN}
    with (
        pytest.raises(RemoteError, match=r"kafka\.unavailable.*at 127\.0\.0\.1:1"),
        sink_task(KafkaSink, away),
    ):
        pass
