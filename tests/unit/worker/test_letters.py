"""What becomes of bad rows: judged, logged, and written as letters of the rows that they were."""

import asyncio
import json
import logging
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.model.dead_letter import LETTER, Failed, Stage
from penstock.model.errors import DataError, Diagnostic, ErrorClass, PenstockError, RetriableError
from penstock.model.stream import BadRow, BatchReady, StreamSchema, TopicPlace
from penstock.model.ticket import SlotReport
from penstock.spark.ends import Written, json_lines, lettering
from penstock.telemetry import register_secret
from penstock.worker.dead_letters.publishing import Part, Posting, Sender, with_failures
from penstock.worker.dead_letters.rejected_rows import (
    ALL,
    MAX_REJECTED,
    LetterRules,
    Letters,
    Tolerance,
)
from penstock.worker.job_retries import Retries

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
STREAM = StreamSchema(3, "orders", SCHEMA)
WHY = Diagnostic("transform.cast", "not a number", ErrorClass.DATA, fix="Cast less.")
REFUSED = Diagnostic("sink.too_long", "too long", ErrorClass.DATA)


def rows(seq, count):
    """The rows of a batch, which its number tells."""
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
    """Runs jobs of letters as executors do, without Spark."""

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
        done = lettering.send(ticket, slot, 5, iter(batches), self.write)
        return SlotReport(slot.slot, 5, slot.rows, done.rows, detail=done.detail)

    def write(self, ticket, slot, attempt, batches):
        assert slot.write["kind"] == "place"
        found = [one for one in batches if one.num_rows]
        assert all(one.schema == LETTER for one in found)
        self.letters += [row for one in found for row in one.to_pylist()]
        return Written(sum(one.num_rows for one in found), detail={"files": ["f"]})


class Post:
    def __init__(self):
        self.staged = {}

    def letter_ticket(self, txn_id, slot):
        return {"kind": "place", "slot": slot}

    def stage(self, txn_id, slots):
        self.staged[txn_id] = list(slots)


def bench(counts, rules=None, **posting):
    engine, post = Engine(counts), Post()
    sender = Sender("shop", "g-0", 9, 60)
    made = Posting(sender, engine, Source(), post, Retries(), **posting)
    return engine, post, Letters(rules or LetterRules(ALL), made)


def report(slot=0, apart=(), refused=()):
    return SlotReport(
        slot,
        0,
        set_apart=tuple((row, WHY) for row in apart),
        rejected=tuple((row, REFUSED) for row in refused),
    )


def take(letters, done, unread=(), txn=4):
    return asyncio.run(letters.take(txn, done, unread, 0.0))


def test_letters_have_the_rows_that_failed_and_why():
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
    assert json_lines.read(first["row"].encode() + b"\n", schema).to_pylist() == [
        {"id": 101, "name": "n1"}
    ]
    ((slot,),) = post.staged.values()
    assert (slot.slot, slot.attempt, slot.rows, slot.detail) == (0, 5, 3, {"files": ["f"]})


def test_slots_and_schemas_are_told_apart_and_plans_kept():
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


def test_rows_that_could_not_be_read_keep_their_bytes():
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


def test_a_row_of_a_topic_is_told_by_its_numbers_there():
    """Those of exactly this row, wherever in its batch it is, and whatever is read before it."""
    engine, _, letters = bench({1: 3, 2: 9, 3: 4, 4: 4})
    batches = [
        batch(1, 3, '{"p":0}', place=TopicPlace(0, 40)),
        batch(2, 9, '{"p":1}', place=TopicPlace(1, 7)),
        batch(3, 4, '{"p":0}', place=TopicPlace(0, 43)),
        batch(4, 4, '{"p":1}', place=TopicPlace(1, 16)),
    ]
    take(letters, [(STREAM, batches, report(apart=[1, 18], refused=[12, 15, 16]))])
    told = [(one["partition"], one["offset"]) for one in engine.letters]
    assert told == [("0", "41"), ("0", "43"), ("0", "46"), ("1", "16"), ("1", "18")]
    assert [json.loads(one["row"])["id"] for one in engine.letters] == [101, 300, 303, 400, 402]


def test_a_row_of_a_source_is_told_by_its_own_offset_or_that_of_the_checkpoint_behind_it():
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


def test_letters_tell_the_attempt_that_found_them():
    engine, _, letters = bench({1: 1, 2: 1})
    reports = [replace(report(n, apart=[0]), attempt=20 + n) for n in (0, 1)]
    take(letters, [(STREAM, [batch(n + 1, 1)], one) for n, one in enumerate(reports)])
    assert [one["attempt"] for one in engine.letters] == [20, 21]


def test_a_row_whose_number_is_not_known_has_a_letter_without_it():
    engine, _, letters = bench({1: 2})
    take(letters, [(STREAM, [batch(1, 2)], report(apart=[-1]))])
    ((one),) = engine.letters
    assert (one["row"], one["code"], one["partition"]) == (None, "transform.cast", "p0")
    place = TopicPlace(2, 5)
    take(letters, [(STREAM, [batch(1, 2, place=place)], report(apart=[-1]))])
    assert [(one["partition"], one["offset"]) for one in engine.letters[1:]] == [("2", None)]


def test_kafka_connects_headers_when_they_are_wanted():
    """All ten of KIP-298, and no other."""
    engine, _, letters = bench({1: 9}, headers=True)
    of_topic = batch(1, 9, place=TopicPlace(3, 1000))
    take(letters, [(STREAM, [of_topic], report(refused=[4], apart=[6]))])
    refused, apart = (dict(one["__headers"]) for one in engine.letters)
    assert refused == {
        "__connect.errors.topic": b"orders",
        "__connect.errors.partition": b"3",
        "__connect.errors.offset": b"1004",
        "__connect.errors.connector.name": b"shop",
        "__connect.errors.task.id": b"g-0",
        "__connect.errors.stage": b"TASK_PUT",
        "__connect.errors.class.name": b"write",
        "__connect.errors.exception.class.name": b"sink.too_long",
        "__connect.errors.exception.message": b"too long",
        "__connect.errors.exception.stacktrace": b"",
    }
    assert apart.keys() == refused.keys()
    assert apart["__connect.errors.offset"] == b"1006"
    assert apart["__connect.errors.stage"] == b"TRANSFORMATION"


def test_a_header_of_what_is_not_known_is_left_out():
    engine, _, letters = bench({1: 1}, headers=True)
    unread = [BadRow("p0", b"no json", WHY, "orders", {"line": 7}), BadRow("p0", b"no", WHY)]
    take(letters, [(STREAM, [batch(1, 1)], report())], unread)
    known, unknown = (dict(one["__headers"]) for one in engine.letters)
    assert known["__connect.errors.offset"] == b'{"line":7}'
    assert known["__connect.errors.stage"] == b"TASK_POLL"
    assert known.keys() - unknown.keys() == {"__connect.errors.offset"}


def test_nothing_is_built_or_staged_without_bad_rows():
    engine, post, letters = bench({1: 1})
    assert take(letters, [(STREAM, [batch(1, 1)], report())]) == 0
    assert (engine.built, post.staged) == ([], {})


def test_a_job_of_letters_that_fails_is_tried_again():
    engine, post, letters = bench({1: 1})
    engine.fails = 1
    take(letters, [(STREAM, [batch(1, 1)], report(apart=[0]))])
    assert len(engine.letters) == 1
    assert post.staged


def test_a_place_that_refuses_letters_ends_the_task():
    engine, _, letters = bench({1: 1})
    done = engine.slot
    engine.slot = lambda *a: replace(done(*a), rejected=((0, REFUSED),))
    with pytest.raises(DataError, match=r"errors\.place_refused"):
        take(letters, [(STREAM, [batch(1, 1)], report(apart=[0]))])


@pytest.mark.parametrize(
    ("made", "code", "says"),
    [
        (report(apart=[0, 1]), "transform.cast", "2 row(s) cannot be transformed, first row 0"),
        (report(refused=[1]), "sink.too_long", "the sink refused 1 row(s), first row 1"),
    ],
)
def test_who_tolerates_nothing_is_told_of_the_first(made, code, says):
    with pytest.raises(DataError) as caught:
        take(Letters(LetterRules()), [(STREAM, [batch(1, 2)], made)])
    assert caught.value.code == code
    assert says in caught.value.diagnostic.message


def test_a_window_goes_over_micro_batches_and_counts_good_rows():
    letters = Letters(LetterRules(Tolerance(1, 10), skip=True))
    for _ in range(3):
        take(letters, [(STREAM, [batch(1, 10)], report(apart=[0]))])
    with pytest.raises(DataError, match=r"1 of 10 are tolerated"):
        take(letters, [(STREAM, [batch(1, 10)], report(apart=[0, 9]))])


def test_an_unread_row_that_is_one_too_many_is_told_as_the_source_told_it():
    with pytest.raises(PenstockError) as caught:
        take(Letters(LetterRules()), [], [BadRow("p", b"", WHY)])
    assert caught.value.diagnostic == WHY


def test_so_many_that_the_driver_would_suffer_are_refused():
    letters = Letters(LetterRules(ALL))
    done = [(STREAM, [batch(1, MAX_REJECTED + 1)], report(apart=range(MAX_REJECTED + 1)))]
    with pytest.raises(DataError, match=r"errors\.too_many"):
        take(letters, done)


def test_bad_rows_are_logged_when_asked_for_with_their_text_and_bounded(caplog):
    rules = LetterRules(ALL, log=True, texts=True)
    _, _, letters = bench({1: 30}, rules, texts=20)
    take(letters, [(STREAM, [batch(1, 30)], report(apart=range(30)))])
    lines = [record.getMessage() for record in caplog.records]
    assert sum("not a number" in line for line in lines) == 20
    assert sum('"name":"n' in line for line in lines) == 20
    assert "and 10 more bad rows of this micro-batch" in lines
    caplog.clear()
    take(Letters(LetterRules(ALL)), [(STREAM, [batch(1, 3)], report(apart=[0]))])
    assert caplog.records == []


def test_letters_have_no_secrets(caplog):
    """Invariant 9: a sink may say what it was given."""
    caplog.set_level(logging.ERROR)
    register_secret("hunter-2-of-letters")
    engine, _, letters = bench({1: 1})
    made = SlotReport(0, 0, rejected=((0, replace(REFUSED, message="as hunter-2-of-letters")),))
    take(letters, [(STREAM, [batch(1, 1)], made)])
    assert engine.letters[0]["message"] == "as ***"


def test_only_batches_with_bad_rows_are_chosen_and_their_rows_counted_anew():
    why = Failed(Stage.WRITE, REFUSED)
    part = Part(
        STREAM, [batch(n, 10, f"p{n}") for n in range(4)], 0, [(9, why), (10, why), (39, why)]
    )
    batches, failed = with_failures(part)
    assert [one.seq for one in batches] == [0, 1, 3]
    assert [(row, spot[0]) for row, _, spot in failed] == [(9, "p0"), (10, "p1"), (29, "p3")]
