"""Rows as messages of a real stream, and what becomes of them when something breaks."""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from penstock_connector.testing import RemoteError, sink_task, source_task
from penstock_kit.testing import wait_until
from penstock_messaging import NatsSink, NatsSource

PLAIN = {"value.converter.schemas.enable": "false"}
DELETE = 3
HEADERS = pa.map_(pa.string(), pa.binary())


def keys(nats, stream, **more):
    given = {**nats.keys, **PLAIN, "nats.stream": stream, "nats.subject": stream}
    return given | {name.replace("_", "."): str(value) for name, value in more.items()}


def payloads(nats, stream):
    return [one.payload for one in nats.messages(stream)]


def count(nats, stream):
    return nats.request(f"STREAM.INFO.{stream}")["state"]["messages"]


def failed_codes(task, rows, **more):
    """Put rows; return the codes of those that are refused at once."""
    txn = task.next_txn()
    (result,) = task.put(rows, txn_id=txn, **more)
    task.prepare(txn, [(0, 0, len(rows) - len(result.failed))])
    task.commit(txn)
    return {one.row: one.reason.code for one in result.failed}


def test_rows_are_messages_in_their_order(nats, stream):
    nats.add_stream(stream)
    with sink_task(NatsSink, keys(nats, stream)) as task:
        task.write([{"n": n, "text": "é"} for n in range(3000)])
    messages = nats.messages(stream)
    assert messages[0].payload == '{"n":0,"text":"é"}'.encode()
    assert all(b'"n":%d,' % n in one.payload for n, one in enumerate(messages))
    assert len({one.headers["Nats-Msg-Id"] for one in messages}) == len(messages) == 3000


@pytest.mark.parametrize(
    ("converter", "type_", "value", "payload"),
    [
        ("string", pa.string(), "é", "é".encode()),
        ("bytes", pa.binary(), b"\x00\xff", b"\x00\xff"),
        ("long", pa.int64(), 1 << 40, (1 << 40).to_bytes(8, "big")),
        ("json", pa.list_(pa.int64()), [1, 2], b"[1,2]"),
        ("json", pa.float64(), 0.1, b"0.1"),
        ("json", pa.int64(), (1 << 53) + 1, b"9007199254740993"),
    ],
    ids=["string", "bytes", "long", "json-list", "json-double", "json-long"],
)
def test_types_of_values_are_those_of_converters(nats, stream, converter, type_, value, payload):
    nats.add_stream(stream)
    given = keys(nats, stream, value_converter=converter)
    if converter != "json":
        given.pop("value.converter.schemas.enable")
    with sink_task(NatsSink, given) as task:
        task.write(pa.RecordBatch.from_pydict({"value": pa.array([value], type_)}))
    assert payloads(nats, stream) == [payload]


def test_keys_are_parts_of_subjects_and_headers_are_headers(nats, stream):
    nats.add_stream(stream)
    schema = pa.schema([("id", pa.string()), ("__headers", HEADERS)])
    headers = [
        ("who", b"me"), ("who", b"you"), ("nats.sequence", b"9"), ("Nats-Rollup", b"all"),
        ("Nats-Expected-Last-Sequence", b"77"),
    ]  # fmt: skip
    given = keys(nats, stream, nats_subject="${dataset}.${key}.new")
    with sink_task(NatsSink, given) as task:
        rows = [{"id": "a", "__headers": headers}, {"id": "b.c", "__headers": None}]
        task.write(pa.RecordBatch.from_pylist(rows, schema), dataset=stream, key_columns=["id"])
    one, other = nats.messages(stream)
    assert (one.subject, other.subject) == (f"{stream}.a.new", f"{stream}.b.c.new")
    assert set(one.headers) == {"who", "Nats-Msg-Id", "Nats-Expected-Stream"}


def test_rows_that_can_be_no_message_are_rejected_alone(nats, stream):
    nats.add_stream(stream)
    given = keys(nats, stream, nats_subject=f"{stream}.${{key}}")
    schema = pa.schema(
        [("k", pa.string()), ("text", pa.string()), ("__headers", HEADERS), ("__op", pa.int8())]
    )
    rows = [
        {"k": "good", "text": "x"},
        {"k": "a*b", "text": "x"},
        {"k": "long", "text": "x" * 1_100_000},
        {"k": "lines", "text": "x", "__headers": [("h", b"a\r\nb")]},
        {"k": "name", "text": "x", "__headers": [("a b", b"")]},
        {"k": None, "text": "x"},
        {"k": "gone", "__op": DELETE},
        {"k": "last", "text": "x"},
    ]
    with sink_task(NatsSink, given) as task:
        codes = failed_codes(task, pa.RecordBatch.from_pylist(rows, schema), key_columns=["k"])
    assert codes == {
        1: "nats.subject", 2: "nats.too_large", 3: "nats.header", 4: "nats.header",
        5: "nats.subject", 6: "nats.delete",
    }  # fmt: skip
    assert [one.subject for one in nats.messages(stream)] == [f"{stream}.good", f"{stream}.last"]


def test_rows_that_the_stream_refuses_are_left_out_and_all_others_stand_once(nats, stream):
    nats.add_stream(stream, f"{stream}.a.>", max_msg_size=2000)
    given = keys(nats, stream, nats_subject=f"{stream}.${{key}}")
    rows = [
        {"k": "a.1", "text": "x"},
        {"k": "b", "text": "of no stream"},
        {"k": "a.2", "text": "x" * 1700},
        {"k": "a.3", "text": "x"},
    ]
    with sink_task(NatsSink, given, tolerates_failed_rows=True) as task:
        task.write(rows, key_columns=["k"])
        left_out = [(one.row, one.reason.code) for one in task.left_out]
        assert task.metrics.get("messages_deduplicated_total", 0) == 0  # none is sent again
    assert left_out == [(1, "nats.subject_not_in_stream")]
    found = [one.subject for one in nats.messages(stream)]
    assert found == [f"{stream}.a.1", f"{stream}.a.2", f"{stream}.a.3"]


def test_a_subject_of_another_stream_is_refused(nats, stream):
    nats.add_stream(stream, f"{stream}.mine")
    nats.add_stream(f"{stream}x", f"{stream}.other")
    given = keys(nats, stream, nats_subject=f"{stream}.${{key}}")
    with sink_task(NatsSink, given, tolerates_failed_rows=True) as task:
        task.write([{"k": "mine"}, {"k": "other"}], key_columns=["k"])
        assert [one.reason.code for one in task.left_out] == ["nats.subject_not_in_stream"]
    assert nats.messages(f"{stream}x") == []


def test_a_limit_of_the_stream_that_is_set_while_rows_flow_leaves_rows_out(nats, stream):
    nats.add_stream(stream)
    with sink_task(NatsSink, keys(nats, stream), tolerates_failed_rows=True) as task:
        config = nats.request(f"STREAM.INFO.{stream}")["config"] | {"max_msg_size": 500}
        assert "error" not in nats.request(f"STREAM.UPDATE.{stream}", **config)
        task.write([{"text": "x" * size} for size in (1, 800, 2)])
        assert [(one.row, one.reason.code) for one in task.left_out] == [(1, "nats.too_large")]
    assert len(nats.messages(stream)) == 2


def test_a_row_that_is_sent_again_is_dropped_by_the_stream(nats, stream):
    nats.add_stream(stream)
    for _ in range(2):  # the host died before it stored the offsets
        with sink_task(NatsSink, keys(nats, stream)) as task:
            task.write([{"n": 1}, {"n": 1}, {"n": 2}])
    assert payloads(nats, stream) == [b'{"n":1}', b'{"n":1}', b'{"n":2}']


def test_equal_rows_of_two_slots_are_two_messages(nats, stream):
    nats.add_stream(stream)
    with sink_task(NatsSink, keys(nats, stream)) as task:
        txn = task.next_txn()
        for slot in (0, 1):
            task.put([{"n": 1}], txn_id=txn, slot=slot)
        task.prepare(txn, [(0, 0, 1), (1, 0, 1)])
        task.commit(txn)
    assert payloads(nats, stream) == [b'{"n":1}', b'{"n":1}']


def test_a_server_that_starts_again_in_the_middle_has_every_row_once(own_nats, stream):
    own_nats.add_stream(stream)
    with sink_task(NatsSink, keys(own_nats, stream)) as task:
        task.write([{"n": 0}])
        own_nats.stop()
        own_nats.start()
        task.write([{"n": n} for n in range(1, 500)])
    assert payloads(own_nats, stream) == [b'{"n":%d}' % n for n in range(500)]


def test_a_server_that_ends_while_it_takes_rows_has_every_row_once(own_nats, stream):
    own_nats.add_stream(stream)
    with sink_task(NatsSink, keys(own_nats, stream)) as task:
        txn = task.next_txn()
        task.put([{"n": n} for n in range(20_000)], txn_id=txn)
        with ThreadPoolExecutor(1) as pool:
            prepared = pool.submit(task.prepare, txn, [(0, 0, 20_000)])
            wait_until(lambda: count(own_nats, stream) > 100, 60, "some messages")
            own_nats.stop()
            own_nats.start()
            prepared.result(60)
        task.commit(txn)
    numbers = [int(one[5:-1]) for one in payloads(own_nats, stream)]
    assert numbers == list(range(20_000))


def test_a_server_that_hangs_is_an_error_and_the_rows_come_again(own_nats, stream):
    own_nats.add_stream(stream)
    given = keys(own_nats, stream, nats_retry_timeout="1s", nats_request_timeout="500ms")
    with sink_task(NatsSink, given) as task:
        task.write([{"n": 0}])
        own_nats.pause(is_paused=True)
        with pytest.raises(RemoteError) as told:
            task.write([{"n": 1}])
        own_nats.pause(is_paused=False)
    assert told.value.code == "nats.not_acknowledged"
    with sink_task(NatsSink, given, last_prepared=task.last_prepared) as again:
        again.write([{"n": 1}])
    assert payloads(own_nats, stream) == [b'{"n":0}', b'{"n":1}']


def test_a_full_stream_is_an_error_that_is_tried_again(nats, stream):
    nats.add_stream(stream, max_msgs=2, discard="new")
    with sink_task(NatsSink, keys(nats, stream)) as task, pytest.raises(RemoteError) as told:
        task.write([{"n": n} for n in range(5)])
    assert told.value.code == "nats.stream_full"
    assert f"nats stream edit {stream}" in told.value.diagnostic.fix


def test_a_stream_that_does_not_exist_is_an_error_with_the_command_that_creates_it(nats, stream):
    with pytest.raises(RemoteError) as told, sink_task(NatsSink, keys(nats, stream)):
        pass
    assert told.value.code == "nats.no_stream"
    assert f"nats stream add {stream}" in told.value.diagnostic.fix


def test_a_stream_that_is_deleted_while_rows_flow_is_an_error_with_that_command(nats, stream):
    nats.add_stream(stream)
    with sink_task(NatsSink, keys(nats, stream)) as task:
        task.write([{"n": 0}])
        nats.request(f"STREAM.DELETE.{stream}")
        with pytest.raises(RemoteError) as told:
            task.write([{"n": 1}])
    assert told.value.code == "nats.no_stream"


def test_a_server_without_jetstream_is_an_error_that_says_so(own_nats, stream):
    own_nats.stop()
    own_nats.start(has_jetstream=False)
    given = keys(own_nats, stream, nats_retry_timeout="1s")
    with pytest.raises(RemoteError) as told, sink_task(NatsSink, given):
        pass
    assert told.value.code == "nats.no_responders"
    assert "-js" in told.value.diagnostic.fix


@pytest.mark.parametrize(
    ("subject", "dataset", "why"),
    [
        ("${dataset}", "a b", "cannot be a subject"),
        ("${key}", "a", "have no key"),
        ("elsewhere", "a", "takes no messages of 'elsewhere'"),
    ],
    ids=["dataset", "key", "subject"],
)
def test_a_dataset_that_can_have_no_subject_is_refused(nats, stream, subject, dataset, why):
    nats.add_stream(stream)
    given = keys(nats, stream, nats_subject=subject)
    with sink_task(NatsSink, given) as task, pytest.raises(ValueError, match=why):
        task.put([{"n": 1}], txn_id=task.next_txn(), dataset=dataset)


def test_what_the_source_reads_the_sink_writes_unchanged(nats, stream):
    nats.add_stream(stream)
    nats.publish(stream, b"\x00\xff", b"", headers=[("who", " me "), ("empty", "")])
    given = {**nats.keys, "value.converter": "bytes"}
    with source_task(NatsSource, given | {"nats.stream": stream}) as source:
        ready = source.until("ready").ready
        rows = source.fetch(ready.seq)
    nats.add_stream(f"{stream}-copy")
    copy = {"nats.stream": f"{stream}-copy", "nats.subject": f"{stream}-copy"}
    with sink_task(NatsSink, given | copy) as task:
        task.write(rows)
    old, new = nats.messages(stream), nats.messages(f"{stream}-copy")
    assert [one.payload for one in new] == [one.payload for one in old][: len(new)]
    assert new[0].headers.items() >= old[0].headers.items()


def test_answers_come_while_more_is_sent_than_the_window_has(nats, stream):
    nats.add_stream(stream)
    with sink_task(NatsSink, keys(nats, stream)) as task:
        task.write([{"text": "x" * 100_000} for _ in range(300)])  # more than 8 MiB
    assert count(nats, stream) == 300
