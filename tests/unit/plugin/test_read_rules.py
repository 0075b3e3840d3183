"""The rules of a read stream, each with the frame that breaks it."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import InternalError
from penstock.model.stream import BatchReady, Checkpoint, StreamSchema
from penstock.plugin.protocol_rules import (
    MAX_BATCH_ROWS,
    MAX_READY_BATCHES,
    ReadRules,
    check_partition_id,
)
from penstock_values.partition_ranges import OwnPartitions, PartitionRange

ID = '{"file":"a"}'


def rules(credit=1000):
    made = ReadRules(credit)
    made.check_schema(schema(1))
    return made


def schema(id_, name="a"):
    return StreamSchema(id_, "d", pa.schema([(name, pa.string())]))


def ready(seq, rows=1, size=10, schema_id=1, partition=ID):
    return BatchReady(seq, schema_id, partition, rows, size)


def checkpoint(id_, rows, last_seq, partition=ID):
    return Checkpoint(id_, {partition: {"n": 1}}, rows, last_seq)


def broken(code, what, *args, **kwargs):
    with pytest.raises(InternalError) as caught:
        what(*args, **kwargs)
    assert caught.value.code == f"plugin.protocol.{code}"
    assert caught.value.diagnostic.fix


def test_a_stream_that_keeps_the_rules_passes():
    it = rules()
    it.check_checkpoint(checkpoint(1, 0, 0))  # a checkpoint may follow no rows (R3)
    it.check_batch(ready(1, rows=3))
    it.check_batch(ready(2, rows=4))
    it.check_checkpoint(checkpoint(2, 7, 2))
    it.check_schema(schema(1))  # the same again is no change
    it.check_drained(2)


@pytest.mark.parametrize("seq", [0, 1, 3, 2**63])
def test_a_gap_or_a_repeat_in_seq_is_seen(seq):
    it = rules()
    it.check_batch(ready(1))
    broken("seq_gap", it.check_batch, ready(seq))


@pytest.mark.parametrize("id_", [0, 2, 3])
def test_a_gap_or_a_repeat_in_checkpoints_is_seen(id_):
    it = rules()
    broken("checkpoint_gap", it.check_checkpoint, checkpoint(id_, 0, 0))


@pytest.mark.parametrize("rows", [0, 2, 4])
def test_a_checkpoint_with_other_rows_than_were_ready_is_seen(rows):
    it = rules()
    it.check_batch(ready(1, rows=3))
    broken("row_count", it.check_checkpoint, checkpoint(1, rows, 1))


def test_a_checkpoint_at_another_place_is_seen():
    it = rules()
    it.check_batch(ready(1))
    broken("checkpoint_place", it.check_checkpoint, checkpoint(1, 1, 0))


def test_one_batch_may_overdraw_the_credit_and_no_second():
    it = rules(credit=100)
    it.check_batch(ready(1, size=99))
    it.check_batch(ready(2, size=5000))
    broken("credit_overdrawn", it.check_batch, ready(3, size=0))


def test_a_release_gives_credit_back():
    it = rules(credit=100)
    it.check_batch(ready(1, size=60))
    it.check_batch(ready(2, size=60))
    assert it.release(1)
    it.check_batch(ready(3, size=60))
    assert it.held_bytes == 120
    assert it.release(99)
    assert not it.release(99)
    assert it.held_bytes == 0


def test_batches_without_bytes_are_bounded_too():
    it = rules()
    for seq in range(1, MAX_READY_BATCHES + 1):
        it.check_batch(ready(seq, size=0))
    broken("credit_overdrawn", it.check_batch, ready(MAX_READY_BATCHES + 1, size=0))


@given(st.lists(st.tuples(st.integers(0, 80), st.booleans()), max_size=60))
def test_what_is_held_is_never_more_than_credit_and_one_batch(steps):
    it, seq = rules(credit=100), 0
    for size, release in steps:
        if it.held_bytes < 100:
            seq += 1
            it.check_batch(ready(seq, size=size))
        if release:
            it.release(seq - 1)
        assert 0 <= it.held_bytes < 180


def test_only_what_was_made_ready_and_not_released_can_be_fetched():
    it = rules()
    it.check_batch(ready(1))
    it.check_batch(ready(2))
    it.release(1)
    assert [it.is_fetchable(seq) for seq in (0, 1, 2, 3)] == [False, False, True, False]


def test_a_schema_that_was_not_sent_is_seen():
    broken("unknown_schema", rules().check_batch, ready(1, schema_id=2))


def test_a_schema_that_changes_under_its_id_is_seen():
    broken("schema_changed", rules().check_schema, schema(1, "b"))


@pytest.mark.parametrize(
    "what",
    [
        lambda it: it.check_batch(ready(1)),
        lambda it: it.check_checkpoint(checkpoint(1, 0, 0)),
        lambda it: it.check_schema(schema(2)),
        lambda it: it.check_drained(0),
        lambda it: it.check_not_drained("BadRow"),
    ],
)
def test_nothing_may_follow_drained(what):
    it = rules()
    it.check_drained(0)
    broken("after_drained", what, it)


def test_a_source_may_not_end_by_itself_with_rows_that_have_no_place():
    it = rules()
    it.check_batch(ready(1))
    broken("rows_left", it.check_drained, 0)


def test_drained_names_the_last_checkpoint():
    broken("checkpoint_gap", rules().check_drained, 1)


@pytest.mark.parametrize(
    "id_",
    [
        "",
        "a",
        "[1]",
        "1",
        '{"file": "a"}',
        '{"b":1,"a":2}',
        '{"a":1',
        '{"d":{"$decimal":"x"}}',
        '{"$date":"2026-01-01"}',
        '{"a":' * 2000 + "1" + "}" * 2000,
        '{"a":"' + "x" * 70_000 + '"}',
    ],
)
def test_a_partition_id_that_is_not_canonical_is_seen(id_):
    broken("partition_id", check_partition_id, id_)
    broken("partition_id", rules().check_batch, ready(1, partition=id_))
    broken("partition_id", rules().check_checkpoint, checkpoint(1, 0, 0, partition=id_))


def test_an_offset_of_a_partition_that_was_not_given_is_seen():
    it = ReadRules(1000, own={ID})
    it.check_checkpoint(checkpoint(1, 0, 0))
    broken("unknown_partition", it.check_checkpoint, checkpoint(2, 0, 0, partition='{"file":"b"}'))


def test_a_task_with_a_range_may_name_what_is_in_it():
    it = ReadRules(1000, own=OwnPartitions({ID}, (PartitionRange("host", "a", "m"),)))
    it.check_checkpoint(checkpoint(1, 0, 0, partition='{"host":"b","metric":"cpu"}'))
    for strange in ('{"host":"m"}', '{"host":7}', '{"rack":"b"}'):
        broken("unknown_partition", it.check_checkpoint, checkpoint(2, 0, 0, partition=strange))


def test_a_task_that_finds_others_may_name_any():
    it = ReadRules(1000, own=None)
    it.check_checkpoint(checkpoint(1, 0, 0, partition='{"file":"b"}'))


@pytest.mark.parametrize("id_", ["{}", ID, '{"a":{"$bytes":"AAE="},"b":[1,null,"é"]}'])
def test_a_canonical_id_passes(id_):
    check_partition_id(id_)


def test_a_batch_of_too_many_rows_is_seen():
    it = rules()
    it.check_batch(ready(1, rows=MAX_BATCH_ROWS))
    broken("too_many_rows", it.check_batch, ready(2, rows=MAX_BATCH_ROWS + 1))


def test_a_source_confirms_only_what_it_was_told():
    it = rules()
    it.check_confirmed(0)  # it says nothing yet
    it.mark_committed(3)
    it.check_confirmed(3)
    it.check_confirmed(0)
    broken("confirmed_unknown", it.check_confirmed, 4)


def test_what_a_source_confirms_never_goes_back():
    it = rules()
    it.mark_committed(3)
    it.check_confirmed(2)
    it.check_confirmed(2)
    broken("confirmed_back", it.check_confirmed, 1)
