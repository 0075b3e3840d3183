"""Rows that a sink can never write, found out when the transaction is prepared: the host leaves
them out, and they are the only ones that are left out.
"""

from typing import ClassVar

import pyarrow as pa
import pytest

from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock_connector import (
    DataError,
    FailedRowsError,
    RetriableError,
    Sink,
    TransactionalSink,
)
from penstock_connector._staging import Stage
from penstock_connector.staging import Budget, MemoryStaging
from penstock_connector.testing import RemoteError, sink_task

BUDGET = Budget(1 << 20, "test.full", "")


class Picky(Sink):
    """Takes no odd numbers, and says so row by row, or for a batch."""

    name = "picky"
    written: ClassVar[list] = []
    names_rows = True

    def write_batch(self, dataset, rows):
        values = rows["n"].to_pylist()
        odd = [(i, DataError("number.odd", f"{n} is odd")) for i, n in enumerate(values) if n % 2]
        if odd and not self.names_rows:
            raise odd[0][1]
        self.written += [n for n in values if n % 2 == 0]
        return odd


def picky(**fields):
    return type("Pick", (Picky,), {"written": [], **fields})


def numbers(*values):
    return [{"n": value} for value in values]


def left_out(task):
    return [(one.slot, one.row, one.reason.code) for one in task.left_out]


@pytest.mark.parametrize("names_rows", [True, False])
def test_failed_rows_are_named_and_all_others_written_once(names_rows):
    kind = picky(names_rows=names_rows)
    with sink_task(kind, {}, tolerates_failed_rows=True) as task:
        assert task.opened.reports_failed_rows
        task.put(numbers(2, 3, 4, 5), txn_id=1, slot=0)
        task.put(numbers(6, 8, 9), txn_id=1, slot=1)
        task.prepare(1, [(0, 0, 4), (1, 0, 3)])
        assert left_out(task) == [(0, 1, "number.odd"), (0, 3, "number.odd"), (1, 2, "number.odd")]
        task.commit(1)
    assert kind.written == [2, 4, 6, 8]


def test_rows_are_counted_with_those_that_were_refused_when_they_were_put():
    def check_batch(self, dataset, rows):
        return [(0, DataError("number.first", "no"))]

    kind = picky(check_batch=check_batch)
    with sink_task(kind, {}, tolerates_failed_rows=True) as task:
        task.put(numbers(0, 1, 2), txn_id=1)
        task.prepare(1, [(0, 0, 2)])
        assert left_out(task) == [(0, 1, "number.odd")]
    assert kind.written == [2]


def test_rows_of_two_schemas_are_counted_by_their_slot():
    stage = Stage(txn_id=1, slot=0, attempt=0)
    for schema_id in (1, 2):
        stage.stagings[schema_id] = MemoryStaging("", lambda _: None, BUDGET, numbered=True)
    for schema_id, values in ((1, [2, 3]), (2, [5]), (1, [7, 8])):
        stage.stagings[schema_id].put(pa.record_batch({"n": values}))
        stage.batches.append((schema_id, len(values)))
    numbers = [stage.number_of(stage.stagings[1], row) for row in range(4)]
    assert (numbers, stage.number_of(stage.stagings[2], 0)) == ([0, 1, 3, 4], 2)
    stage.leave_out([1, 2, 3])
    staged = {id_: [b["n"].to_pylist() for b in one.batches] for id_, one in stage.stagings.items()}
    assert staged == {1: [[2], [8]], 2: [[]]}


def test_more_failed_rows_than_fit_an_answer_come_in_several():
    kind = picky()
    with sink_task(kind, {}, tolerates_failed_rows=True) as task:
        task.put(numbers(*range(5_001)), txn_id=1)
        task.prepare(1, [(0, 0, 5_001)])
        assert [row for _, row, _ in left_out(task)] == list(range(1, 5_001, 2))
    assert kind.written == list(range(0, 5_001, 2))


def test_where_failed_rows_are_not_tolerated_the_first_ends_the_task():
    for names_rows, code in ((True, "sink.rows.refused"), (False, "number.odd")):
        with sink_task(picky(names_rows=names_rows), {}) as task:
            task.put(numbers(2, 3), txn_id=1)
            with pytest.raises(RemoteError) as caught:
                task.prepare(1, [(0, 0, 2)])
        assert caught.value.code == code


def test_a_row_that_may_be_written_later_is_not_left_out():
    kind = picky(write_batch=lambda *_: [(0, RetriableError("sink.busy", "later"))])
    with sink_task(kind, {}, tolerates_failed_rows=True) as task:
        task.put(numbers(1), txn_id=1)
        with pytest.raises(RemoteError) as caught:
            task.prepare(1, [(0, 0, 1)])
    assert caught.value.code == "sink.busy"


@pytest.mark.parametrize("row", [1, -1])
def test_a_row_that_its_batch_does_not_have_is_a_defect(row):
    kind = picky(write_batch=lambda *_: [(row, DataError("row.bad", "bad"))])
    with sink_task(kind, {}, tolerates_failed_rows=True) as task:
        task.put(numbers(1), txn_id=1)
        with pytest.raises(RemoteError) as caught:
            task.prepare(1, [(0, 0, 1)])
    assert caught.value.code == "connector.defect"


class Table(TransactionalSink):
    """All or nothing: the second try has to leave the failed rows out."""

    name = "table"
    reports_failed_rows = True
    visible: ClassVar[list] = []
    tries: ClassVar[list] = []

    def stage(self, txn_id, slot, attempt, dataset, schema):
        return MemoryStaging(dataset, lambda _: None, BUDGET, numbered=True)

    def prepare(self, txn_id, epoch, staged, token):
        rows = [
            (staging, number.as_py(), value.as_py())
            for staging in staged
            for batch, numbers in zip(staging.batches, staging.numbers, strict=True)
            for number, value in zip(numbers, batch["n"], strict=True)
        ]
        self.tries.append([value for *_, value in rows])
        bad = [(at, n, DataError("row.bad", "bad")) for at, n, value in rows if value < 0]
        if bad:
            raise FailedRowsError(bad)
        self.staged = self.tries[-1]
        return b""

    def commit(self, txn_id, epoch, state):
        self.visible.extend(self.staged)


def table(**fields):
    return type("Tab", (Table,), {"visible": [], "tries": [], **fields})


def test_a_transactional_sink_gets_the_other_rows_again():
    kind = table()
    with sink_task(kind, {}, tolerates_failed_rows=True) as task:
        task.put(numbers(1, -2, 3), txn_id=1)
        task.put(numbers(-4, 5), txn_id=1, slot=3)
        task.prepare(1, [(0, 0, 3), (3, 0, 2)])
        assert left_out(task) == [(0, 1, "row.bad"), (3, 0, "row.bad")]
        task.commit(1)
        task.put(numbers(6), txn_id=2)
        task.prepare(2, [(0, 0, 1)])
        task.commit(2)
    assert kind.tries == [[1, -2, 3, -4, 5], [1, 3, 5], [6]]
    assert kind.visible == [1, 3, 5, 6]


def test_a_transaction_with_failed_rows_takes_no_more_rows():
    with sink_task(table(), {}, tolerates_failed_rows=True) as task:
        task.put(numbers(-1), txn_id=1)
        task.send(prepare=pb.WritePrepare(txn_id=1, slots=[pb.PutSlot(slot=0, rows=1)]))
        answer = task.until("prepared").prepared
        assert [one.row for one in answer.failed] == [0]
        assert (answer.txn.txn_id, answer.txn.epoch) == (1, 0)
        with pytest.raises(RemoteError) as caught:
            task.put(numbers(2), txn_id=1, slot=1)
    assert caught.value.code == "sink.txn.closed"


@pytest.mark.parametrize("row", [7, -1, None])
def test_a_sink_that_names_rows_that_were_not_put_is_a_defect(row):
    def prepare(self, txn_id, epoch, staged, token):
        place = staged[0] if row is not None else MemoryStaging("", lambda _: None, BUDGET)
        raise FailedRowsError([(place, row or 0, DataError("row.bad", "bad"))])

    with sink_task(table(prepare=prepare), {}, tolerates_failed_rows=True) as task:
        task.put(numbers(1), txn_id=1)
        with pytest.raises(RemoteError) as caught:
            task.prepare(1, [(0, 0, 1)])
    assert caught.value.code == "connector.defect"
