"""Messages of a real stream as rows, and what becomes of them when something breaks."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from penstock_connector import ApplyAction, RawRow
from penstock_connector.raw_messages import RawMessage
from penstock_connector.testing import (
    RemoteError,
    alter_offsets,
    apply_action,
    parse_rows,
    plan,
    source_task,
)
from penstock_kit.testing import wait_until
from penstock_messaging import NatsSource
from penstock_messaging.nats import source as nats_source
from penstock_values.messages import offset_from_proto

PLAIN = {"value.converter.schemas.enable": "false"}
DELETE = 3
CONSUMER = "reader"


def keys(nats, stream, **more):
    given = {**nats.keys, **PLAIN, "nats.stream": stream, "nats.consumer": CONSUMER}
    return given | {name.replace("_", "."): str(value) for name, value in more.items()}


def send(nats, subject, *numbers, **more):
    return nats.publish(subject, *[b'{"n": %d}' % n for n in numbers], **more)


def numbers(rows):
    return [row["n"] for row in rows]


def consumer(nats, stream, name=CONSUMER):
    return nats.request(f"CONSUMER.INFO.{stream}.{name}")


def floor(nats, stream, name=CONSUMER):
    return consumer(nats, stream, name)["ack_floor"]["stream_seq"]


def position(task):
    ((_, offset),) = task.offsets.items()
    return offset["sequence"]


def commit_rows(task, count):
    """Read rows, and commit them."""
    rows = task.rows(count)
    last = int(dict(rows[-1]["__headers"])["nats.sequence"])
    while max((one["sequence"] for one in task._pending.values()), default=0) < last:
        task.until("checkpoint")
    task.commit()
    return rows


def test_messages_are_rows_with_their_subjects_headers_and_times(nats, stream):
    nats.add_stream(stream)
    nats.publish(f"{stream}.eu", b'{"n": 1}', headers=[("who", "me"), ("who", "you")])
    with source_task(NatsSource, keys(nats, stream, dataset="plant")) as task:
        (row,) = task.rows(1)
        schema = next(frame.schema for frame in task.seen if frame.HasField("schema"))
    assert (row["n"], row["__key"]) == (1, f"{stream}.eu")
    assert row["__ts_us"] > 1_700_000_000_000_000
    assert schema.dataset == "plant"
    assert row["__headers"] == [
        ("who", b"me"), ("who", b"you"), ("nats.stream", stream.encode()), ("nats.sequence", b"1"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("converter", "payload", "value", "kind"),
    [
        ("string", "é".encode(), "é", "string"),
        ("string", b"", "", "string"),
        ("bytes", b"\x00\xff", b"\x00\xff", "binary"),
        ("long", (1 << 40).to_bytes(8, "big"), 1 << 40, "int64"),
        ("json", b"[1, 2]", None, None),
        ("json", b'"text"', "text", "string"),
        ("json", b"12345678901", 12_345_678_901, "int64"),
    ],
    ids=["string", "empty", "bytes", "long", "json-list", "json-text", "json-number"],
)
def test_types_of_values_are_those_of_converters(nats, stream, converter, payload, value, kind):
    nats.add_stream(stream)
    nats.publish(stream, payload)
    given = keys(nats, stream, value_converter=converter)
    if converter != "json":
        given.pop("value.converter.schemas.enable")
    with source_task(NatsSource, given) as task:
        (row,) = task.rows(1)
        (schema,) = task.schemas.values()
    if kind is None:
        assert row["value"] == [1, 2]
    else:
        assert (row["value"], str(schema.field("value").type)) == (value, kind)


def test_a_removed_key_of_a_bucket_is_a_deleted_row(nats, stream):
    nats.add_stream(stream)
    send(nats, f"{stream}.a", 1)
    nats.publish(f"{stream}.a", b"", headers=[("KV-Operation", "DEL")])
    with source_task(NatsSource, keys(nats, stream)) as task:
        rows = task.rows(2)
    assert [(row["__key"], row["__op"]) for row in rows][1] == (f"{stream}.a", DELETE)


def test_a_payload_that_cannot_be_read_is_a_bad_row_that_can_be_corrected(nats, stream):
    nats.add_stream(stream)
    nats.publish(stream, b'{"n": 0}', b"\xff{", b'{"n": 2}')
    with source_task(NatsSource, keys(nats, stream)) as task:
        rows = task.rows(2)
        found = [frame.bad_row for frame in task.seen if frame.HasField("bad_row")]
        bad = found[0] if found else task.until("bad_row").bad_row
    assert numbers(rows) == [0, 2]
    assert RawMessage.from_bytes(bad.raw).value == b"\xff{"
    assert offset_from_proto(bad.offset)["sequence"] == 2
    assert "VALUE_CONVERTER" in str(bad)
    raw = RawRow(bad.raw, json.loads(bad.partition_id), bad.dataset, {})
    corrected = replace(raw, changes={"__raw_value": '{"n": 1}'})
    again, mended = parse_rows(NatsSource, keys(nats, stream), [raw, corrected])
    assert again.message.startswith("VALUE_CONVERTER: ")
    (row,) = mended.to_pylist()
    assert (row["n"], row["__key"]) == (1, rows[0]["__key"])
    assert mended.schema.names == list(rows[0])


@pytest.mark.parametrize("retention", ["limits", "workqueue", "interest"])
def test_reading_goes_on_behind_the_last_commit_and_gives_no_row_twice(nats, stream, retention):
    nats.add_stream(stream, retention=retention)
    given = keys(nats, stream, batch_rows=1)
    with source_task(NatsSource, given, batches=2) as first:
        first.until("checkpoint")  # of a stream of interest, messages are kept from here on
        first.commit()
        send(nats, stream, *range(6))
        assert numbers(commit_rows(first, 2)) == [0, 1]
        wait_until(lambda: floor(nats, stream) == 2, 20, "the acknowledgement")
        first.release(2)
        first.rows(2)  # read, and not committed
    with source_task(NatsSource, given, offsets=first.offsets) as second:
        rows = commit_rows(second, 4)
        wait_until(lambda: floor(nats, stream) == 6, 20, "the acknowledgement")
    assert numbers(rows) == [2, 3, 4, 5]


def test_nothing_is_acknowledged_before_its_commit(nats, stream):
    nats.add_stream(stream, retention="workqueue")
    send(nats, stream, *range(20))
    given = keys(nats, stream, nats_max_ack_pending=5)
    with source_task(NatsSource, given) as task:
        assert numbers(task.rows(5)) == list(range(5))
        with pytest.raises(TimeoutError):
            task.until("ready", 1.0)  # the server waits for acknowledgements
        assert len(nats.messages(stream)) == 20
        task.commit()
        assert numbers(task.rows(5)) == list(range(5, 10))
        assert len(nats.messages(stream)) == 15


def test_an_acknowledgement_that_was_lost_in_a_crash_gives_no_row_twice(nats, stream):
    nats.add_stream(stream, retention="workqueue")
    send(nats, stream, *range(4))
    with source_task(NatsSource, keys(nats, stream)) as task:
        task.rows(4)
    offset = {"sequence": 2}  # stored, and not acknowledged
    (partition,) = plan(NatsSource, keys(nats, stream))
    with source_task(NatsSource, keys(nats, stream), offsets={partition.id: offset}) as again:
        assert numbers(again.rows(2)) == [2, 3]
        again.until("checkpoint")
        again.commit()
        wait_until(lambda: not nats.messages(stream), 20, "all acknowledged")


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({"policy": "all"}, [0, 1, 2, 9]),
        ({"policy": "new"}, [9]),
        ({"policy": "last"}, [2, 9]),
        ({"policy": "by_start_sequence", "nats_start_sequence": 2}, [1, 2, 9]),
        ({"policy": "by_start_time", "nats_start_time": "2020-01-01T00:00:00Z"}, [0, 1, 2, 9]),
        ({"policy": "by_start_time", "nats_start_time": "2100-01-01T00:00:00+01:00"}, [9]),
    ],
    ids=["all", "new", "last", "sequence", "past", "future"],
)
def test_reading_begins_where_the_policy_says_and_remembers_it(nats, stream, more, wanted):
    nats.add_stream(stream)
    send(nats, stream, 0, 1, 2)
    given = keys(nats, stream, nats_deliver_policy=more["policy"])
    given |= {k.replace("_", "."): str(v) for k, v in more.items() if k != "policy"}
    with source_task(NatsSource, given) as task:
        task.until("checkpoint")
        task.commit()
    send(nats, stream, 9)
    with source_task(NatsSource, given, offsets=task.offsets) as again:
        assert numbers(again.rows(len(wanted))) == wanted


def test_each_filter_is_a_partition_with_a_consumer_of_its_own(nats, stream):
    nats.add_stream(stream)
    given = keys(nats, stream, nats_filter_subjects=f"{stream}.a.*,{stream}.b.>")
    assert [one.key["subject"] for one in plan(NatsSource, given, max_tasks=2)] == [
        f"{stream}.a.*", f"{stream}.b.>",
    ]  # fmt: skip
    send(nats, f"{stream}.a.x", 1, 2)
    send(nats, f"{stream}.c", 3)
    send(nats, f"{stream}.b.x.y", 4)
    with source_task(NatsSource, given) as task:
        assert sorted(numbers(task.rows(3))) == [1, 2, 4]
    names = nats.request(f"CONSUMER.NAMES.{stream}")["consumers"]
    assert len([one for one in names if one.startswith(f"{CONSUMER}-")]) == 2
    apply_action(NatsSource, keys(nats, stream), ApplyAction.UPDATE, last=given)
    assert nats.request(f"CONSUMER.NAMES.{stream}")["total"] == 0


def test_an_idle_partition_keeps_up_with_messages_of_other_subjects(nats, stream, monkeypatch):
    monkeypatch.setattr(nats_source, "_ADVANCE_S", 0.0)
    monkeypatch.setattr("penstock_messaging.nats.consumer.PULL_S", 0.2)
    nats.add_stream(stream)
    given = keys(nats, stream, nats_filter_subjects=f"{stream}.a")
    send(nats, f"{stream}.a", 1)
    with source_task(NatsSource, given) as task:
        commit_rows(task, 1)
        send(nats, f"{stream}.b", *range(5))

        def advanced():
            task.until("checkpoint")
            task.commit()
            return position(task) == 6

        wait_until(advanced, 20, "an offset behind the others")
    nats.request(f"STREAM.PURGE.{stream}")
    with source_task(NatsSource, given, offsets=task.offsets) as again:
        send(nats, f"{stream}.a", 2)
        assert numbers(again.rows(1)) == [2]


def test_a_stream_that_dropped_what_was_not_read_is_an_error_or_passed_over(nats, stream):
    nats.add_stream(stream)
    send(nats, stream, *range(5))
    given = keys(nats, stream, batch_rows=1)
    with source_task(NatsSource, given, batches=2) as task:
        commit_rows(task, 2)
    nats.request(f"STREAM.PURGE.{stream}", seq=5)  # keeps the last one
    with (
        pytest.raises(RemoteError) as told,
        source_task(NatsSource, given, offsets=task.offsets) as again,
    ):
        again.until("ready", 20)
    assert told.value.code == "nats.messages_lost"
    assert "begins with message 5" in str(told.value)
    assert "nats.messages.lost=continue" in told.value.diagnostic.fix
    lenient = keys(nats, stream, nats_messages_lost="continue")
    with source_task(NatsSource, lenient, offsets=task.offsets) as again:
        assert numbers(again.rows(1)) == [4]


def test_a_stream_that_was_created_again_is_an_error_or_read_from_its_beginning(nats, stream):
    nats.add_stream(stream)
    send(nats, stream, *range(2))
    with source_task(NatsSource, keys(nats, stream)) as task:
        commit_rows(task, 2)
    nats.request(f"STREAM.DELETE.{stream}")
    nats.add_stream(stream)
    send(nats, stream, *range(7, 12))
    with (
        pytest.raises(RemoteError) as told,
        source_task(NatsSource, keys(nats, stream), offsets=task.offsets) as again,
    ):
        again.until("ready", 20)
    assert told.value.code == "nats.stream_recreated"
    lenient = keys(nats, stream, nats_messages_lost="continue")
    with source_task(NatsSource, lenient, offsets=task.offsets) as again:
        assert numbers(again.rows(5)) == list(range(7, 12))


def test_a_consumer_that_is_deleted_ends_the_task_and_the_next_one_loses_nothing(nats, stream):
    nats.add_stream(stream)
    send(nats, stream, 0, 1)
    with source_task(NatsSource, keys(nats, stream)) as task:
        commit_rows(task, 2)
        nats.request(f"CONSUMER.DELETE.{stream}.{CONSUMER}")
        with pytest.raises(RemoteError) as told:
            task.until("ready", 20)
    assert told.value.code == "nats.consumer_deleted"
    send(nats, stream, 2)
    with source_task(NatsSource, keys(nats, stream), offsets=task.offsets) as again:
        assert numbers(again.rows(1)) == [2]


def test_a_consumer_of_a_stream_of_interest_that_is_deleted_has_lost_messages(nats, stream):
    nats.add_stream(stream, retention="interest")
    with source_task(NatsSource, keys(nats, stream)) as task:
        task.until("checkpoint")
        task.commit()
        send(nats, stream, 0)
        commit_rows(task, 1)
    nats.request(f"CONSUMER.DELETE.{stream}.{CONSUMER}")
    with (
        pytest.raises(RemoteError) as told,
        source_task(NatsSource, keys(nats, stream), offsets=task.offsets) as again,
    ):
        again.until("ready", 20)
    assert told.value.code == "nats.consumer_lost"


def test_a_server_that_starts_again_gives_no_row_twice(own_nats, stream):
    own_nats.add_stream(stream)
    with source_task(NatsSource, keys(own_nats, stream)) as task:
        send(own_nats, stream, 0, 1)
        rows = task.rows(2)
        own_nats.stop()
        own_nats.start()
        send(own_nats, stream, 2)
        rows += task.rows(1)
        task.until("checkpoint")
        task.commit()
        send(own_nats, stream, 3)
        rows += commit_rows(task, 1)
        assert numbers(rows) == [0, 1, 2, 3]
        wait_until(lambda: floor(own_nats, stream) == 4, 20, "the acknowledgement")


def test_a_server_that_hangs_or_is_gone_is_waited_for_and_then_an_error(own_nats, stream):
    own_nats.add_stream(stream)
    given = keys(own_nats, stream, nats_request_timeout="500ms", nats_retry_timeout="1500ms")
    with source_task(NatsSource, given) as task:
        task.until("checkpoint")
        own_nats.pause(is_paused=True)
        with pytest.raises(RemoteError) as told:
            task.until("ready", 40)
        own_nats.pause(is_paused=False)
    assert told.value.code in {"nats.unavailable", "nats.no_answer"}


def test_a_process_that_is_killed_leaves_its_messages_to_the_next_one(nats, stream):
    nats.add_stream(stream)
    given = keys(nats, stream)
    script = (
        "import json, sys\n"
        "from penstock_connector import Partition\n"
        "from penstock_connector._config import parse_config\n"
        "from penstock_messaging import NatsSource\n"
        "config = parse_config(NatsSource.config_type, json.loads(sys.argv[1]))\n"
        "source = NatsSource()\n"
        "source.init(config)\n"
        "source.connect(NatsSource.plan(config, 1, ()))\n"
        "while True:\n"
        "    batch = source.read_batch()\n"
        "    if batch is None: source.wait(1)\n"
        "    elif batch.rows: print('rows', flush=True)\n"
    )
    send(nats, stream, 7, 8)
    with subprocess.Popen(
        [sys.executable, "-c", script, json.dumps(given)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "rows\n"
        os.kill(process.pid, signal.SIGKILL)
    with source_task(NatsSource, given) as task:
        assert numbers(task.rows(2)) == [7, 8]  # at once, though the dead one had them


def test_no_credit_stops_reading_and_nothing_is_lost(nats, stream):
    nats.add_stream(stream)
    send(nats, stream, *range(500))
    with source_task(NatsSource, keys(nats, stream, batch_rows=10), batches=1) as task:
        rows = []
        while len(rows) < 500:
            ready = task.until("ready").ready
            rows += task.fetch(ready.seq).to_pylist()
            task.release(ready.seq)
    assert numbers(rows) == list(range(500))


def test_messages_as_large_as_the_server_takes_are_read(nats, stream):
    nats.add_stream(stream)
    sizes = [1 << 20, 1, 1 << 20, (1 << 20) - 1]
    nats.publish(stream, *[b"x" * size for size in sizes])
    given = keys(
        nats, stream, value_converter="string", nats_filter_subjects=f"{stream},{stream}.a"
    )
    given.pop("value.converter.schemas.enable")
    with source_task(NatsSource, given) as task:
        assert [len(row["value"]) for row in task.rows(4)] == sizes


def test_a_copy_ends_when_it_has_caught_up(nats, stream):
    nats.add_stream(stream)
    send(nats, stream, *range(30))
    with source_task(NatsSource, keys(nats, stream, batch_rows=7), until_caught_up=True) as task:
        assert numbers(task.all_rows()) == list(range(30))
    nats.request(f"STREAM.PURGE.{stream}")
    lenient = keys(nats, stream)
    with source_task(NatsSource, lenient, until_caught_up=True) as task:
        assert task.all_rows() == []


def test_offsets_that_a_user_sets_are_followed_also_backwards(nats, stream):
    nats.add_stream(stream)
    send(nats, stream, *range(5))
    given = keys(nats, stream)
    with source_task(NatsSource, given) as task:
        commit_rows(task, 5)
    (partition,) = plan(NatsSource, given)
    (changed,) = alter_offsets(NatsSource, given, [replace(partition, offset={"sequence": 1})])
    assert changed.offset == {"sequence": 1}
    with source_task(NatsSource, given, offsets={changed.id: changed.offset}) as again:
        assert numbers(again.rows(4)) == [1, 2, 3, 4]
    for wrong in ({"sequence": -1}, {"sequence": "1"}, {"seq": 1}):
        with pytest.raises(RemoteError, match="not an offset of a stream"):
            alter_offsets(NatsSource, given, [replace(partition, offset=wrong)])


def test_a_connector_that_is_deleted_leaves_no_consumer(nats, stream):
    nats.add_stream(stream)
    with source_task(NatsSource, keys(nats, stream)) as task:
        task.until("checkpoint")
        task.drain()
    assert "error" not in consumer(nats, stream)
    apply_action(NatsSource, keys(nats, stream), ApplyAction.DELETE)
    assert consumer(nats, stream)["error"]["err_code"] == 10014
    nats.request(f"STREAM.DELETE.{stream}")
    apply_action(NatsSource, keys(nats, stream), ApplyAction.DELETE)


def test_a_stream_that_does_not_exist_is_an_error_with_the_command_that_creates_it(nats, stream):
    with pytest.raises(RemoteError) as told, source_task(NatsSource, keys(nats, stream)):
        pass
    assert told.value.code == "nats.no_stream"
    assert f"nats stream add {stream}" in told.value.diagnostic.fix
