"""Messages as rows, and rows as messages. The broker is one in memory that keeps what is sent."""

import json
import threading

import pyarrow as pa
import pytest
from penstock_rocketmq import RocketmqSink, RocketmqSource, rocketmq_source, storage
from penstock_rocketmq.frames import Answer, Request
from penstock_rocketmq.storage import decode_batch

from penstock_connector import CommitMode
from penstock_connector._config import read_config
from penstock_connector.raw_messages import RawMessage
from penstock_connector.testing import RemoteError, plan, sink_task, source_task
from support.rocketmq_peer import Answered, Peer, route, stored

PLAIN = {"value.converter.schemas.enable": "false"}
UPDATE, DELETE, UPSERT, TRUNCATE = 2, 3, 5, 7
BORN_MS = 1_700_000_000_123
HEADERS = pa.map_(pa.string(), pa.binary())


class Broker:
    """A broker, and the name server that knows it, of one topic with some queues."""

    def __init__(self, queues=1):
        self.queues = [[] for _ in range(queues)]
        self.low = 0
        self.is_known = self.has_topic = self.exists = True
        self.created = 0
        self.grows = threading.Condition()
        self.peer = Peer(self.handle)

    def __enter__(self):
        self.peer.__enter__()
        return self

    def __exit__(self, *error):
        self.peer.__exit__(*error)

    def add(self, *messages, queue=0):
        """Store messages of body and properties, or of body alone."""
        with self.grows:
            self.queues[queue] += [
                one if isinstance(one, tuple) else (one, b"") for one in messages
            ]
            self.grows.notify_all()

    def handle(self, code, fields, body):
        match code:
            case Request.GET_MIN_OFFSET:
                return Answered(offset=self.low)
            case Request.GET_MAX_OFFSET:
                return Answered(offset=len(self.queues[int(fields["queueId"])]))
            case Request.SEARCH_OFFSET_BY_TIMESTAMP:
                return Answered(offset=2)
            case Request.SEND_BATCH_MESSAGE:
                self.add(*decode_batch(body), queue=int(fields["e"]))
                return Answered()
            case Request.PULL_MESSAGE:
                return self.pull(self.queues[int(fields["queueId"])], int(fields["queueOffset"]))
        return self.handle_as_name_server(code)

    def handle_as_name_server(self, code):
        match code:
            case Request.GET_ROUTEINFO_BY_TOPIC if self.is_known and self.has_topic:
                return route(self.peer.address, len(self.queues))
            case Request.GET_ROUTEINFO_BY_TOPIC:
                return Answered(Answer.TOPIC_NOT_EXIST)
            case Request.GET_BROKER_CLUSTER_INFO:
                brokers = {"b": {"brokerName": "b", "brokerAddrs": {"0": self.peer.address}}}
                table = brokers if self.is_known else {}
                return Answered(body=json.dumps({"brokerAddrTable": table}).encode())
            case Request.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
                return Answered(body=b'{"topicList": []}')
            case Request.GET_TOPIC_STATS_INFO:
                self.has_topic = True  # the name server learns of it again
                return Answered(Answer.SUCCESS if self.exists else Answer.TOPIC_NOT_EXIST)
            case Request.UPDATE_AND_CREATE_TOPIC:
                self.created += 1
                return Answered()

    def pull(self, queue, begin):
        if not self.low <= begin <= len(queue):
            bounds = {"minOffset": self.low, "maxOffset": len(queue)}
            return Answered(Answer.PULL_OFFSET_MOVED, nextBeginOffset=self.low, **bounds)
        with self.grows:  # a pull waits at the broker, and then ends
            if not self.grows.wait_for(lambda: len(queue) > begin, 0.2):
                bounds = {"minOffset": self.low, "maxOffset": len(queue)}
                return Answered(Answer.PULL_NOT_FOUND, nextBeginOffset=begin, **bounds)
        end = min(begin + 32, len(queue))
        found = enumerate(queue[begin:end], begin)
        body = b"".join(stored(one[0], one[1], at, born=BORN_MS) for at, one in found)
        return Answered(0, body, nextBeginOffset=end, minOffset=self.low, maxOffset=len(queue))

    def source(self, **more):
        return {"namesrv.addr": self.peer.address, "topics": "t", **PLAIN, **more}

    def sink(self, **more):
        return {"namesrv.addr": self.peer.address, "topic": "t", **PLAIN, **more}


@pytest.fixture
def broker():
    with Broker() as found:
        yield found


def block(**pairs):
    return b"".join(b"%s\x01%s\x02" % (k.encode(), v.encode()) for k, v in pairs.items())


def pairs(properties):
    """Return properties without the id of the transaction."""
    found = dict(one.split("\x01") for one in properties.decode().split("\x02") if one)
    assert found.pop("penstock_id").startswith("test-0:1:")
    return found


def data(row):
    return {name: value for name, value in row.items() if not name.startswith("__")}


def failures(results):
    return [(one.row, one.reason.code) for result in results for one in result.failed]


def written(broker, rows, dataset="any", key_columns=(), **more):
    """Write rows; return the messages of queue 0."""
    with sink_task(RocketmqSink, broker.sink(**more)) as task:
        task.write(rows, dataset=dataset, key_columns=key_columns)
    return broker.queues[0]


def refused(broker, rows, dataset="any", key_columns=(), **more):
    with sink_task(RocketmqSink, broker.sink(**more)) as task:
        return failures(task.put(rows, txn_id=1, dataset=dataset, key_columns=key_columns))


# Messages as rows


def test_messages_are_rows_with_key_time_and_headers(broker):
    broker.add((b'{"id": 7}', block(KEYS="k 1", TAGS="paid", color="red", UNIQ_KEY="x")))
    with source_task(RocketmqSource, broker.source()) as task:
        (row,) = task.rows(1)
    assert row == {
        "id": 7, "__key": "k 1", "__ts_us": BORN_MS * 1000,
        "__headers": [("TAGS", b"paid"), ("color", b"red")],
    }  # fmt: skip


def test_a_time_of_the_producer_counts_before_that_of_the_batch(broker):
    broker.add((b'{"id": 7}', block(BORN_TIMESTAMP="1234")))
    with source_task(RocketmqSource, broker.source()) as task:
        assert task.rows(1)[0]["__ts_us"] == 1_234_000


def test_a_message_without_a_body_is_a_deleted_row(broker):
    key = block(KEYS='{"id":7}')
    broker.add((b'{"id": 7, "name": "x"}', key), (b"", key))
    given = {"key.converter": "json", "key.converter.schemas.enable": "false"}
    with source_task(RocketmqSource, broker.source(**given)) as task:
        rows = task.rows(2)
    assert [data(row) for row in rows] == [{"id": 7, "name": "x"}, {"id": 7, "name": None}]
    assert [row["__op"] for row in rows] == [UPSERT, DELETE]


def test_what_cannot_be_converted_is_a_bad_row_with_all_its_parts(broker):
    broker.add((b'{"n": 1}', block(KEYS="{")), b"{", b'{"n": 2, "__op": 3}', b'{"n": 3}')
    given = {"key.converter": "json", "key.converter.schemas.enable": "false"}
    with source_task(RocketmqSource, broker.source(**given)) as task:
        bad = [task.until("bad_row").bad_row for _ in range(3)]
        rows = task.rows(1)
    kept = [RawMessage.from_bytes(one.raw) for one in bad]
    assert [(one.key, one.value, bad[at].reason.code) for at, one in enumerate(kept)] == [
        (b"{", b'{"n": 1}', "converter.not_json"),
        (None, b"{", "converter.not_json"),
        (None, b'{"n": 2, "__op": 3}', "rocketmq.reserved_column"),
    ]
    assert [row["n"] for row in rows] == [3]


def test_a_damaged_message_is_a_bad_row(broker, monkeypatch):
    monkeypatch.setattr(rocketmq_source, "decode_messages", damage(rocketmq_source))
    broker.add(b'{"n": 1}', b'{"n": 2}')
    with source_task(RocketmqSource, broker.source()) as task:
        bad = task.until("bad_row").bad_row
        rows = task.rows(1)
    kept = RawMessage.from_bytes(bad.raw)
    assert (kept.value, kept.damaged) == (b'{"n": 1}', True)
    assert bad.reason.code == "rocketmq.damaged"
    assert [row["n"] for row in rows] == [2]


def damage(module):
    decode = module.decode_messages

    def damaged(found):
        changed = bytearray(found)
        changed[8] ^= 1  # the checksum of the first message
        return decode(bytes(changed))

    return damaged


@pytest.mark.parametrize("tags", ["*", "a"])
def test_messages_that_are_large_together_are_decoded_in_parts(broker, monkeypatch, tags):
    monkeypatch.setattr(storage, "MAX_DECODED_BYTES", 50)
    broker.add(*((b'{"n": %d}' % at, block(TAGS="a")) for at in range(100)))
    with source_task(RocketmqSource, broker.source(tags=tags)) as task:
        assert [row["n"] for row in task.rows(100)] == list(range(100))


def test_only_messages_with_one_of_the_tags_are_read(broker):
    # a broker compares hashes: this one gives all of them
    for number, tag in enumerate(["a", "b", "c", "b"]):
        broker.add((b'{"n": %d}' % number, block(TAGS=tag)))
    with source_task(RocketmqSource, broker.source(tags="b || x || c")) as task:
        assert [row["n"] for row in task.rows(3)] == [1, 2, 3]


def test_a_read_goes_on_at_its_offset():
    with Broker(2) as broker:
        broker.add(*(b'{"n": %d}' % n for n in range(5)), queue=1)
        with source_task(RocketmqSource, broker.source(**{"batch.rows": "2"})) as task:
            first = task.rows(5)
            task.until("checkpoint")
            task.commit()
            offsets = task.offsets
        ((place, offset),) = offsets.items()
        assert json.loads(place) == {"topic": "t", "broker": "b", "queue": 1}
        assert offset == {"offset": 5}
        broker.add(b'{"n": 5}', queue=1)
        with source_task(RocketmqSource, broker.source(), offsets=offsets) as task:
            rest = task.rows(1)
    assert [row["n"] for row in [*first, *rest]] == list(range(6))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"consume.from.where": "last"}, [3]),
        ({"consume.from.where": "timestamp", "consume.timestamp": "20260101000000"}, [2, 3]),
        ({}, [0, 1, 2, 3]),
    ],
)
def test_where_reading_begins_is_decided_once(broker, given, wanted):
    broker.add(*(b'{"n": %d}' % n for n in range(3)))
    with source_task(RocketmqSource, broker.source(**given)) as task:
        if given:
            task.until("checkpoint")
            task.commit()
        offsets = task.offsets
    broker.add(b'{"n": 3}')
    with source_task(RocketmqSource, broker.source(**given), offsets=offsets) as task:
        assert [row["n"] for row in task.rows(len(wanted))] == wanted


def test_a_queue_that_was_never_read_begins_at_the_first_message_that_is_there(broker):
    broker.add(*(b'{"n": %d}' % n for n in range(4)))
    broker.low = 2
    with source_task(RocketmqSource, broker.source()) as task:
        assert [row["n"] for row in task.rows(2)] == [2, 3]


@pytest.mark.parametrize(
    ("policy", "wanted"), [("first", [2, 3, 4]), ("last", [4]), ("fail", None)]
)
def test_messages_that_are_gone_are_told_or_passed_over(broker, policy, wanted):
    broker.add(*(b'{"n": %d}' % n for n in range(4)))
    (partition,) = plan(RocketmqSource, broker.source())
    old, broker.low = {partition.id: {"offset": 0}}, 2
    given = broker.source(**{"consume.offset.lost": policy})
    if wanted is None:
        with (
            pytest.raises(RemoteError, match=r"rocketmq.offset_lost.*offset 0 up to 2 are gone"),
            source_task(RocketmqSource, given, offsets=old) as task,
        ):
            task.rows(1)
        return
    with source_task(RocketmqSource, given, offsets=old) as task:
        task.until("checkpoint")
        broker.add(b'{"n": 4}')
        assert [row["n"] for row in task.rows(len(wanted))] == wanted


@pytest.mark.parametrize(("policy", "wanted"), [("first", [0, 1, 3]), ("fail", None)])
def test_a_gap_among_messages_is_told_or_passed_over(broker, monkeypatch, policy, wanted):
    def pull(queue, begin):
        if begin >= 4:
            return None
        body = b"".join(stored(b'{"n": %d}' % at, offset=at) for at in (0, 1, 3))
        return Answered(0, body, nextBeginOffset=4, minOffset=0, maxOffset=4)

    monkeypatch.setattr(broker, "pull", pull)
    broker.add(b"", b"", b"", b"")
    with source_task(RocketmqSource, broker.source(**{"consume.offset.lost": policy})) as task:
        if wanted is None:
            with pytest.raises(RemoteError, match=r"rocketmq\.offset_lost"):
                task.rows(1)
        else:
            assert [row["n"] for row in task.rows(3)] == wanted


def test_queues_of_a_broker_that_is_away_stay_planned(broker):
    def planned(known=(), **more):
        given = {name: text for name, text in broker.source(**more).items() if text}
        config, _ = read_config(RocketmqSource.config_type, given)
        return list(RocketmqSource.plan(config, 1, known))

    first = planned()
    broker.is_known = False
    assert planned(first) == first
    assert planned() == []
    assert planned(first, topics="other") == []
    assert planned(first, topics="", **{"topics.regex": "."}) == first
    broker.is_known, broker.has_topic = True, False  # the topic was deleted
    assert planned(first) == []


def test_an_offset_beyond_the_end_is_always_an_error(broker):
    (partition,) = plan(RocketmqSource, broker.source())
    given = broker.source(**{"consume.offset.lost": "first"})
    with (
        pytest.raises(RemoteError, match=r"rocketmq.offset_lost.*offsets 0 to 0, and 9 is"),
        source_task(RocketmqSource, given, offsets={partition.id: {"offset": 9}}) as task,
    ):
        task.rows(1)


# Rows as messages


def test_rows_are_messages_with_keys_times_tags_and_headers(broker):
    schema = pa.schema(
        {"n": pa.int64(), "__key": pa.string(), "__ts_us": pa.int64(), "__headers": HEADERS}
    )
    headers = [("TAGS", b"paid"), ("color", b"red")]
    row = {"n": 1, "__key": "k", "__ts_us": 1_234_567, "__headers": headers}
    ((body, properties),) = written(broker, pa.RecordBatch.from_pylist([row], schema))
    assert body == b'{"n":1}'
    assert pairs(properties) == {
        "KEYS": "k", "TAGS": "paid", "BORN_TIMESTAMP": "1234", "color": "red",
    }  # fmt: skip


def test_the_key_of_a_row_is_that_of_its_key_columns(broker):
    ((_, properties),) = written(broker, [{"id": 17, "x": "y"}], key_columns=("id",))
    assert pairs(properties) == {"KEYS": "17"}


def test_keys_and_tags_may_be_columns(broker):
    rows = [
        {"a": "x", "b": 2, "kind": "paid"},
        {"a": None, "b": None, "kind": None},
        {"a": None, "b": 3, "kind": None},
    ]
    given = {"keys.columns": "a,b", "tags.column": "kind"}
    found = written(broker, rows, **given)
    assert [pairs(properties) for _, properties in found] == [
        {"KEYS": "x 2", "TAGS": "paid"}, {}, {"KEYS": "3"},
    ]  # fmt: skip
    assert refused(broker, [{"a": "x y", "b": 2, "kind": "z"}], **given) == [(0, "rocketmq.key")]
    with pytest.raises(ValueError, match=r"have no column 'kind' of texts"):
        written(broker, [{"a": "x", "b": 2}], **given)


def test_a_deleted_row_has_no_body_and_needs_a_key(broker):
    rows = [{"id": 1, "__op": DELETE}]
    ((body, properties),) = written(broker, rows, "keyed", ("id",))
    assert (body, pairs(properties)) == (b"", {"KEYS": "1"})
    rows = [{"id": 2, "__op": DELETE}, {"id": 3, "__op": TRUNCATE}]
    assert refused(broker, rows) == [
        (0, "rocketmq.delete_without_key"),
        (1, "rocketmq.unsupported_change"),
    ]


def test_a_row_that_would_read_as_deleted_is_refused(broker):
    rows = [{"value": ""}, {"value": None}, {"value": "x"}]
    text = {"namesrv.addr": broker.peer.address, "topic": "t", "value.converter": "string"}
    with sink_task(RocketmqSink, text) as task:
        assert failures(task.put(rows, txn_id=1)) == [
            (0, "rocketmq.empty_body"),
            (1, "rocketmq.empty_body"),
        ]


def test_an_update_that_changes_the_key_is_refused(broker):
    rows = [{"id": 2, "__op": UPDATE, "__before": {"id": 1}}]
    assert refused(broker, rows, "keyed", ("id",)) == [(0, "rocketmq.key_changed")]


def test_headers_that_are_no_properties_are_refused(broker):
    schema = pa.schema({"n": pa.int64(), "__headers": HEADERS})
    headers = [[("DELAY", b"1")], [("a", b"")], [("a", b"x")]]
    rows = [{"n": at, "__headers": one} for at, one in enumerate(headers)]
    assert refused(broker, pa.RecordBatch.from_pylist(rows, schema)) == [
        (0, "rocketmq.reserved_property"),
        (1, "rocketmq.property"),
    ]


def test_a_message_that_is_too_large_is_a_bad_row(broker):
    rows = [{"n": 1, "text": "x"}, {"n": 2, "text": "x" * 2000}]
    given = {"max.message.size": "1800"}
    assert refused(broker, rows, **given) == [(1, "rocketmq.too_large")]
    schema = pa.schema({"n": pa.int64(), "__headers": HEADERS})
    large = pa.RecordBatch.from_pylist([{"n": 1, "__headers": [("h", b"x" * 40_000)]}], schema)
    assert refused(broker, large) == [(0, "rocketmq.too_large")]


@pytest.mark.parametrize("exists", [True, False])
def test_a_topic_is_created_where_no_broker_has_it_and_else_left_alone(broker, exists):
    """A name server does not know the topics of a broker that has just come back."""
    broker.has_topic, broker.exists = False, exists
    written(broker, [{"n": 1}])
    assert broker.created == (0 if exists else 1)


def test_a_dataset_that_cannot_name_a_topic_is_refused(broker):
    with pytest.raises(ValueError, match=r"'shop\.orders' cannot be the name of a topic"):
        written(broker, [{"n": 1}], dataset="shop.orders", topic="${dataset}")


def test_nothing_is_sent_before_it_is_prepared(broker):
    with sink_task(RocketmqSink, broker.sink()) as task:
        task.put([{"n": 1}, {"n": 2}], txn_id=1)
        assert broker.queues[0] == []
        task.prepare(1, [(0, 0, 2)])
        assert [body for body, _ in broker.queues[0]] == [b'{"n":1}', b'{"n":2}']


def ids(broker):
    return [properties.split(b"penstock_id\x01")[1] for _, properties in broker.queues[0]]


def test_a_transaction_that_is_sent_again_has_the_same_ids(broker):
    for _ in range(2):  # the first run dies before its offsets are stored
        with sink_task(RocketmqSink, broker.sink()) as task:
            task.put([{"n": 1}, {"n": 2}], txn_id=1)
            task.prepare(1, [(0, 0, 2)])
    first, second, *again = ids(broker)
    assert [first, second] == again
    assert first != second


def test_another_row_in_the_place_of_one_has_another_id(broker):
    for rows in ([{"n": 1}], [{"n": 2}]):
        with sink_task(RocketmqSink, broker.sink()) as task:
            task.write(rows)
    one, other = ids(broker)
    assert one.startswith(b"test-0:1:1:")
    assert other.startswith(b"test-0:1:1:")
    assert one != other


def test_rows_of_one_key_are_in_one_queue_in_their_order():
    rows = [{"id": number % 7, "n": number} for number in range(300)]
    with Broker(4) as broker:
        written(broker, rows, key_columns=("id",))
        found = [[json.loads(body) for body, _ in queue] for queue in broker.queues]
    places = {row["id"]: at for at, queue in enumerate(found) for row in queue}
    assert places == {number: (ord("0") + number) % 4 for number in range(7)}  # Java's hash
    for queue in found:
        assert [row["n"] for row in queue] == sorted(row["n"] for row in queue)
    assert sum(map(len, found)) == 300


PLACED = pa.schema({"id": pa.int64(), "__partition": pa.int32()})


def test_rows_may_choose_their_queue():
    rows = [{"id": at, "__partition": at % 3 if at % 4 else None} for at in range(24)]
    with Broker(4) as broker:
        with sink_task(RocketmqSink, broker.sink(positions="true")) as task:
            task.write(pa.RecordBatch.from_pylist(rows, PLACED), key_columns=("id",))
        found = [[json.loads(body)["id"] for body, _ in queue] for queue in broker.queues]
    for at in (one for one in range(24) if one % 4):
        assert at in found[at % 3]
    assert sorted(at for queue in found for at in queue) == list(range(24))


def test_a_queue_that_the_topic_lacks_is_an_error(broker):
    with sink_task(RocketmqSink, broker.sink(positions="true")) as task:
        put = task.put(pa.RecordBatch.from_pylist([{"id": 1, "__partition": -1}], PLACED), txn_id=1)
        assert failures(put) == [(0, "rocketmq.no_queue")]
        with pytest.raises(RemoteError, match="`__partition` of the row is 1, t has 1: 0 to 0"):
            task.write(pa.RecordBatch.from_pylist([{"id": 1, "__partition": 1}], PLACED))
    assert not broker.queues[0]


def test_what_a_sink_writes_a_source_reads():
    schema = pa.schema(
        {"n": pa.int64(), "text": pa.string(), "__ts_us": pa.int64(), "__headers": HEADERS}
    )
    rows = [
        {"n": at, "text": "ä" * at, "__ts_us": at * 1000, "__headers": [("h", b"%d" % at)]}
        for at in range(100)
    ]
    with Broker(3) as broker:
        written(broker, pa.RecordBatch.from_pylist(rows, schema), "any", ("n",))
        with source_task(RocketmqSource, broker.source()) as task:
            found = sorted(task.rows(100), key=lambda row: row["n"])
    for row, wanted in zip(found, rows, strict=True):
        (id_,) = (value for name, value in row["__headers"] if name == "penstock_id")
        assert id_.startswith(b"test-0:1:")
        assert row.pop("__key") == str(wanted["n"])
        row["__headers"] = [pair for pair in row["__headers"] if pair[0] != "penstock_id"]
        assert row == wanted


def test_it_commits_with_the_host_and_in_no_other_way():
    assert RocketmqSink.commit_modes == (CommitMode.HOST,)
