"""Rows in a real Redis: nothing is lost and nothing twice, and what is refused is refused by
name.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from penstock_connector import FencedError, OffsetLostError, PreparedTxn, RetriableError
from penstock_connector.testing import RemoteError, sink_task
from penstock_kit.testing import wait_until
from penstock_messaging import RedisSink
from support.redis_server import RedisServer

sys.path.insert(0, str(Path(__file__).parent))
import redis_life
from redis_life import Life

PLAIN = {"value.converter.schemas.enable": "false"}
DELETE = 3


def keys(server, topic, **more):
    """Each test has keys and a ledger of its own."""
    given = {
        **server.keys, "redis.key": f"{topic}:${{dataset}}",
        "redis.ledger.prefix": f"penstock:{topic}:",
    }  # fmt: skip
    return given | {name.replace("_", "."): str(value) for name, value in more.items()}


def entries(server, stream):
    return [
        {name.decode(): text.decode() for name, text in fields.items()}
        for _, fields in server.client.xrange(stream)
    ]


def ids(server, stream):
    return [int(one["id"]) for one in entries(server, stream)]


# ── what is written ──────────────────────────────────────────────────────────────────────────────


def test_rows_are_entries_in_their_order(redis_server, topic):
    with sink_task(RedisSink, keys(redis_server, topic)) as task:
        task.write([{"id": n, "text": "é"} for n in range(3000)], dataset="t")
        task.write([{"id": 3000, "text": None}], dataset="t")
    found = entries(redis_server, f"{topic}:t")
    assert found[0] == {"id": "0", "text": "é"}
    assert found[-1] == {"id": "3000"}
    assert [int(one["id"]) for one in found] == list(range(3001))


def test_a_stream_keeps_about_as_many_entries_as_it_should(redis_server, topic):
    with sink_task(RedisSink, keys(redis_server, topic, redis_stream_maxlen=100)) as task:
        task.write([{"id": n} for n in range(5000)], dataset="t")
    assert 100 <= redis_server.client.xlen(f"{topic}:t") < 500


def test_entries_that_are_messages_have_keys_headers_and_deletions(redis_server, topic):
    given = keys(redis_server, topic, redis_entry="message", redis_key=f"{topic}:${{key}}") | PLAIN
    schema = pa.schema(
        [("id", pa.string()), ("n", pa.int64()), ("__op", pa.int8()),
         ("__headers", pa.map_(pa.string(), pa.binary()))]
    )  # fmt: skip
    rows = [
        {"id": "a", "n": 1, "__op": 5, "__headers": [("who", b"me")]},
        {"id": "b", "n": None, "__op": DELETE},
    ]
    with sink_task(RedisSink, given) as task:
        task.write(pa.RecordBatch.from_pylist(rows, schema), dataset="t", key_columns=["id"])
    assert entries(redis_server, f"{topic}:a") == [
        {"key": "a", "value": '{"id":"a","n":1}', "who": "me"}
    ]
    assert entries(redis_server, f"{topic}:b") == [{"key": "b"}]


def test_rows_are_hashes_that_are_changed_and_deleted(redis_server, topic):
    client = redis_server.client
    client.hset(f"{topic}:t:1", "other", "stays")
    first = [{"id": 1, "a": "x", "b": 0.5, "__op": 5}, {"id": 2, "a": "y", "b": None, "__op": 5}]
    then = [
        {"id": 1, "a": None, "b": 1.5, "__op": 5}, {"id": 2, "a": None, "b": None, "__op": DELETE},
        {"id": 3, "a": "z", "b": None, "__op": 5}, {"id": 3, "a": None, "b": None, "__op": DELETE},
        {"id": 3, "a": "again", "b": None, "__op": 5},
    ]  # fmt: skip
    with sink_task(RedisSink, keys(redis_server, topic, redis_command="HSET")) as task:
        task.write(first, dataset="t", key_columns=["id"])
        assert client.hgetall(f"{topic}:t:2") == {b"id": b"2", b"a": b"y"}
        task.write(then, dataset="t", key_columns=["id"])
    assert client.hgetall(f"{topic}:t:1") == {b"id": b"1", b"b": b"1.5", b"other": b"stays"}
    assert not client.exists(f"{topic}:t:2")
    assert client.hgetall(f"{topic}:t:3") == {b"id": b"3", b"a": b"again"}


def test_rows_are_strings_by_the_converter(redis_server, topic):
    given = keys(redis_server, topic, redis_command="SET", redis_key="", redis_separator="/")
    given |= {"redis.key": f"{topic}", **PLAIN}
    rows = [{"id": "a", "n": 1, "__op": 5}, {"id": "b", "n": 2, "__op": 5}]
    with sink_task(RedisSink, given) as task:
        task.write(rows, dataset="t", key_columns=["id"])
        task.write([{"id": "a", "n": None, "__op": DELETE}], dataset="t", key_columns=["id"])
    assert redis_server.client.get(f"{topic}/b") == b'{"id":"b","n":2}'
    assert not redis_server.client.exists(f"{topic}/a")


def test_a_hash_of_many_columns_is_written_and_one_of_more_is_refused(redis_server, topic):
    given = keys(redis_server, topic, redis_command="HSET")
    with sink_task(RedisSink, given) as task:
        row = {f"c{n}": n for n in range(3500)}
        task.write([row], dataset="t", key_columns=["c0"])
        task.write([dict.fromkeys(row) | {"c0": 0}], dataset="t", key_columns=["c0"])
        with pytest.raises(ValueError, match="3501 columns"):
            task.write([{"x": 0, **row}], dataset="t", key_columns=["c0"])
    assert redis_server.client.hgetall(f"{topic}:t:0") == {b"c0": b"0"}


def test_rows_without_a_key_and_columns_without_a_text_are_refused(redis_server, topic):
    with sink_task(RedisSink, keys(redis_server, topic, redis_command="HSET")) as task:
        with pytest.raises(ValueError, match="have no key"):
            task.write([{"a": 1}], dataset="t")
        bad = pa.record_batch([pa.array([1]), pa.array([1], pa.duration("s"))], ["id", "d"])
        with pytest.raises(ValueError, match="values of that type have no text"):
            task.write(bad, dataset="t", key_columns=["id"])


def test_rows_that_can_never_be_written_are_left_out_one_by_one(redis_server, topic):
    client = redis_server.client
    client.set(f"{topic}:t:2", "a string")
    client.rpush(f"{topic}:t:4", "a list")
    schema = pa.schema([("id", pa.string()), ("a", pa.int64())])
    rows = pa.RecordBatch.from_pylist(
        [{"id": one, "a": 1} for one in ("1", "2", "", "3", "4", None)], schema
    )
    given = keys(redis_server, topic, redis_command="HSET")
    with sink_task(RedisSink, given, tolerates_failed_rows=True) as task:
        txn = task.next_txn()
        (result,) = task.put(rows, txn_id=txn, dataset="t", key_columns=["id"])
        assert [(one.row, one.reason.code) for one in result.failed] == [
            (2, "redis.no_key"), (5, "redis.no_key"),
        ]  # fmt: skip
        task.prepare(txn, [(0, 0, 4)])
        assert [(one.row, one.reason.code) for one in task.left_out] == [
            (1, "redis.wrong_type"), (4, "redis.wrong_type"),
        ]  # fmt: skip
        task.commit(txn)
    assert [client.exists(f"{topic}:t:{n}") for n in (1, 3)] == [1, 1]
    assert client.get(f"{topic}:t:2") == b"a string"
    with sink_task(RedisSink, given, epoch=2) as task:
        task._txn_id = txn
        with pytest.raises(RemoteError) as told:
            task.write([{"id": "2", "a": 1}], dataset="t", key_columns=["id"])
    assert told.value.code == "redis.wrong_type"


# ── exactly once ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("at", ["prepared", "before", "sent", "after"])
@pytest.mark.parametrize("command", ["XADD", "HSET"])
def test_a_killed_plugin_loses_and_repeats_nothing(redis_server, topic, at, command):
    given = keys(redis_server, topic, redis_command=command)
    order = {"config": given, "epoch": 1, "until": 2, "txn": 2, "at": at}
    done = subprocess.run(
        [sys.executable, "-P", redis_life.__file__, json.dumps(order)],
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    Life(given, 2).run(3)
    if command == "XADD":
        assert ids(redis_server, f"{topic}:t") == list(range(30))
        return
    found = {
        n: int(redis_server.client.hget(f"{topic}:t:{n}", "txn")) for n in range(30)
    }  # fmt: skip
    assert found == {n: n // 10 + 1 for n in range(30)}


def test_an_answer_that_is_lost_writes_nothing_twice(redis_server, topic):
    life = Life(keys(redis_server, topic), 1)
    ask, lost = life.sink._redis._ask, []

    def losing(*command):
        answer = ask(*command)
        if command[0] == "EVAL" and len(lost) < 2:
            lost.append(answer)
            raise RetriableError("redis.unavailable", "the answer is lost")
        return answer

    life.sink._redis._ask = losing
    life.write([1, 2])
    assert len(lost) == 2
    life.write([3])
    life.sink.close()
    assert ids(redis_server, f"{topic}:t") == [1, 2, 3]


def test_an_older_owner_writes_nothing(redis_server, topic):
    given = keys(redis_server, topic)
    old = Life(given, 1)
    old.write([1])
    old.begin()
    old.prepare([2])
    new = Life(given, 2)
    assert new.done == 1
    with pytest.raises(FencedError, match="newer owner: epoch 2"):
        old.commit()
    new.write([3])
    with pytest.raises(FencedError, match="epoch 2, this is 1"):
        Life(given, 1)
    # another run of the same epoch: what the first one sent may still be on its way
    again = Life(given, 2)
    new.begin()
    new.prepare([4])
    with pytest.raises(FencedError):
        new.commit()
    for life in (old, new, again):
        life.sink.close()
    assert ids(redis_server, f"{topic}:t") == [1, 3]


def test_two_tasks_do_not_see_each_other(redis_server, topic):
    one, other = (Life(keys(redis_server, topic), 1, task=f"test-{n}") for n in range(2))
    one.write([1])
    other.write([2])
    one.sink.close()
    other.sink.close()
    assert ids(redis_server, f"{topic}:t") == [1, 2]


def test_the_ledger_says_what_was_written_last(redis_server, topic):
    given = keys(redis_server, topic)
    with sink_task(RedisSink, given) as task:
        assert not task.opened.HasField("committed")
        task.write([{"id": 1}], dataset="t")
    with sink_task(RedisSink, given, epoch=2) as task:
        last = task.opened.committed
        assert (last.txn_id, last.epoch, last.token) == (1, 1, b"token")


def test_a_key_that_becomes_another_type_leaves_the_transaction_whole(redis_server, topic):
    life = Life(keys(redis_server, topic, redis_command="HSET", max_retry_time_ms=100), 1)
    life.begin()
    life.prepare([1, 2])
    redis_server.client.set(f"{topic}:t:2", "x")
    with pytest.raises(RetriableError, match=r"redis\.type_changed"):
        life.commit()
    life.sink.close()
    assert not redis_server.client.exists(f"{topic}:t:1")
    assert Life(keys(redis_server, topic), 2).done == 0


# ── servers ──────────────────────────────────────────────────────────────────────────────────────


def test_a_server_that_dies_and_comes_back_has_every_row_once(own_redis, topic):
    with sink_task(RedisSink, keys(own_redis, topic)) as task:
        task.write([{"id": 0}], dataset="t")
        own_redis.kill()
        own_redis.start()
        task.write([{"id": n} for n in range(1, 50)], dataset="t")
    assert ids(own_redis, f"{topic}:t") == list(range(50))


def test_a_server_that_hangs_is_an_error_and_the_rows_come_once(own_redis, topic):
    given = keys(own_redis, topic, redis_timeout="2s", max_retry_time_ms=300)
    with sink_task(RedisSink, given) as task:
        task.write([{"id": 0}], dataset="t")
        txn = task.next_txn()
        task.put([{"id": 1}], txn_id=txn, dataset="t")
        task.prepare(txn, [(0, 0, 1)])
        own_redis.pause(is_paused=True)
        with pytest.raises(RemoteError) as told:
            task.commit(txn)
        assert told.value.code == "redis.unavailable"
        own_redis.pause(is_paused=False)
    with sink_task(RedisSink, keys(own_redis, topic), epoch=2) as task:
        task._txn_id = txn
        if task.opened.committed.txn_id < txn:
            task.write([{"id": 1}], dataset="t")
    assert ids(own_redis, f"{topic}:t") == [0, 1]


def test_a_server_without_room_is_waited_for(own_redis, topic):
    client = own_redis.client
    life = Life(keys(own_redis, topic), 1)
    life.write([0])
    client.config_set("maxmemory", 1)
    life.begin()
    life.prepare([1, 2])
    attempts, again = [], life.sink._redis._wait

    def wait(seconds):
        attempts.append(seconds)
        if len(attempts) == 3:
            client.config_set("maxmemory", 0)
        return again(seconds)

    life.sink._redis._wait = wait
    life.commit()
    life.sink.close()
    assert len(attempts) >= 3
    assert ids(own_redis, f"{topic}:t") == [0, 1, 2]


def test_a_server_that_stays_full_is_an_error_and_nothing_is_written(own_redis, topic):
    given = keys(own_redis, topic, max_retry_time_ms=200)
    with sink_task(RedisSink, given) as task:
        own_redis.client.config_set("maxmemory", 1)
        with pytest.raises(RemoteError) as told:
            task.write([{"id": 1}], dataset="t")
    assert told.value.code == "redis.memory_full"
    assert not own_redis.client.exists(f"{topic}:t")


def test_a_replica_is_refused_by_name_and_replicas_can_be_waited_for(own_redis, tmp_path, topic):
    given = keys(own_redis, topic, redis_wait_replicas=1, redis_wait_timeout=200,
                 max_retry_time_ms=300)  # fmt: skip
    with pytest.raises(RemoteError) as told, sink_task(RedisSink, given):
        pass
    assert told.value.code == "redis.replicas"
    lines = [f"replicaof 127.0.0.1 {own_redis.port}"]
    with RedisServer(tmp_path / "replica", lines=lines) as replica:
        wait_until(
            lambda: replica.client.info("replication")["master_link_status"] == "up", 30, "a link"
        )
        patient = given | {"max.retry.time.ms": "20000"}
        with sink_task(RedisSink, patient, epoch=2) as task:
            task.write([{"id": 1}], dataset="t")
            assert ids(replica, f"{topic}:t") == [1]
        wrong = keys(replica, topic, max_retry_time_ms=200)
        with pytest.raises(RemoteError) as told, sink_task(RedisSink, wrong, epoch=3):
            pass
        assert told.value.code == "redis.read_only"


def test_a_server_of_a_cluster_takes_one_slot(tmp_path, topic):
    with RedisServer(tmp_path / "c", lines=["cluster-enabled yes"]) as server:
        server.client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(
            lambda: b"cluster_state:ok" in server.client.execute_command("CLUSTER", "INFO")
            or "cluster_state:ok" in str(server.client.execute_command("CLUSTER", "INFO")),
            30, "a cluster",
        )  # fmt: skip
        with sink_task(RedisSink, keys(server, topic)) as task, pytest.raises(RemoteError) as told:
            task.write([{"id": 1}], dataset="t")
        assert told.value.code == "redis.cross_slot"
        assert "{orders}" in told.value.diagnostic.fix
        tagged = keys(
            server, topic, redis_key="{o}:${dataset}", redis_ledger_prefix="{o}:penstock:"
        )
        with sink_task(RedisSink, tagged) as task:
            task.write([{"id": 1}], dataset="t")
        assert ids(server, "{o}:t") == [1]


# ── servers that lost their data ─────────────────────────────────────────────────────────────────


def test_a_server_that_lost_its_data_is_noticed_by_the_next_run(own_redis, topic):
    given = keys(own_redis, topic)
    with sink_task(RedisSink, given) as task:
        task.write([{"id": 1}], dataset="t")
        last = task.last_prepared
    own_redis.kill()
    own_redis.lose_everything()
    own_redis.start()
    with (
        pytest.raises(RemoteError) as told,
        sink_task(RedisSink, given, epoch=2, last_prepared=last),
    ):
        pass
    assert told.value.code == "redis.ledger_lost"
    lenient = given | {"redis.ledger.lost": "continue"}
    with sink_task(RedisSink, lenient, epoch=3, last_prepared=last) as task:
        task.write([{"id": 2}], dataset="t")
    assert ids(own_redis, f"{topic}:t") == [2]


def test_a_server_that_loses_its_data_while_rows_flow_is_noticed(own_redis, topic):
    for policy in ("fail", "continue"):
        own_redis.client.flushall()
        life = Life(keys(own_redis, topic, redis_ledger_lost=policy), 1)
        life.write([1])
        own_redis.client.flushall()
        life.begin()
        life.prepare([2])
        if policy == "fail":
            with pytest.raises(OffsetLostError, match=r"redis\.ledger_lost"):
                life.commit()
        else:
            life.commit()
            assert ids(own_redis, f"{topic}:t") == [2]
        life.sink.close()


def test_a_server_that_was_restored_has_its_rows_read_again(redis_server, topic, caplog):
    given = keys(redis_server, topic)
    Life(given, 1).write([1])
    life = Life(given, 2)
    life.sink.sweep(5)
    life.sink.close()
    assert "[redis.behind]" in caplog.text


def test_settings_that_lose_rows_have_a_word_about_it(own_redis, topic, caplog):
    own_redis.client.config_set("appendonly", "no")
    own_redis.client.config_set("maxmemory-policy", "allkeys-lru")
    Life(keys(own_redis, topic), 1).sink.close()
    assert "[redis.not_durable]" in caplog.text
    assert "[redis.evicts]" in caplog.text


def test_a_token_of_the_host_alone_is_no_loss(redis_server, topic):
    """The first run of a task, and one whose last transaction the ledger has."""
    given = keys(redis_server, topic)
    with sink_task(RedisSink, given, last_prepared=PreparedTxn(0, 1, b"", b"")) as task:
        task.write([{"id": 1}], dataset="t")
        last = task.last_prepared
    with sink_task(RedisSink, given, epoch=2, last_prepared=last) as task:
        task.write([{"id": 2}], dataset="t")
    assert ids(redis_server, f"{topic}:t") == [1, 2]
