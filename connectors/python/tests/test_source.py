"""A source over the wire: what the host can rely on."""

import threading
from contextlib import suppress
from dataclasses import dataclass
from operator import length_hint
from typing import ClassVar

import pyarrow as pa
import pytest

from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock.api.connector.v1 import types_pb2 as types_pb
from penstock.api.connector.v1.source_service_pb2_grpc import SourceServiceStub
from penstock.api.error.v1 import diagnostic_pb2 as error_pb
from penstock_connector import (
    Batch,
    ConfigError,
    DataError,
    OffsetLostError,
    Partition,
    PartitionRange,
    Source,
    key,
    partition_id,
)
from penstock_connector import _pump as pump
from penstock_connector import _reading as reading
from penstock_connector.testing import (
    Call,
    RemoteError,
    Testbed,
    alter_offsets,
    plan,
    source_task,
    validate,
)
from penstock_kit.testing import wait_until


class Script(Source):
    """Gives what a test says.

    More about it.
    """

    name = "script"
    batches = ()
    made: ClassVar[list] = []

    def connect(self, partitions):
        self.script = iter(self.batches)
        self.acks = []
        self.partitions = partitions
        self.made.append(self)

    def read_batch(self):
        return next(self.script, None)

    def wait(self, timeout):
        self.stopping.wait(timeout)

    def ack(self, offsets):
        self.acks.append(offsets)

    def close(self):
        self.closed = True


def script(*batches, **fields):
    return type("Scripted", (Script,), {"batches": batches, "made": [], **fields})


def batch(number, rows=1, **fields):
    return Batch([{"n": number}] * rows, offset={"n": number}, **fields)


ONE = '{"source":"script"}'


def test_a_task_goes_on_after_the_last_commit(counter):
    config = {"limit": "40", "batch.rows": "10"}
    with source_task(counter, config) as task:
        assert [row["number"] for row in task.rows(20)] == list(range(20))
        task.until("checkpoint")
        task.commit()
    with source_task(counter, config, offsets=task.offsets) as task:
        assert [row["number"] for row in task.all_rows()] == list(range(20, 40))


def test_every_checkpoint_is_a_place_to_go_on(counter):
    config = {"limit": "7", "batch.rows": "2"}
    with source_task(counter, config) as task:
        task.all_rows()
        starts = [f.checkpoint.offsets for f in task.seen if f.HasField("checkpoint")]
    for start in starts:
        ((id_, offset),) = start.items()
        at = offset.fields["next"].int_value
        with source_task(counter, config, offsets={id_: {"next": at}}) as task:
            assert [row["number"] for row in task.all_rows()] == list(range(at, 7))


def test_a_batch_of_a_range_has_the_offsets_of_its_partitions():
    """The rows count as covered, and each offset becomes durable."""
    ids = [partition_id({"host": host}) for host in "ab"]
    hosts = Partition({"hosts": "-"}, range=PartitionRange("host"))
    rows = [{"n": 1}, {"n": 2}]
    offsets = {id_: {"n": n} for n, id_ in enumerate(ids)}
    kind = script(
        Batch(rows, partition=hosts, offsets=offsets),
        needs_commit=True,
        plan=classmethod(lambda *_: [hosts]),
    )
    with source_task(kind, {}) as task:
        assert [row["n"] for row in task.rows(2)] == [1, 2]
        checkpoint = task.until("checkpoint").checkpoint
        assert (checkpoint.rows, set(checkpoint.offsets)) == (2, set(ids))
        task.commit()
        assert task.offsets == offsets
        wait_until(lambda: kind.made[0].acks == [offsets], 30, "the ack")
    with source_task(kind, {}, offsets=task.offsets | {'{"rack":"x"}': {"n": 9}}):
        found = {one.id: one.offset for one in kind.made[1].partitions}
    assert found == {hosts.id: None, **offsets}


def test_numbers_have_no_gaps_and_rows_are_counted():
    kind = script(batch(1, 3), Batch([{"n": 9}]), batch(2), Batch(offset={"n": 3}))
    with source_task(kind, {}) as task:
        frames = [task.event() for _ in range(7)]
    kinds = [frame.WhichOneof("kind") for frame in frames]
    assert kinds == ["schema", "ready", "checkpoint", "ready", "ready", "checkpoint", "checkpoint"]
    assert [f.ready.seq for f in frames if f.HasField("ready")] == [1, 2, 3]
    checkpoints = [f.checkpoint for f in frames if f.HasField("checkpoint")]
    assert [(c.checkpoint_id, c.rows, c.last_seq) for c in checkpoints] == [
        (1, 3, 1),
        (2, 2, 3),
        (3, 0, 3),
    ]


def test_a_checkpoint_without_rows_is_kept_and_may_await_its_commit():
    kind = script(Batch(offset={"start": "0/1"}, await_commit=True))
    with source_task(kind, {}) as task:
        checkpoint = task.until("checkpoint").checkpoint
        assert (checkpoint.rows, checkpoint.await_commit) == (0, True)
        assert checkpoint.offsets[ONE].fields["start"].string_value == "0/1"


def test_a_commit_that_was_awaited_and_comes_after_the_end_is_not_confirmed_any_more():
    kind = script(Batch(offset={"start": "0/1"}, await_commit=True))
    with source_task(kind, {}) as task:
        task.until("checkpoint")
        task.drain()
        task.commit()
        assert task.call.receive() is None
        assert kind.made[0].acks == [{ONE: {"start": "0/1"}}]


def test_credit_is_never_overdrawn_by_more_than_one_batch():
    kind = script(*(batch(n, 1000) for n in range(50)))
    credit, held = 20_000, {}
    with source_task(kind, {}, credit=credit) as task:
        for released in range(20):
            while sum(held.values()) < credit:
                ready = task.until("ready").ready
                assert sum(held.values()) < credit
                held[ready.seq] = ready.bytes
                task.until("checkpoint")
            if released % 5 == 0:
                assert _is_silent(task)
            del held[released + 1]
            task.release(released + 1)


def _is_silent(task):
    try:
        task.event(timeout=0.3)
    except TimeoutError:
        return True
    return False


def test_credit_in_batches_counts_too():
    kind = script(*(batch(n) for n in range(10)))
    with source_task(kind, {}, credit=1 << 20, batches=2) as task:
        assert [task.until("ready").ready.seq for _ in range(2)] == [1, 2]
        task.until("checkpoint")
        assert _is_silent(task)


def test_fetch_gives_the_same_batch_until_it_is_released():
    with source_task(script(batch(1, 5), batch(2)), {}) as task:
        task.until("ready")
        first, second = task.fetch_frames(1), task.fetch_frames(1)
        assert first == second
        assert task.fetch(1).num_rows == 5
        task.release(1)
        task.until("ready")
        with pytest.raises(RemoteError, match="released") as caught:
            _until_refused(task, 1)
        assert caught.value.diagnostic.error_class == error_pb.ERROR_CLASS_RETRIABLE
        assert task.fetch(2).num_rows == 1
        with pytest.raises(RemoteError) as caught:
            task.fetch(3)
        assert caught.value.code == "source.batch.unannounced"


def _until_refused(task, seq):
    for _ in range(1000):
        task.fetch(seq)


def test_frames_of_no_known_kind_are_ignored():
    with source_task(script(batch(1)), {}) as task:
        task.call.send(pb.ReadRequest.FromString(b"\xfa\x3f\x02hi"))
        task.call.send(pb.ReadRequest())
        assert task.rows(1) == [{"n": 1}]
        assert task.drain().checkpoint_id == 1


def test_a_stale_epoch_is_refused_and_a_newer_one_ends_the_older():
    kind = script(batch(1))
    with Testbed(kind) as bed, source_task(kind, {}, epoch=5, bed=bed) as older:
        older.rows(1)
        with pytest.raises(RemoteError) as caught:
            older.fetch(1, epoch=4)
        assert caught.value.diagnostic.error_class == error_pb.ERROR_CLASS_FENCED
        with (
            pytest.raises(RemoteError) as caught,
            source_task(kind, {}, epoch=4, bed=bed),
        ):
            pass
        assert caught.value.code == "task.stale_epoch"
        with source_task(kind, {}, epoch=6, bed=bed) as newer:
            with pytest.raises(RemoteError) as caught:
                older.until("drained")
            assert caught.value.code == "task.taken_over"
            assert kind.made[0].closed
            newer.rows(1)
            with pytest.raises(RemoteError) as caught:
                older.fetch(1)
            assert caught.value.code == "task.stale_epoch"
            assert newer.fetch(1).num_rows == 1


def test_acks_are_cumulative_and_come_from_the_tasks_own_thread():
    two = [Partition({"p": 1}), Partition({"p": 2})]
    threads = set()

    def ack(self, offsets):
        threads.add(threading.current_thread().name)
        Script.ack(self, offsets)

    kind = script(
        batch(1, partition=two[0]),
        batch(2, partition={"p": 2}),
        batch(3, partition=two[0]),
        plan=classmethod(lambda *_: two),
        ack=ack,
    )
    with source_task(kind, {}) as task:
        for _ in range(3):
            task.until("checkpoint")
        task.commit()
        task.release(3)
        task.drain()
        assert list(task.call.receive_all()) == []
    assert kind.made[0].acks == [{'{"p":1}': {"n": 3}, '{"p":2}': {"n": 2}}]
    assert threads == {"read-test-0"}


def test_nothing_is_acked_before_the_host_says_committed():
    kind = script(batch(1))
    with source_task(kind, {}) as task:
        assert task.opened.needs_commit
        task.rows(1)
        task.until("checkpoint")
        task.release(1)
        task.drain()
        assert _is_silent(task)  # it stays for the Committed that is still to come
        assert kind.made[0].acks == []
        task.commit()
        assert task.event() is None
    assert kind.made[0].acks == [{ONE: {"n": 1}}]


def test_only_what_was_committed_is_acked():
    kind = script(batch(1), batch(2))
    with source_task(kind, {}) as task:
        task.until("checkpoint")
        task.commit()
        task.until("checkpoint")
        task.release(2)
        task.drain()
        assert _is_silent(task)
        assert kind.made[0].acks == [{ONE: {"n": 1}}]


def test_a_drain_ends_with_the_last_checkpoint_and_the_task_stays_fetchable():
    kind = script(batch(1), batch(2))
    with source_task(kind, {}) as task:
        for _ in range(2):
            task.until("checkpoint")
        assert task.drain().checkpoint_id == 2
        assert task.fetch(2).num_rows == 1
        task.commit()
        task.release(2)
        assert task.event() is None
    assert kind.made[0].acks == [{ONE: {"n": 2}}]
    assert kind.made[0].closed


def test_a_drain_does_not_wait_for_credit_beyond_its_grace():
    kind = script(batch(1), batch(2, 1000))
    limits = types_pb.Limits(max_batch_rows=1)
    with source_task(kind, {}, credit=1, limits=limits) as task:
        task.until("checkpoint")
        task.release(1)
        task.until("ready")  # the rest of the second batch is in hand, and has no credit
        with suppress(EOFError):
            task.drain(grace=0.1)
    assert kind.made[0].closed


def test_hanging_up_closes_the_source():
    closed = threading.Event()
    kind = script(batch(1), close=lambda _: closed.set())
    with source_task(kind, {}) as task:
        task.rows(1)
        task.call.hang_up()
        assert closed.wait(60)


def test_a_lost_host_closes_the_source():
    closed = threading.Event()
    kind = script(close=lambda _: closed.set())
    with Testbed(kind) as bed:
        with source_task(kind, {}, bed=bed):
            pass
        assert closed.wait(60)


def test_a_bounded_source_ends_its_partitions_and_itself(counter):
    with source_task(counter, {"limit": "3"}) as task:
        assert len(task.all_rows()) == 3
        kinds = [frame.WhichOneof("kind") for frame in task.seen[-2:]]
        assert kinds == ["partition_done", "drained"]


def test_a_source_without_an_end_ends_when_it_has_caught_up():
    kind = script(batch(1), batch(2), caught_up=lambda task: not length_hint(task.script))
    with source_task(kind, {}, until_caught_up=True) as task:
        assert task.opened.ends_when_caught_up
        assert [row["n"] for row in task.all_rows()] == [1, 2]
        kinds = [frame.WhichOneof("kind") for frame in task.seen[-2:]]
        assert kinds == ["partition_done", "drained"]


def test_it_goes_on_where_nobody_wants_its_end():
    kind = script(batch(1), caught_up=lambda _: True)
    with source_task(kind, {}) as task:
        assert not task.opened.ends_when_caught_up
        task.until("checkpoint")
        with pytest.raises(TimeoutError):
            task.until("drained", 0.5)


@pytest.mark.parametrize(
    ("fields", "ends"),
    [
        ({}, False),
        ({"bounded": True}, True),
        ({"bounded": True, "plan": classmethod(lambda *_: [Partition({"p": 1})])}, False),
        ({"plan": classmethod(lambda *_: [Partition({"p": 1}, bounded=True)])}, False),
    ],
)
def test_a_source_says_whether_it_will_end(fields, ends):
    with source_task(script(**fields), {}, until_caught_up=True) as task:
        assert task.opened.ends_when_caught_up is ends


def test_a_source_that_has_caught_up_must_have_given_offsets():
    kind = script(Batch([{"n": 1}]), caught_up=lambda task: not length_hint(task.script))
    with (
        source_task(kind, {}, until_caught_up=True) as task,
        pytest.raises(RemoteError, match=r"source\.rows_without_offset"),
    ):
        task.until("drained")


def test_rows_that_no_offset_follows_fail_a_source_that_finishes():
    kind = script(Batch([{"n": 1}]), bounded=True, finished=lambda _: True)
    with source_task(kind, {}) as task, pytest.raises(RemoteError) as caught:
        task.until("drained")
    assert caught.value.code == "source.rows_without_offset"


def test_a_commit_can_never_cover_rows_whose_offset_did_not_move():
    two = [Partition({"p": 1}), Partition({"p": 2})]
    kind = script(
        Batch([{"n": 1}], two[0]),
        batch(2, partition=two[1]),
        plan=classmethod(lambda *_: two),
    )
    with source_task(kind, {}) as task, pytest.raises(RemoteError) as caught:
        task.until("checkpoint")
    assert caught.value.code == "source.rows_without_offset"


def test_a_commit_that_comes_with_the_end_of_the_stream_is_still_acked(monkeypatch):
    looks = pump.Pump._is_awaited

    def look(task):
        if not task._stopped:  # both come between two looks of the task
            task.committed(task._checkpoints.last_id)
            task.stop()
        return looks(task)

    monkeypatch.setattr(pump.Pump, "_is_awaited", look)
    kind = script(batch(1), bounded=True, finished=lambda _: True)
    with source_task(kind, {}):
        wait_until(lambda: kind.made and kind.made[0].acks, 30, "the ack")
    assert kind.made[0].acks == [{ONE: {"n": 1}}]


def test_a_commit_of_what_was_never_said_is_harmless():
    kind = script(batch(1))
    with source_task(kind, {}) as task:
        task.until("checkpoint")
        task.send(committed=pb.ReadCommitted(checkpoint_id=2**63))
        task.release(1)
        task.drain()
        assert task.event() is None
    assert kind.made[0].acks == [{ONE: {"n": 1}}]


def test_a_partition_can_end_by_itself():
    kind = script(batch(1, finished_partition=True))
    with source_task(kind, {}) as task:
        done = task.until("partition_done").partition_done
        assert done.partition_id == ONE


def test_a_64_mib_row_comes_in_chunks():
    text = "x" * (64 << 20)
    kind = script(Batch([{"s": "a"}, {"s": text}], offset={"n": 1}))
    with source_task(kind, {}, credit=200 << 20) as task:
        assert task.until("ready").ready.rows == 1
        assert task.until("ready").ready.rows == 1
        frames = task.fetch_frames(2)
        assert [frame.batch.more_chunks for frame in frames] == [True, False]
        assert task.fetch(2).to_pylist() == [{"s": text}]


def test_batches_keep_the_hosts_limits():
    rows = pa.table({"s": ["x" * 100] * 10_000})
    kind = script(Batch(rows, offset={"n": 1}))
    limits = types_pb.Limits(
        max_message_bytes=200_000, target_batch_bytes=100_000, max_batch_rows=500
    )
    with source_task(kind, {}, limits=limits) as task:
        task.until("checkpoint")
        ready = [frame.ready for frame in task.seen if frame.HasField("ready")]
        assert sum(r.rows for r in ready) == 10_000
        assert all(r.rows <= 500 and r.bytes <= 200_000 for r in ready)
        assert task.fetch(1).num_rows == ready[0].rows


def test_schemas_come_before_their_rows_and_only_once():
    kind = script(
        batch(1, dataset="a", key_columns=("n",)),
        batch(2, dataset="a", key_columns=("n",)),
        Batch([{"n": 1, "m": "x"}], offset={"n": 3}, dataset="a", key_columns=("n",)),
        batch(4, dataset="b"),
    )
    with source_task(kind, {}) as task:
        for _ in range(4):
            task.until("checkpoint")
        kinds = [f.WhichOneof("kind") for f in task.seen if not f.HasField("checkpoint")]
        assert kinds[1:] == ["schema", "ready", "ready", "schema", "ready", "schema", "ready"]
        datasets = [f.schema.dataset for f in task.seen if f.HasField("schema")]
        assert datasets == ["a", "a", "b"]


def test_rows_that_cannot_be_read_are_handed_over_with_their_bytes():
    bad = [(b"{oops", DataError("json.invalid", "not JSON", fix="Fix the file."))]
    kind = script(Batch([{"n": 1}], offset={"n": 2}, bad_rows=bad, dataset="d"))
    with source_task(kind, {}) as task:
        row = task.until("bad_row").bad_row
        assert (row.raw, row.reason.code, row.dataset) == (b"{oops", "json.invalid", "d")
        assert row.reason.error_class == error_pb.ERROR_CLASS_DATA
        assert task.until("checkpoint").checkpoint.rows == 1


def test_an_error_of_the_source_ends_the_task_with_its_diagnostic():
    def read_batch(_):
        raise OffsetLostError("log.purged", "the log was purged", fix="Start again.")

    with (
        source_task(script(read_batch=read_batch), {}) as task,
        pytest.raises(RemoteError) as caught,
    ):
        task.event()
    diagnostic = caught.value.diagnostic
    assert diagnostic.error_class == error_pb.ERROR_CLASS_OFFSET_LOST
    assert (diagnostic.code, diagnostic.fix) == ("log.purged", "Start again.")


def test_a_defect_names_the_method_and_has_its_stack_trace():
    def read_batch(_):
        raise KeyError("missing")

    with (
        source_task(script(read_batch=read_batch), {}) as task,
        pytest.raises(RemoteError, match=r"Scripted\.read_batch: KeyError") as caught,
    ):
        task.event()
    assert caught.value.diagnostic.error_class == error_pb.ERROR_CLASS_INTERNAL
    assert "in read_batch" in caught.value.diagnostic.detail


def test_a_failed_connect_is_not_hidden_by_the_close_that_follows():
    def connect(_self, _partitions):
        raise ConnectionRefusedError("nobody there")

    def close(self):
        self.socket.close()

    kind = script(connect=connect, close=close)
    with pytest.raises(RemoteError, match="nobody there") as caught, source_task(kind, {}):
        pass
    assert caught.value.diagnostic.error_class == error_pb.ERROR_CLASS_RETRIABLE


def test_a_batch_without_partition_is_refused_when_the_task_has_several():
    kind = script(batch(1), plan=classmethod(lambda *_: [Partition({"p": 1}), Partition({"p": 2})]))
    with source_task(kind, {}) as task, pytest.raises(RemoteError) as caught:
        task.until("ready")
    assert caught.value.code == "source.batch.no_partition"


def test_a_heartbeat_comes_while_idle_and_not_while_the_source_hangs(monkeypatch):
    monkeypatch.setattr(reading, "HEARTBEAT", 0.15)
    monkeypatch.setattr(pump, "_PROGRESS_EVERY", 3600)
    hang = threading.Event()

    def read_batch(self):
        return next(self.script, None) or (hang.wait(20) and None)

    with source_task(script(wait=Source.wait), {}) as idle:
        beats = [idle.call.receive(5).WhichOneof("kind") for _ in range(4)]
        assert beats == ["progress"] * 4
    with source_task(script(batch(1), read_batch=read_batch), {}) as stuck:
        stuck.until("checkpoint")
        assert sum(_beats(stuck)) < 5
        hang.set()


def _beats(task):
    """Count frames until there is none for a while."""
    while True:
        try:
            task.call.receive(0.6)
        except TimeoutError:
            return
        yield 1


def test_what_is_left_is_told():
    kind = script(batch(1), remaining=lambda _: (1000, 10))
    with source_task(kind, {}) as task:
        while not (frame := task.call.receive()).HasField("progress"):
            pass
        assert (frame.progress.lag_bytes, frame.progress.lag_records) == (1000, 10)


def test_a_wait_is_woken_by_an_ack_and_by_the_end():
    def wait(self, timeout):
        self.inbox.wait(timeout)
        self.inbox.clear()

    kind = script(
        batch(1),
        wait=wait,
        wake=lambda self: self.inbox.set(),
        init=lambda self, _: setattr(self, "inbox", threading.Event()),
    )
    with source_task(kind, {}) as task:
        task.until("checkpoint")
        task.commit()
        task.release(1)
        assert task.drain().checkpoint_id == 1
        assert task.event() is None
    assert kind.made[0].acks == [{ONE: {"n": 1}}]


@dataclass(frozen=True)
class Range:
    low: int = key(0, doc="Low.")
    high: int = key(9, doc="High.")


class Ranged(Source[Range]):
    """Has a rule over two keys."""

    name = "ranged"

    @classmethod
    def validate(cls, config):
        if config.low <= config.high:
            return []
        return [DataError("range.empty", "low is above high", config_path="low")]

    @classmethod
    def plan(cls, config, max_tasks, known):
        return [Partition({"n": n}) for n in range(config.low, config.high + 1)]


def test_rules_over_several_keys_are_checked_after_the_types():
    assert validate(Ranged, {"low": "5", "high": "1"}) == ["range.empty"]
    assert validate(Ranged, {"low": "x", "high": "1"}) == ["config.invalid_value"]
    assert validate(Ranged, {}) == []


def test_a_plan_is_of_the_source():
    assert [p.key for p in plan(Ranged, {"high": "1"}, max_tasks=2)] == [{"n": 0}, {"n": 1}]


class Rounding(Script):
    """Goes on at tens only, and notes what it was asked."""

    name = "rounding"
    asked: ClassVar[list] = []

    @classmethod
    def alter_offsets(cls, config, partitions, *, dry_run):
        cls.asked.append(dry_run)
        if any(p.offset and p.offset["n"] < 0 for p in partitions):
            raise ConfigError("rounding.negative", "there is nothing before the first row")
        return [
            Partition(p.key, offset=p.offset and {"n": p.offset["n"] // 10 * 10})
            for p in partitions
        ]


def test_offsets_that_a_person_sets_are_what_the_source_makes_of_them():
    wanted = [Partition({"p": 0}, offset={"n": 17}), Partition({"p": 1})]
    Rounding.asked.clear()
    for dry_run in (True, False):
        altered = alter_offsets(Rounding, {}, wanted, dry_run=dry_run)
        assert [(p.key, p.offset) for p in altered] == [({"p": 0}, {"n": 10}), ({"p": 1}, None)]
    assert Rounding.asked == [True, False]
    with pytest.raises(RemoteError) as caught:
        alter_offsets(Rounding, {}, [Partition({"p": 0}, offset={"n": -1})])
    assert caught.value.code == "rounding.negative"


def test_a_source_without_a_say_is_not_asked():
    assert (Rounding.alters(), Script.alters()) == (True, False)
    wanted = [Partition({"p": 0}, offset={"n": 17})]
    (altered,) = alter_offsets(Script, {}, wanted)
    assert altered.offset == {"n": 17}


def test_a_wrong_configuration_is_told_by_every_call(counter):
    with pytest.raises(RemoteError) as caught, source_task(counter, {"limit": "x"}):
        pass
    assert caught.value.code == "config.invalid_value"
    assert caught.value.diagnostic.config_path == "limit"


def test_a_stream_that_does_not_begin_with_open_is_refused(counter):
    with Testbed(counter) as bed:
        call = Call(SourceServiceStub(bed.channel).Read, bed.metadata)
        call.send(pb.ReadRequest(release=pb.ReadRelease(seq=1)))
        with pytest.raises(RemoteError) as caught:
            call.receive()
    assert caught.value.code == "read.not_opened"


def test_its_numbers_are_told_with_its_progress():
    def read_batch(self):
        self.metrics.add("asked_total")
        self.metrics.set("queue_size", 7)
        return next(self.script, None)

    kind = script(batch(1), read_batch=read_batch)
    with source_task(kind, {}) as task:
        while task.metrics.get("asked_total", 0) < 2:
            frame = task.call.receive(20)
            if frame.HasField("progress"):
                task.metrics = dict(frame.progress.metrics)
        assert task.metrics["queue_size"] == 7
