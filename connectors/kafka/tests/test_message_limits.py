"""What a topic refuses is a rejected row or an error that names the topic, and never sent again."""

import json
import os

import pyarrow as pa
import pytest
from penstock_kafka import KafkaSink, kafka_sink
from penstock_kafka.message_limits import BATCH_BYTES, BatchLimit

from penstock_connector.messages import MESSAGE_SCHEMA
from penstock_connector.testing import RemoteError, sink_task

PLAIN = {"value.converter.schemas.enable": "false", "key.converter.schemas.enable": "false"}


def config(kafka, topic, **more):
    return {
        "bootstrap.servers": kafka.bootstrap, "topic": topic, **PLAIN, **more,
        "offsets.storage.topic": f"{topic}-offsets", "transactional.id.prefix": f"{topic}-",
    }  # fmt: skip


def random_text(size):
    """A text that does not become smaller when it is compressed."""
    return os.urandom(size).hex()


def numbers(kafka, topic):
    return [json.loads(one.value())["n"] for one in kafka.read(topic)]


@pytest.mark.parametrize("compression", ["lz4", "none", "gzip", "snappy", "zstd"])
def test_a_message_that_its_topic_never_takes_is_a_rejected_row(kafka, topic, compression):
    """The others are written, a large one too whose compressed form fits."""
    kafka.create_topic(topic, **{"max.message.bytes": "4000"})
    rows = [{"n": 1, "t": ""}, {"n": 2, "t": random_text(8000)}, {"n": 3, "t": "x" * 9000}]
    given = config(kafka, topic, **{"producer.compression.type": compression})
    fits = [] if compression == "none" else [3]
    with sink_task(KafkaSink, given) as task:
        results = task.put(rows, txn_id=1)
        failed = [(one.row, one.reason) for result in results for one in result.failed]
        task.prepare(1, [(0, 0, 3 - len(failed))])
        task.commit(1)
    assert [(row, why.code) for row, why in failed] == [
        (at, "kafka.too_large") for at, n in ((1, 2), (2, 3)) if n not in fits
    ]
    assert f"`max.message.bytes` of the topic {topic} is 4000" in failed[0][1].message
    assert numbers(kafka, topic) == [1, *fits]


def test_many_messages_go_to_a_topic_that_takes_small_batches(kafka, topic):
    kafka.create_topic(topic, **{"max.message.bytes": "4000"})
    rows = [{"n": n, "t": random_text(100)} for n in range(200)]
    with sink_task(KafkaSink, config(kafka, topic)) as task:
        task.write(rows)
    assert numbers(kafka, topic) == list(range(200))


def test_twin_without_the_limit_the_topic_refuses_the_batch_and_is_named(kafka, topic, monkeypatch):
    """So it is where the user may not see the limit."""
    monkeypatch.setattr(kafka_sink, "find_limit", lambda *_: None)
    kafka.create_topic(topic, **{"max.message.bytes": "4000"})
    rows = [{"n": n, "t": random_text(100)} for n in range(200)]
    with sink_task(KafkaSink, config(kafka, topic)) as task:
        task.put(rows, txn_id=1)
        with pytest.raises(RemoteError, match=rf"for the topic {topic}: .*too large") as caught:
            task.prepare(1, [(0, 0, 200)])
    assert caught.value.code == "kafka.too_large"


def test_a_compacted_topic_refuses_a_message_without_a_key(kafka, topic):
    kafka.create_topic(topic, **{"cleanup.policy": "compact"})
    with sink_task(KafkaSink, config(kafka, topic)) as task:
        task.put([{"n": 1}], txn_id=1)
        with pytest.raises(RemoteError, match=rf"for the topic {topic}: ") as caught:
            task.prepare(1, [(0, 0, 1)])
    assert caught.value.code == "kafka.invalid_record"
    assert kafka.read(topic) == []


def test_pieces_hold_what_fits_and_lose_nothing():
    values = [b"x" * size for size in (10, 700, 5000, 10, 10, 900)]
    headers = [None] * 3 + [[("h", b"y" * 700)]] + [None] * 2
    columns = [[None] * 6, values, [None] * 6, headers]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, MESSAGE_SCHEMA, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=MESSAGE_SCHEMA)
    limit = BatchLimit("t", BATCH_BYTES + 1000, "none")
    sizes = [[len(v) for v in piece.column("value").to_pylist()] for piece in limit.pieces(batch)]
    assert sizes == [[10, 700], [5000], [10, 10], [900]]
