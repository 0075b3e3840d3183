"""Rejected rows are compared with the tolerance, logged, and written as dead letters of the rows
that they were.
"""

import asyncio
import json
import logging
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.connector_config.dead_letters import TOLERATE_ALL, RejectedRowRules, Tolerance
from penstock.connector_config.settings import RetryPolicy
from penstock.model.dead_letter import DEAD_LETTER_SCHEMA, RowFailure, Stage
from penstock.model.dead_letter_queue import MAX_REJECTED_ROWS
from penstock.model.errors import DataError, Diagnostic, ErrorClass, PenstockError, RetriableError
from penstock.model.stream import BadRow, BatchReady, StreamSchema, TopicPosition
from penstock.model.ticket import SlotReport
from penstock.spark.connector_io import dead_letters, json_lines
from penstock.spark.slot_reports import WriteResult
from penstock.telemetry.redaction import register_secret
from penstock.worker.dead_letters.dead_letter_writer import (
    DeadLetterOrigin,
    DeadLetterWriter,
    select_failed_batches,
)
from penstock.worker.dead_letters.rejected_rows import RejectedRowHandler, SlotFailures

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
STREAM = StreamSchema(3, "orders", SCHEMA)
WHY = Diagnostic("transform.cast", "not a number", ErrorClass.DATA, fix="Cast less.")
REFUSED = Diagnostic("sink.too_long", "too long", ErrorClass.DATA)


def rows(seq, count):
    """The rows of a batch, which contain its number."""
    return pa.RecordBatch.from_pylist(
        [{"id": seq * 100 + n, "name": f"n{n}"} for n in range(count)], schema=SCHEMA
    )


def batch(seq, count, partition="p0", **more):
    return BatchReady(seq, 3, partition, count, count * 10, **more)


class Source:
    """Rows that can be read again."""

    def ticket(self, seqs, schema_id):
        assert schema_id == 3
        return {"kind": "source", "seqs": list(seqs)}


class Engine:
    """Runs dead-letter jobs as executors do, without Spark."""

    def __init__(self, counts):
        self.counts, self.letters, self.read, self.own = counts, [], [], ()
        self.built, self.fails = [], 0

    def build(self, name, schema, steps, slots, **_):
        self.built.append((name, schema, tuple(steps), slots))
        return len(self.built)

    async def run(self, plan, ticket, *, lag):
        if self.fails:
            self.fails -= 1
            raise RetriableError("engine.job_failed", "once")
        return [self.slot(ticket, slot) for slot in ticket.slots]

    def slot(self, ticket, slot):
        seqs = slot.read.get("seqs", ())
        self.read.append(list(seqs))
        batches = [rows(seq, self.counts[seq]) for seq in seqs]
        if self.own:
            own = pa.array(self.own, pa.binary())
            batches = [one.append_column("__offset", own) for one in batches]
        assert sum(b.num_rows for b in batches) == slot.rows
        done = dead_letters.write_dead_letters(ticket, slot, 5, iter(batches), self.write)
        return SlotReport(slot.slot, 5, slot.rows, done.rows, detail=done.detail)

    def write(self, ticket, slot, attempt, batches):
        assert slot.write["kind"] == "place"
        found = [one for one in batches if one.num_rows]
        assert all(one.schema == DEAD_LETTER_SCHEMA for one in found)
        self.letters += [row for one in found for row in one.to_pylist()]
        return WriteResult(sum(one.num_rows for one in found), detail={"files": ["f"]})


class Place:
    def __init__(self):
        self.staged = {}

    def dead_letter_ticket(self, txn_id, slot):
        return {"kind": "place", "slot": slot}

    def stage(self, txn_id, slots):
        self.staged[txn_id] = [*self.staged.get(txn_id, ()), *slots]

    def count_staged(self, txn_id):
        return len(self.staged.get(txn_id, ()))


def bench(counts, rules=None, **posting):
    engine, place = Engine(counts), Place()
    sender = DeadLetterOrigin("shop", "g-0", 9, 60)
    made = DeadLetterWriter(sender, engine, Source(), place, RetryPolicy(), **posting)
    return engine, place, RejectedRowHandler(rules or RejectedRowRules(TOLERATE_ALL), made)


def report(slot=0, apart=(), refused=()):
    return SlotReport(
        slot,
        0,
        rejected_by_chain=tuple((row, WHY) for row in apart),
        rejected=tuple((row, REFUSED) for row in refused),
    )


def take(letters, done, unread=(), txn=4):
    return asyncio.run(letters.handle(txn, done, unread, 0.0))


def test_dead_letters_have_the_rejected_rows_and_the_reasons():
    engine, post, letters = bench({1: 3, 2: 2, 3: 4})
    batches = [batch(1, 3), batch(2, 2, "p1"), batch(3, 4, "p1")]
    failed = take(letters, [(STREAM, batches, report(apart=[1, 7], refused=[5]))])
    assert failed == 3
    assert engine.read == [[1, 3]], "a batch without a bad row is not read again"
    told = [(one["stage"], one["code"], one["partition"]) for one in engine.letters]
    assert told == [
        ("transform", "transform.cast", "p0"),
        ("write", "sink.too_long", "p1"),
        ("transform", "transform.cast", "p1"),
    ]
    assert [json.loads(one["row"])["id"] for one in engine.letters] == [101, 300, 302]
    first = engine.letters[0]
    assert (first["connector"], first["task"], first["epoch"]) == ("shop", "g-0", 9)
    assert (first["transaction"], first["dataset"], first["fix"]) == (4, "orders", "Cast less.")
    schema = pa.ipc.read_schema(pa.py_buffer(first["schema"]))
    assert json_lines.parse_rows(first["row"].encode() + b"\n", schema).to_pylist() == [
        {"id": 101, "name": "n1"}
    ]
    ((slot,),) = post.staged.values()
    assert (slot.slot, slot.attempt, slot.rows, slot.detail) == (0, 5, 3, {"files": ["f"]})


def test_slots_and_schemas_are_separate_and_plans_are_cached():
    engine, post, letters = bench({1: 2, 2: 2, 3: 2})
    done = [
        (STREAM, [batch(1, 2)], report(0, apart=[0])),
        (STREAM, [batch(2, 2)], report(1)),
        (STREAM, [batch(3, 2)], report(2, apart=[1])),
    ]
    for txn in (4, 5):
        take(letters, done, txn=txn)
    assert [slot.slot for slot in post.staged[5]] == [0, 1]
    assert len(engine.built) == 1
    assert engine.built[0][1:] == (SCHEMA, (), 2)


def test_unreadable_rows_keep_their_bytes():
    engine, post, letters = bench({1: 1})
    unread = [
        BadRow("p0", b"\x00 no json", WHY, "orders", {"line": 7}),
        BadRow("p1", b"neither", WHY, "orders"),
    ]
    assert take(letters, [(STREAM, [batch(1, 1)], report())], unread) == 2
    assert [one["raw"] for one in engine.letters] == [b"\x00 no json", b"neither"]
    assert [one["partition"] for one in engine.letters] == ["p0", "p1"]
    assert {one["stage"] for one in engine.letters} == {"read"}
    assert engine.read == [[]]
    assert [(one["offset"], one["attempt"]) for one in engine.letters] == [
        ('{"line":7}', None),
        (None, None),
    ]
    assert len(post.staged[4]) == 1


def test_a_row_of_a_topic_has_its_partition_and_offset():
    """Those of exactly this row, wherever in its batch it is, and whatever is read before it."""
    engine, _, letters = bench({1: 3, 2: 9, 3: 4, 4: 4})
    batches = [
        batch(1, 3, '{"p":0}', position=TopicPosition(0, 40)),
        batch(2, 9, '{"p":1}', position=TopicPosition(1, 7)),
        batch(3, 4, '{"p":0}', position=TopicPosition(0, 43)),
        batch(4, 4, '{"p":1}', position=TopicPosition(1, 16)),
    ]
    take(letters, [(STREAM, batches, report(apart=[1, 18], refused=[12, 15, 16]))])
    told = [(one["partition"], one["offset"]) for one in engine.letters]
    assert told == [("0", "41"), ("0", "43"), ("0", "46"), ("1", "16"), ("1", "18")]
    assert [json.loads(one["row"])["id"] for one in engine.letters] == [101, 300, 303, 400, 402]


def test_a_row_of_a_source_has_its_own_offset_or_that_of_the_next_checkpoint():
    engine, _, letters = bench({1: 2, 2: 2, 3: 2})
    batches = [
        batch(1, 2, offset={"line": 9, "byte": 70}),
        batch(2, 2),
        batch(3, 2, offset={"$opaque": b"x"}),
    ]
    take(letters, [(STREAM, batches, report(refused=[1, 2, 5]))])
    told = ['{"byte":70,"line":9}', None, '{"$opaque":{"$bytes":"eA=="}}']
    assert [one["offset"] for one in engine.letters] == told
    long = batch(1, 2, offset={"$opaque": b"x" * 1000})
    take(letters, [(STREAM, [long], report(refused=[0]))])
    assert engine.letters[-1]["offset"] is None, "it travels through the driver"
    engine.own = [b"0/16B", b"\xff"]
    del engine.letters[:]
    take(letters, [(STREAM, batches, report(refused=[0, 1]))])
    assert [one["offset"] for one in engine.letters] == ["0/16B", "/w=="]


def test_dead_letters_have_the_attempt_that_rejected_them():
    engine, _, letters = bench({1: 1, 2: 1})
    reports = [replace(report(n, apart=[0]), attempt=20 + n) for n in (0, 1)]
    take(letters, [(STREAM, [batch(n + 1, 1)], one) for n, one in enumerate(reports)])
    assert [one["attempt"] for one in engine.letters] == [20, 21]


def test_a_row_without_a_number_becomes_a_dead_letter_without_an_offset():
    engine, _, letters = bench({1: 2})
    take(letters, [(STREAM, [batch(1, 2)], report(apart=[-1]))])
    ((one),) = engine.letters
    assert (one["row"], one["code"], one["partition"]) == (None, "transform.cast", "p0")
    position = TopicPosition(2, 5)
    take(letters, [(STREAM, [batch(1, 2, position=position)], report(apart=[-1]))])
    assert [(one["partition"], one["offset"]) for one in engine.letters[1:]] == [("2", None)]


def test_kafka_connects_headers_are_added_on_request():
    """All ten of KIP-298, and no other."""
    engine, _, letters = bench({1: 9}, headers=True)
    of_topic = batch(1, 9, position=TopicPosition(3, 1000))
    take(letters, [(STREAM, [of_topic], report(refused=[4], apart=[6]))])
    refused, apart = (dict(one["__headers"]) for one in engine.letters)
    assert refused == {
        "__connect.errors.topic": b"orders",
        "__connect.errors.partition": b"3",
        "__connect.errors.offset": b"1004",
        "__connect.errors.connector.name": b"shop",
        "__connect.errors.task.id": b"0",
        "__connect.errors.stage": b"TASK_PUT",
        "__connect.errors.class.name": b"write",
        "__connect.errors.exception.class.name": b"sink.too_long",
        "__connect.errors.exception.message": b"too long",
        "__connect.errors.exception.stacktrace": b"",
    }
    assert apart.keys() == refused.keys()
    assert apart["__connect.errors.offset"] == b"1006"
    assert apart["__connect.errors.stage"] == b"TRANSFORMATION"


def test_a_header_without_a_value_is_left_out():
    engine, _, letters = bench({1: 1}, headers=True)
    unread = [BadRow("p0", b"no json", WHY, "orders", {"line": 7}), BadRow("p0", b"no", WHY)]
    take(letters, [(STREAM, [batch(1, 1)], report())], unread)
    known, unknown = (dict(one["__headers"]) for one in engine.letters)
    assert known["__connect.errors.offset"] == b'{"line":7}'
    assert known["__connect.errors.stage"] == b"TASK_POLL"
    assert known.keys() - unknown.keys() == {"__connect.errors.offset"}


def test_without_rejected_rows_nothing_is_built_or_staged():
    engine, post, letters = bench({1: 1})
    assert take(letters, [(STREAM, [batch(1, 1)], report())]) == 0
    assert (engine.built, post.staged) == ([], {})


def test_a_failed_dead_letter_job_is_retried():
    engine, post, letters = bench({1: 1})
    engine.fails = 1
    take(letters, [(STREAM, [batch(1, 1)], report(apart=[0]))])
    assert len(engine.letters) == 1
    assert post.staged


def test_a_place_that_rejects_dead_letters_ends_the_task():
    engine, _, letters = bench({1: 1})
    done = engine.slot
    engine.slot = lambda *a: replace(done(*a), rejected=((0, REFUSED),))
    with pytest.raises(DataError, match=r"errors\.place_refused"):
        take(letters, [(STREAM, [batch(1, 1)], report(apart=[0]))])


@pytest.mark.parametrize(
    ("made", "code", "says"),
    [
        (report(apart=[0, 1]), "transform.cast", "the transforms rejected 2 row(s), first row 0"),
        (report(refused=[1]), "sink.too_long", "the sink rejected 1 row(s), first row 1"),
    ],
)
def test_without_tolerance_the_first_rejected_row_ends_the_task(made, code, says):
    with pytest.raises(DataError) as caught:
        take(RejectedRowHandler(RejectedRowRules()), [(STREAM, [batch(1, 2)], made)])
    assert caught.value.code == code
    assert says in caught.value.diagnostic.message


def test_a_window_spans_micro_batches_and_counts_accepted_rows():
    letters = RejectedRowHandler(RejectedRowRules(Tolerance(1, 10), discard=True))
    for _ in range(3):
        take(letters, [(STREAM, [batch(1, 10)], report(apart=[0]))])
    with pytest.raises(DataError, match=r"1 of 10 are tolerated"):
        take(letters, [(STREAM, [batch(1, 10)], report(apart=[0, 9]))])


def test_an_unreadable_row_beyond_the_tolerance_has_the_sources_error():
    with pytest.raises(PenstockError) as caught:
        take(RejectedRowHandler(RejectedRowRules()), [], [BadRow("p", b"", WHY)])
    assert caught.value.diagnostic == WHY


def test_too_many_rejected_rows_end_the_task():
    letters = RejectedRowHandler(RejectedRowRules(TOLERATE_ALL))
    done = [(STREAM, [batch(1, MAX_REJECTED_ROWS + 1)], report(apart=range(MAX_REJECTED_ROWS + 1)))]
    with pytest.raises(DataError, match=r"errors\.too_many"):
        take(letters, done)


def fail(letters, made, before=0, txn=4):
    done = [(STREAM, [batch(1, 10)], made)]
    return asyncio.run(letters.handle_failed(txn, done, before, 0.0))


def test_rows_that_fail_when_they_are_written_join_the_dead_letters_of_their_transaction():
    _, place, letters = bench({1: 10, 2: 10})
    take(letters, [(STREAM, [batch(1, 10)], report(apart=[3]))])
    take(letters, [(STREAM, [batch(2, 10)], report(apart=[5]))], txn=5)
    assert fail(letters, report(refused=[7])) == 1
    assert [slot.slot for slot in place.staged[4]] == [0, 1], "both, in slots of their own"
    assert [slot.slot for slot in place.staged[5]] == [0]


def test_rows_that_fail_late_count_as_the_latest_in_a_window():
    letters = RejectedRowHandler(RejectedRowRules(Tolerance(1, 10), discard=True))
    take(letters, [(STREAM, [batch(1, 10)], report(apart=[9]))])
    with pytest.raises(DataError, match=r"1 of 10 are tolerated"):
        fail(letters, report(refused=[2]))


def test_rows_that_fail_one_after_another_are_too_many_together():
    letters = RejectedRowHandler(RejectedRowRules(TOLERATE_ALL, discard=True))
    assert fail(letters, report(refused=[1]), before=MAX_REJECTED_ROWS - 1) == 1
    with pytest.raises(DataError, match=r"errors\.too_many"):
        fail(letters, report(refused=[1]), before=MAX_REJECTED_ROWS)


def test_rejected_rows_are_logged_on_request_with_their_text_and_bounded(caplog):
    rules = RejectedRowRules(TOLERATE_ALL, log=True, log_rows=True)
    _, _, letters = bench({1: 30}, rules, max_texts=20)
    take(letters, [(STREAM, [batch(1, 30)], report(apart=range(30)))])
    lines = [record.getMessage() for record in caplog.records]
    assert sum("not a number" in line for line in lines) == 20
    assert sum('"name":"n' in line for line in lines) == 20
    assert "and 10 more rejected rows of this micro-batch" in lines
    caplog.clear()
    take(
        RejectedRowHandler(RejectedRowRules(TOLERATE_ALL)),
        [(STREAM, [batch(1, 3)], report(apart=[0]))],
    )
    assert caplog.records == []


def test_dead_letters_have_no_secrets(caplog):
    """Invariant 9: a sink may repeat its configuration in an error."""
    caplog.set_level(logging.ERROR)
    register_secret("hunter-2-of-letters")
    engine, _, letters = bench({1: 1})
    made = SlotReport(0, 0, rejected=((0, replace(REFUSED, message="as hunter-2-of-letters")),))
    take(letters, [(STREAM, [batch(1, 1)], made)])
    assert engine.letters[0]["message"] == "as ***"


def test_only_batches_with_rejected_rows_are_selected_and_their_rows_renumbered():
    why = RowFailure(Stage.WRITE, REFUSED)
    part = SlotFailures(
        STREAM, [batch(n, 10, f"p{n}") for n in range(4)], 0, [(9, why), (10, why), (39, why)]
    )
    batches, failed = select_failed_batches(part)
    assert [one.seq for one in batches] == [0, 1, 3]
    assert [(row, spot[0]) for row, _, spot in failed] == [(9, "p0"), (10, "p1"), (29, "p3")]
