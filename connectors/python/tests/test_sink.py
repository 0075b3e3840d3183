"""A sink over the wire: what the host can rely on."""

import threading
from typing import ClassVar

import pyarrow as pa
import pytest

from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.api.connector.v1.sink_service_pb2_grpc import SinkServiceStub
from penstock.api.error.v1 import diagnostic_pb2 as error_pb
from penstock.api.record.v1 import record_pb2 as record_pb
from penstock_connector import (
    CommitMode,
    DataError,
    PreparedTxn,
    RetriableError,
    SchemaError,
    Sink,
    TransactionalSink,
)
from penstock_connector.testing import Call, RemoteError, Testbed, sink_task


class Memory(Sink):
    """Keeps rows."""

    name = "memory"
    rows: ClassVar[list] = []
    calls: ClassVar[list] = []

    def write_batch(self, dataset, rows):
        self.rows += rows.to_pylist()

    def flush(self):
        self.calls.append("flush")

    def close(self):
        self.calls.append("close")


def memory(**fields):
    return type("Mem", (Memory,), {"rows": [], "calls": [], **fields})


class Place:
    """A staging that remembers."""

    def __init__(self, world, name):
        self.world, self.name, self.rows, self.state = world, name, [], "open"
        world.places.append(self)

    def put(self, rows):
        assert self.state == "open"
        self.rows += rows.to_pylist()

    def close(self):
        self.state = "closed"

    def discard(self):
        self.state = "discarded"


class Ledger(TransactionalSink):
    """Exactly once, in memory; what is outside a process is on the class."""

    name = "ledger"
    places, visible, calls = [], {}, []

    def connect(self, task_id, epoch):
        self.calls.append(("connect", task_id, epoch))

    def stage(self, txn_id, slot, attempt, dataset, schema):
        return Place(self, (txn_id, slot, attempt, dataset))

    def prepare(self, txn_id, epoch, staged, token):
        assert all(place.state == "closed" for place in staged)
        self.prepared = [row["n"] for place in staged for row in place.rows]
        return repr(self.prepared).encode()

    def commit(self, txn_id, epoch, state):
        self.calls.append(("commit", txn_id))
        self.visible[txn_id] = state.decode()

    def sweep(self, txn_id_done):
        self.calls.append(("sweep", txn_id_done))


def ledger(**fields):
    return type("Led", (Ledger,), {"places": [], "visible": {}, "calls": [], **fields})


def numbers(*values):
    return [{"n": value} for value in values]


def test_a_simple_sink_writes_and_flushes_before_it_answers_prepared():
    kind = memory()
    with sink_task(kind, {}) as task:
        task.put(numbers(1, 2), txn_id=1)
        assert kind.rows == []
        task.prepare(1, [(0, 0, 2)])
        assert (kind.rows, kind.calls) == (numbers(1, 2), ["flush"])
        assert task.commit(1).txn_id == 1
        task.close()
        assert kind.calls == ["flush", "close"]


def test_rows_are_ordered_by_slot_then_by_arrival():
    kind = memory()
    with sink_task(kind, {}) as task:
        task.put(numbers(3, 4), txn_id=1, slot=1)
        task.put(numbers(1, 2), txn_id=1, slot=0)
        task.prepare(1, [(1, 0, 2), (0, 0, 2)])
        assert kind.rows == numbers(1, 2, 3, 4)


def test_an_attempt_that_is_not_named_is_dropped():
    kind = ledger()
    with sink_task(kind, {}) as task:
        task.put(numbers(1), txn_id=1, attempt=0)
        task.put(numbers(1, 2), txn_id=1, attempt=1)
        task.put(numbers(9), txn_id=1, slot=7)
        task.prepare(1, [(0, 1, 2)])
        task.commit(1)
    assert kind.visible == {1: "[1, 2]"}
    states = {place.name[1:3]: place.state for place in kind.places}
    assert states == {(0, 0): "discarded", (0, 1): "closed", (7, 0): "discarded"}


def test_a_prepared_transaction_is_recovered_once_before_new_rows():
    kind = ledger()
    with sink_task(kind, {}) as task:
        task.put(numbers(1), txn_id=1)
        last = task.prepare(1, [(0, 0, 1)])
    assert kind.visible == {}
    kind.calls.clear()
    with sink_task(kind, {}, epoch=2, last_prepared=last, recover=True) as task:
        assert kind.calls == [("connect", "test-0", 2), ("commit", 1), ("sweep", 1)]
        assert kind.visible == {1: "[1]"}
        task.write(numbers(2))
    assert kind.visible == {1: "[1]", 2: "[2]"}


def test_without_recover_nothing_is_applied_again():
    kind = ledger()
    last = PreparedTxn(4, 1, b"[1]")
    with sink_task(kind, {}, epoch=2, last_prepared=last):
        assert kind.calls == [("connect", "test-0", 2), ("sweep", 4)]


def test_what_was_prepared_survives_the_loss_of_the_stream_and_the_rest_does_not():
    kind = ledger()
    with Testbed(kind) as bed:
        with sink_task(kind, {}, bed=bed) as task:
            task.put(numbers(1), txn_id=1)
            task.prepare(1, [(0, 0, 1)])
            task.put(numbers(2), txn_id=2)
        with sink_task(kind, {}, epoch=2, bed=bed):
            assert [place.state for place in kind.places] == ["closed", "discarded"]


def test_the_next_transaction_is_put_while_one_commits():
    entered, go_on = threading.Event(), threading.Event()

    def commit(self, txn_id, epoch, state):
        entered.set()
        assert go_on.wait(60)

    kind = ledger(commit=commit)
    with sink_task(kind, {}) as task:
        task.put(numbers(1), txn_id=1)
        task.prepare(1, [(0, 0, 1)])
        task.send(commit=pb.WriteCommit(txn_id=1))
        assert entered.wait(60)
        (result,) = task.put(numbers(2), txn_id=2)
        assert result.all_ok
        go_on.set()
        task.until("txn_committed")


def test_several_executors_put_at_once():
    kind = ledger()
    with sink_task(kind, {}) as task:
        task.put(numbers(0), txn_id=1, slot=0)
        threads = [
            threading.Thread(target=task.put, args=(numbers(n),), kwargs={"txn_id": 1, "slot": n})
            for n in range(1, 9)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        task.prepare(1, [(n, 0, 1) for n in range(9)])
        task.commit(1)
    assert kind.visible == {1: str(list(range(9)))}


def test_refused_rows_are_named_and_the_others_written():
    def check_batch(self, dataset, rows):
        return [
            (i, DataError("number.odd", "odd"))
            for i, n in enumerate(rows["n"].to_pylist())
            if n % 2
        ]

    kind = memory(check_batch=check_batch)
    with sink_task(kind, {}) as task:
        (result,) = task.put(numbers(1, 2, 3), txn_id=1)
        assert (result.seq, result.all_ok) == (1, False)
        assert [(f.row, f.reason.code) for f in result.failed] == [
            (0, "number.odd"),
            (2, "number.odd"),
        ]
        task.prepare(1, [(0, 0, 1)])
        assert kind.rows == numbers(2)


def test_every_batch_of_a_put_has_its_result():
    big = pa.table({"s": ["x" * 1000] * 20_000})
    with sink_task(memory(), {}) as task:
        results = task.put(big, txn_id=1)
    assert [(result.seq, result.all_ok) for result in results] == [(n, True) for n in range(1, 6)]


def test_a_row_that_is_refused_after_it_was_taken_fails_the_transaction():
    kind = memory(write_batch=lambda *_: [(0, DataError("row.bad", "bad"))])
    with sink_task(kind, {}) as task:
        task.put(numbers(1), txn_id=1)
        with pytest.raises(RemoteError) as caught:
            task.prepare(1, [(0, 0, 1)])
    assert caught.value.code == "sink.rows.refused"


@pytest.mark.parametrize(
    ("slots", "code"),
    [([(0, 0, 3)], "sink.slot.rows_mismatch"), ([(0, 5, 2)], "sink.slot.missing")],
)
def test_prepare_checks_what_it_is_told(slots, code):
    kind = ledger()
    with sink_task(kind, {}) as task:
        task.put(numbers(1, 2), txn_id=1)
        with pytest.raises(RemoteError) as caught:
            task.prepare(1, slots)
    assert caught.value.code == code
    assert kind.visible == {}


def test_a_slot_without_rows_needs_no_put():
    kind = ledger()
    with sink_task(kind, {}) as task:
        task.put(numbers(1), txn_id=1)
        task.prepare(1, [(0, 0, 1), (1, 0, 0)])
        task.commit(1)
    assert kind.visible == {1: "[1]"}


def test_a_put_that_comes_too_late_is_refused():
    with sink_task(ledger(), {}) as task:
        task.put(numbers(1), txn_id=1)
        task.prepare(1, [(0, 0, 1)])
        with pytest.raises(RemoteError) as caught:
            task.put(numbers(1), txn_id=1, attempt=1)
        assert caught.value.code == "sink.txn.closed"


def test_a_stale_epoch_is_refused_everywhere():
    kind = ledger()
    with Testbed(kind) as bed, sink_task(kind, {}, epoch=5, bed=bed) as older:
        older.put(numbers(1), txn_id=1)
        older.prepare(1, [(0, 0, 1)])
        with pytest.raises(RemoteError) as caught, sink_task(kind, {}, epoch=4, bed=bed):
            pass
        assert caught.value.diagnostic.error_class == error_pb.ERROR_CLASS_FENCED
        with pytest.raises(RemoteError) as caught:
            older.put(numbers(1), txn_id=2, epoch=4)
        assert caught.value.code == "task.stale_epoch"
        with sink_task(kind, {}, epoch=6, bed=bed):
            with pytest.raises(RemoteError) as caught:
                older.commit(1)
            assert caught.value.code == "task.taken_over"
            with pytest.raises(RemoteError) as caught:
                older.put(numbers(1), txn_id=2)
            assert caught.value.code == "task.stale_epoch"
    assert kind.visible == {}


def test_a_put_that_is_under_way_ends_with_its_epoch():
    kind = ledger()
    with Testbed(kind) as bed, sink_task(kind, {}, bed=bed) as older:
        older.put(numbers(0), txn_id=1)
        put = Call(SinkServiceStub(bed.channel).Put, bed.metadata)
        put.send(pb.PutRequest(open=pb.PutOpen(task_id="test-0", epoch=1, txn_id=1, slot=1)))
        rows = pa.record_batch({"n": [1]})
        frame = {"schema_id": 1, "rows": 1, "encoding": 1, "data": bytes(rows.serialize())}
        put.send(pb.PutRequest(batch=record_pb.Batch(seq=1, **frame)))
        assert put.receive().batch_result.all_ok
        with sink_task(kind, {}, epoch=2, bed=bed):
            put.send(pb.PutRequest(batch=record_pb.Batch(seq=2, **frame)))
            with pytest.raises(RemoteError) as caught:
                put.receive()
    assert caught.value.diagnostic.error_class == error_pb.ERROR_CLASS_FENCED
    assert kind.places[-1].rows == numbers(1)


def test_a_put_beside_a_prepare_that_fails_has_the_error_of_the_prepare():
    """Were it FENCED, the host would stop the task instead of running it again."""
    closing, answered = threading.Event(), threading.Event()

    def fails(self, *args):
        raise RetriableError("ledger.away", "the ledger does not answer")

    def close(self):
        closing.set()
        answered.wait(30)

    with sink_task(ledger(prepare=fails, close=close), {}) as task:
        task.put(numbers(1), txn_id=1)
        task.send(prepare=pb.WritePrepare(txn_id=1, slots=[pb.PutSlot(slot=0, rows=1)]))
        assert closing.wait(30)
        try:
            with pytest.raises(RemoteError) as caught:
                task.put(numbers(2), txn_id=2)
        finally:
            answered.set()
        with pytest.raises(RemoteError, match=r"ledger\.away"):
            task.until("prepared")
    assert caught.value.diagnostic.error_class == error_pb.ERROR_CLASS_RETRIABLE


def test_commit_needs_prepare():
    with sink_task(ledger(), {}) as task, pytest.raises(RemoteError) as caught:
        task.commit(1)
    assert caught.value.code == "sink.txn.not_prepared"


def test_a_sink_that_stores_the_token_says_where_it_is():
    kind = ledger(commit_modes=(CommitMode.SINK,), committed=lambda _: (7, 3, b"offsets"))
    with sink_task(kind, {}, epoch=4) as task:
        assert task.opened.commit_mode == CommitMode.SINK
        committed = task.opened.committed
        assert (committed.txn_id, committed.epoch, committed.token) == (7, 3, b"offsets")


@pytest.mark.parametrize(
    ("kind", "wanted", "mode"),
    [
        (memory(), CommitMode.UNSPECIFIED, CommitMode.HOST),
        (memory(), CommitMode.TWO_PHASE, CommitMode.HOST),
        (memory(idempotent=True), CommitMode.UNSPECIFIED, CommitMode.IDEMPOTENT),
        (memory(idempotent=True), CommitMode.HOST, CommitMode.HOST),
        (ledger(), CommitMode.HOST, CommitMode.TWO_PHASE),
    ],
)
def test_the_mode_in_force_is_told(kind, wanted, mode):
    with sink_task(kind, {}, commit_mode=wanted) as task:
        assert task.opened.commit_mode == mode


def test_a_refused_schema_is_an_answer_and_not_the_end():
    def apply_schema(self, dataset, schema, key_columns):
        if "bad" in schema.names:
            raise SchemaError("column.bad", "no such column", fix="Drop it.")
        self.calls.append((dataset, schema.names, key_columns))
        return ["CREATE TABLE"]

    kind = memory(apply_schema=apply_schema)
    with sink_task(kind, {}) as task:
        with pytest.raises(ValueError, match="no such column"):
            task.put([{"bad": 1}], txn_id=1, dataset="a")
        task.put([{"n": 1}], txn_id=1, dataset="b", key_columns=("n",))
        assert kind.calls == [("b", ["n"], ("n",))]


@pytest.mark.parametrize("make", [memory, ledger])
def test_a_sink_tells_which_columns_a_place_has(make):
    place = pa.schema([pa.field("id", pa.uint8(), nullable=False)], {"k": "v"})
    kind = make(columns=lambda _, dataset: place if dataset == "there" else None)
    with sink_task(kind, {}) as task:
        assert task.columns("there").equals(place, check_metadata=True)
        assert task.columns("elsewhere") is None


@pytest.mark.parametrize("make", [memory, ledger])
def test_a_sink_that_does_not_tell_says_so(make):
    with sink_task(make(), {}) as task, pytest.raises(LookupError):
        task.columns("there")


def test_a_transaction_has_many_datasets_and_schemas():
    kind = ledger(prepare=lambda s, t, e, staged, k: repr([p.name[3] for p in staged]).encode())
    with sink_task(kind, {}) as task:
        task.put([{"n": 1}], txn_id=1, slot=0, dataset="a")
        task.put([{"m": 1}], txn_id=1, slot=1, dataset="b")
        task.prepare(1, [(0, 0, 1), (1, 0, 1)])
        task.commit(1)
    assert kind.visible == {1: "['a', 'b']"}


def test_state_larger_than_64_kib_is_refused():
    kind = ledger(prepare=lambda *_: b"x" * (64 * 1024 + 1))
    with sink_task(kind, {}) as task, pytest.raises(RemoteError) as caught:
        task.prepare(1, [])
    assert caught.value.code == "sink.state.too_large"


def test_staging_in_memory_is_bounded():
    kind = memory(staging_bytes=1000)
    with sink_task(kind, {}) as task:
        task.put(numbers(*range(100)), txn_id=1)
        with pytest.raises(RemoteError) as caught:
            task.put(numbers(*range(100)), txn_id=1, slot=1)
        assert caught.value.code == "sink.staging.full"
        task.prepare(1, [(0, 0, 100)])
        (result,) = task.put(numbers(*range(100)), txn_id=2)
        assert result.all_ok


def test_a_row_of_64_mib_is_put_in_chunks():
    kind, text = memory(), "x" * (64 << 20)
    with sink_task(kind, {}) as task:
        (result,) = task.put([{"s": text}], txn_id=1)
        assert result.all_ok
        task.prepare(1, [(0, 0, 1)])
    assert kind.rows == [{"s": text}]


def test_frames_of_no_known_kind_are_ignored():
    with sink_task(memory(), {}) as task:
        task.call.send(pb.WriteRequest.FromString(b"\xfa\x3f\x02hi"))
        assert task.write(numbers(1)).txn_id == 1


def test_an_error_of_the_sink_ends_the_task_with_its_diagnostic():
    def flush(_):
        raise TimeoutError("disk is slow")

    with sink_task(memory(flush=flush), {}) as task, pytest.raises(RemoteError) as caught:
        task.write(numbers(1))
    assert caught.value.diagnostic.error_class == error_pb.ERROR_CLASS_RETRIABLE
    assert "Mem.prepare: TimeoutError: disk is slow" in caught.value.diagnostic.message


def test_a_put_without_an_open_task_is_refused():
    kind = memory()
    with Testbed(kind) as bed:
        with sink_task(kind, {}, bed=bed) as task:
            task.write(numbers(1))
            task.close()
            task.call.hang_up()
            with pytest.raises(RemoteError) as caught:
                task.put(numbers(1), txn_id=2)
        assert caught.value.code == "task.not_open"


def test_its_numbers_are_told_after_a_transaction():
    class Counting(Sink):
        name = "counting"

        def write_batch(self, dataset, rows):
            self.metrics.add("written_total", rows.num_rows)

    with sink_task(Counting, {}) as task:
        task.write([{"n": 1}, {"n": 2}])
        task.write([{"n": 3}])
        task.close()
        assert task.metrics == {"written_total": 3}


def test_without_numbers_nothing_is_told():
    class Quiet(Sink):
        name = "quiet"

        def write_batch(self, dataset, rows):
            pass

    with sink_task(Quiet, {}) as task:
        task.write([{"n": 1}])
        task.send(close=pb.WriteClose())
        kinds = [frame.WhichOneof("kind") for frame in iter(task.call.receive, None)]
        assert kinds == ["closed"]
