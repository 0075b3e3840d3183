"""Entries of a real Redis as rows, and what becomes of them when something breaks."""

import json
import os
import signal
import subprocess
import sys

import pytest

from penstock_connector import ConfigError, Partition
from penstock_connector._config import parse_config
from penstock_connector.testing import RemoteError, plan, source_task
from penstock_messaging import RedisSource
from penstock_values.messages import offset_from_proto

PLAIN = {"value.converter.schemas.enable": "false"}
DELETE = 3


def keys(server, stream, **more):
    given = {**server.keys, "redis.stream.name": stream}
    return given | {name.replace("_", "."): str(value) for name, value in more.items()}


def add(server, stream, *numbers):
    return [server.client.xadd(stream, {"n": n}).decode() for n in numbers]


def numbers(rows):
    return [int(row["n"]) for row in rows]


def committed(kind, given, count):
    """Read rows and commit them; returns the offsets."""
    with source_task(kind, given) as task:
        task.rows(count)
        task.until("checkpoint")
        task.commit()
        task.drain()
        return task.offsets


def test_entries_are_rows_and_what_is_not_committed_comes_again(redis_server, topic):
    ids = add(redis_server, topic, *range(20))
    given = keys(redis_server, topic, batch_rows=7, redis_id_column="id", topic="red_${stream}")
    with source_task(RedisSource, given) as task:
        rows = task.rows(7)
        task.until("checkpoint")
        task.commit()
        rows += task.rows(13)
        names = {schema.dataset for schema in (frame.schema for frame in task.seen
                                               if frame.HasField("schema"))}  # fmt: skip
    assert numbers(rows) == list(range(20))
    assert [row["id"] for row in rows] == ids
    assert rows[3]["__ts_us"] == int(ids[3].partition("-")[0]) * 1000
    assert names == {f"red_{topic}"}
    (offset,) = task.offsets.values()
    assert offset == {"id": ids[6], "count": 7}
    with source_task(RedisSource, given, offsets=task.offsets) as again:
        assert numbers(again.rows(13)) == list(range(7, 20))


def test_messages_have_keys_headers_and_deletions(redis_server, topic):
    client = redis_server.client
    client.xadd(topic, {"key": "a", "value": '{"n": 1}', "who": "me"})
    client.xadd(topic, {"key": "b"})
    client.xadd(topic, {"key": "c", "value": b"\xff{"})
    client.xadd(topic, {"key": "d", "value": '{"n": 4}'})
    given = keys(redis_server, topic, redis_entry="message", redis_id_column="id") | PLAIN
    with source_task(RedisSource, given) as task:
        rows = task.rows(3)
        found = [frame.bad_row for frame in task.seen if frame.HasField("bad_row")]
        bad = found[0] if found else task.until("bad_row").bad_row
    assert [(row["__key"], row["n"], row["__op"] == DELETE) for row in rows] == [
        ("a", 1, False), ("b", None, True), ("d", 4, False),
    ]  # fmt: skip
    assert dict(rows[0]["__headers"])["who"] == b"me"
    assert b"-" in dict(rows[0]["__headers"])["id"]
    assert bad.raw == b"\xff{"
    assert set(offset_from_proto(bad.offset)) == {"id"}
    assert "VALUE_CONVERTER" in str(bad)


def test_a_stream_that_is_not_there_is_waited_for(redis_server, topic):
    with source_task(RedisSource, keys(redis_server, topic)) as task:
        task.until("checkpoint")
        add(redis_server, topic, 1)
        assert numbers(task.rows(1)) == [1]


@pytest.mark.parametrize("start", ["latest", "{id}", "{before}", "timestamp"])
def test_where_a_stream_begins_that_was_never_read(redis_server, topic, start):
    client = redis_server.client
    for n in range(4):
        client.xadd(topic, {"n": n}, id=f"{1000 + n}-1")
    start = {
        "{id}": "1001-1", "{before}": "1001-0", "timestamp": "timestamp:1970-01-01T00:00:01.002Z",
    }.get(start, start)  # fmt: skip
    expected = {"latest": [], "1001-1": [2, 3], "1001-0": [1, 2, 3]}.get(start, [2, 3])
    with source_task(RedisSource, keys(redis_server, topic, redis_stream_offset=start)) as task:
        task.until("checkpoint")
        task.commit()
        add(redis_server, topic, 4)
        assert numbers(task.rows(len(expected) + 1)) == [*expected, 4]


def test_a_beginning_is_decided_once(redis_server, topic):
    """`latest` of the first run is not that of the second one."""
    add(redis_server, topic, 0)
    given = keys(redis_server, topic, redis_stream_offset="latest")
    with source_task(RedisSource, given) as task:
        task.until("checkpoint")
        task.commit()
        task.drain()
    add(redis_server, topic, 1)
    with source_task(RedisSource, given, offsets=task.offsets) as again:
        assert numbers(again.rows(1)) == [1]


# ── what is lost ─────────────────────────────────────────────────────────────────────────────────


def release_all(task):
    """Let batches go until the task ends."""
    while True:
        task.release(task.until("ready").ready.seq)


def lost(given, offsets):
    with (
        pytest.raises(RemoteError) as told,
        source_task(RedisSource, given, offsets=offsets) as task,
    ):
        task.until("ready", 20)
    assert told.value.code == "redis.offset_lost"
    assert "redis.stream.lost=continue" in told.value.diagnostic.fix
    return told.value.diagnostic.message


def test_entries_that_were_trimmed_before_they_were_read_are_an_error_or_passed_over(
    redis_server, topic
):
    given = keys(redis_server, topic)
    add(redis_server, topic, *range(5))
    offsets = committed(RedisSource, given, 5)
    add(redis_server, topic, *range(5, 10))
    redis_server.client.xtrim(topic, maxlen=5, approximate=False)
    with source_task(RedisSource, given, offsets=offsets) as task:  # all that is gone was read
        assert numbers(task.rows(5)) == [5, 6, 7, 8, 9]
    redis_server.client.xtrim(topic, maxlen=2, approximate=False)
    assert ": 3 entries behind that were trimmed" in lost(given, offsets)
    lenient = keys(redis_server, topic, redis_stream_lost="continue")
    with source_task(RedisSource, lenient, offsets=offsets) as task:
        assert numbers(task.rows(2)) == [8, 9]


def test_entries_that_are_trimmed_while_it_reads_are_noticed(redis_server, topic):
    add(redis_server, topic, *range(100))
    with source_task(RedisSource, keys(redis_server, topic, batch_rows=10), batches=1) as task:
        ready = task.until("ready").ready
        redis_server.client.xtrim(topic, maxlen=5, approximate=False)
        task.release(ready.seq)
        with pytest.raises(RemoteError) as told:
            release_all(task)
    assert told.value.code == "redis.offset_lost"


def test_a_stream_that_was_read_and_trimmed_to_nothing_goes_on(redis_server, topic):
    given = keys(redis_server, topic)
    add(redis_server, topic, *range(5))
    offsets = committed(RedisSource, given, 5)
    redis_server.client.xtrim(topic, maxlen=0)
    with source_task(RedisSource, given, offsets=offsets) as task:
        add(redis_server, topic, 5)
        assert numbers(task.rows(1)) == [5]


def test_entries_that_others_delete_are_no_loss_once_the_rest_was_read(redis_server, topic):
    given = keys(redis_server, topic)
    ids = add(redis_server, topic, *range(5))
    redis_server.client.xdel(topic, ids[2], ids[4])
    offsets = committed(RedisSource, given, 3)
    redis_server.client.xtrim(topic, maxlen=0)
    with source_task(RedisSource, given, offsets=offsets) as task:
        add(redis_server, topic, 5)
        assert numbers(task.rows(1)) == [5]


def test_a_stream_that_is_another_one_now_is_an_error(redis_server, topic):
    given = keys(redis_server, topic)
    add(redis_server, topic, *range(5))
    offsets = committed(RedisSource, given, 5)
    for count in (2, 9):  # fewer entries than were read of the old one, and more
        redis_server.client.delete(topic)
        add(redis_server, topic, *range(count))
        assert "it is another one now" in lost(given, offsets)
    lenient = keys(redis_server, topic, redis_stream_lost="continue")
    with source_task(RedisSource, lenient, offsets=offsets) as task:
        assert numbers(task.rows(9)) == list(range(9))


def test_a_server_that_lost_its_data_is_noticed(own_redis, topic):
    given = keys(own_redis, topic)
    add(own_redis, topic, *range(5))
    offsets = committed(RedisSource, given, 5)
    own_redis.kill()
    own_redis.lose_everything()
    own_redis.start()
    add(own_redis, topic, 0)
    assert "the server lost it" in lost(given, offsets)


# ── what breaks ──────────────────────────────────────────────────────────────────────────────────


def test_a_server_that_starts_again_gives_every_row_once(own_redis, topic):
    with source_task(RedisSource, keys(own_redis, topic)) as task:
        add(own_redis, topic, 0, 1)
        rows = task.rows(2)
        own_redis.kill()
        own_redis.start()
        add(own_redis, topic, 2)
        rows += task.rows(1)
    assert numbers(rows) == [0, 1, 2]


def test_a_server_that_hangs_is_waited_for_and_then_an_error(own_redis, topic):
    given = keys(own_redis, topic, redis_timeout="500ms", max_retry_time_ms=1000)
    with source_task(RedisSource, given) as task:
        task.until("checkpoint")
        own_redis.pause(is_paused=True)
        with pytest.raises(RemoteError) as told:
            task.until("ready", 30)
        own_redis.pause(is_paused=False)
    assert told.value.code == "redis.unavailable"


def test_a_process_that_is_killed_leaves_its_place_to_the_next_one(redis_server, topic):
    given = keys(redis_server, topic, batch_rows=5)
    add(redis_server, topic, *range(10))
    script = (
        "import json, os, signal, sys\n"
        "from penstock_connector import Partition\n"
        "from penstock_connector._config import parse_config\n"
        "from penstock_messaging import RedisSource\n"
        "source = RedisSource()\n"
        "source.init(parse_config(RedisSource.config_type, json.loads(sys.argv[1])))\n"
        "source.connect([Partition({'stream': sys.argv[2]})])\n"
        "seen = []\n"
        "while len(seen) < 2:\n"
        "    batch = source.read_batch()\n"
        "    if batch is not None and batch.rows: seen.append(batch.offset)\n"
        "print(json.dumps(seen[0]), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(given), topic],
        capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    offsets = {Partition({"stream": topic}).id: json.loads(done.stdout)}
    with source_task(RedisSource, given, offsets=offsets) as task:
        assert numbers(task.rows(5)) == [5, 6, 7, 8, 9]


# ── streams, offsets, ends ───────────────────────────────────────────────────────────────────────


def test_streams_of_a_pattern_are_partitions(redis_server, topic):
    given = redis_server.keys | {"redis.stream.pattern": f"{topic}:*"}
    assert plan(RedisSource, given) == []
    add(redis_server, f"{topic}:b", 1)
    add(redis_server, f"{topic}:a", 0)
    redis_server.client.set(f"{topic}:string", "x")
    assert [one.key for one in plan(RedisSource, given)] == [
        {"stream": f"{topic}:a"}, {"stream": f"{topic}:b"},
    ]  # fmt: skip
    config = parse_config(RedisSource.config_type, given)
    assert RedisSource.monitored(config, 1)
    assert not RedisSource.monitored(
        parse_config(RedisSource.config_type, keys(redis_server, "x")), 1
    )
    with source_task(RedisSource, given) as task:
        assert sorted(numbers(task.rows(2))) == [0, 1]


def test_a_key_that_is_no_stream_is_refused_by_name(redis_server, topic):
    redis_server.client.set(topic, "x")
    config = parse_config(RedisSource.config_type, keys(redis_server, topic))
    with pytest.raises(ConfigError, match=r"\[redis\.wrong_type\]"):
        RedisSource.check(config)


def altered(server, stream, offset):
    config = parse_config(RedisSource.config_type, keys(server, stream))
    partition = Partition({"stream": stream}, offset)
    (found,) = RedisSource.alter_offsets(config, [partition], dry_run=True)
    return found.offset


def test_people_set_ids_and_times(redis_server, topic):
    client = redis_server.client
    for n in range(4):
        client.xadd(topic, {"n": n}, id=f"{1000 + n}-1")
    client.xtrim(topic, maxlen=3, approximate=False)
    id_ = Partition({"stream": topic}).id
    for given, expected in (
        ({"id": "1001-1"}, [2, 3]),
        ({"id": "0-0"}, [1, 2, 3]),
        ({"timestamp": "1970-01-01T00:00:01.002Z"}, [2, 3]),
        ({"timestamp": 0}, [1, 2, 3]),
    ):
        offset = altered(redis_server, topic, given)
        with source_task(RedisSource, keys(redis_server, topic), offsets={id_: offset}) as task:
            assert numbers(task.rows(len(expected))) == expected
    assert altered(redis_server, topic, None) is None
    for bad in ({"id": "x"}, {"offset": 3}, {"id": "1-1", "n": 1}):
        with pytest.raises(ConfigError, match="no place in a stream"):
            altered(redis_server, topic, bad)


def test_a_copy_ends_where_the_streams_ended(redis_server, topic):
    add(redis_server, topic, *range(30))
    redis_server.client.xdel(topic, add(redis_server, topic, 30)[0])
    given = keys(redis_server, topic, batch_rows=7)
    with source_task(RedisSource, given, until_caught_up=True) as task:
        assert numbers(task.all_rows()) == list(range(30))
    empty = keys(redis_server, f"{topic}-none")
    with source_task(RedisSource, empty, until_caught_up=True) as task:
        assert task.all_rows() == []


def test_no_credit_stops_reading_and_nothing_is_lost(redis_server, topic):
    add(redis_server, topic, *range(200))
    with source_task(RedisSource, keys(redis_server, topic, batch_rows=10), batches=1) as task:
        rows = []
        while len(rows) < 200:
            ready = task.until("ready").ready
            rows += task.fetch(ready.seq).to_pylist()
            task.release(ready.seq)
    assert numbers(rows) == list(range(200))
