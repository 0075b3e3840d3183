"""Which announced batches make the next micro-batch, and when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connector_config.settings import FlushRules
from penstock.model.errors import Diagnostic
from penstock.model.stream import BadRow, BatchReady, Checkpoint
from penstock.worker.task.micro_batches import Batcher

PARTITION = '{"p":0}'


def ready(seq: int, rows: int = 10, size: int = 100) -> BatchReady:
    return BatchReady(seq, 1, PARTITION, rows, size)


def checkpoint(id_: int, seq: int, rows: int, await_commit: bool = False) -> Checkpoint:
    return Checkpoint(id_, {PARTITION: {"position": seq}}, rows, seq, await_commit)


def test_nothing_is_due_before_a_checkpoint():
    batcher = Batcher(FlushRules())
    batcher.add_batch(ready(1), 0.0)
    assert batcher.due_in_s(5.0) is None


def test_without_rules_a_checkpoint_is_due_at_once():
    batcher = Batcher(FlushRules())
    batcher.add_batch(ready(1), 0.0)
    batcher.add_checkpoint(checkpoint(1, 1, 10), 0.0)
    assert batcher.due_in_s(0.0) == 0.0
    assert batcher.take().offsets == {PARTITION: {"position": 1}}


def test_checkpoints_that_are_ready_together_merge():
    batcher = Batcher(FlushRules())
    for n in (1, 2, 3):
        batcher.add_batch(ready(n), 0.0)
        batcher.add_checkpoint(checkpoint(n, n, 10), 0.0)
    batch = batcher.take()
    assert (batch.rows, batch.checkpoint_id, batch.last_seq) == (30, 3, 3)
    assert batch.offsets == {PARTITION: {"position": 3}}
    assert batcher.due_in_s(0.0) is None


def test_merged_batches_keep_the_offsets_of_their_checkpoints():
    batcher = Batcher(FlushRules())
    why = Diagnostic("x.y", "no")
    for n in (1, 2):
        batcher.add_batch(ready(n), 0.0)
        batcher.add_unreadable_row(BadRow(PARTITION, b"", why))
        batcher.add_unreadable_row(BadRow(PARTITION, b"", why, offset={"position": 0.5}))
        batcher.add_unreadable_row(BadRow('{"p":1}', b"", why))
        batcher.add_checkpoint(checkpoint(n, n, 10), 0.0)
    batch = batcher.take()
    one, two = {"position": 1}, {"position": 2}
    assert [ready.offset for ready in batch.batches] == [one, two]
    own = {"position": 0.5}
    assert [row.offset for row in batch.unreadable] == [one, own, None, two, own, None]


def test_a_micro_batch_stops_at_the_limit_of_bytes():
    batcher = Batcher(FlushRules(max_bytes=250))
    for n in (1, 2, 3):
        batcher.add_batch(ready(n), 0.0)
        batcher.add_checkpoint(checkpoint(n, n, 10), 0.0)
    assert batcher.take().last_seq == 2
    assert batcher.take().last_seq == 3


def test_a_micro_batch_stops_at_the_requested_rows():
    batcher = Batcher(FlushRules())
    for n in (1, 2, 3):
        batcher.add_batch(ready(n), 0.0)
        batcher.add_checkpoint(checkpoint(n, n, 10), 0.0)
    assert batcher.take(20).last_seq == 2
    assert batcher.take(1).last_seq == 3  # never less than a checkpoint


def test_a_micro_batch_stops_where_its_offsets_would_exceed_a_commit():
    """Each commit is one message; no number of rows tells how many partitions have moved."""
    batcher = Batcher(FlushRules())
    opaque = {"$opaque": b"x" * 60_000}
    for n in range(3):
        offsets = {f'{{"p":"{n}-{i}"}}': opaque for i in range(60)}  # 3.6 MB
        batcher.add_checkpoint(Checkpoint(n, offsets, 0, 0), 0.0)
    assert len(batcher.take().offsets) == 120
    assert len(batcher.take().offsets) == 60


def test_one_checkpoint_larger_than_the_limit_is_still_taken():
    batcher = Batcher(FlushRules(max_bytes=50))
    batcher.add_batch(ready(1), 0.0)
    batcher.add_checkpoint(checkpoint(1, 1, 10), 0.0)
    assert batcher.take().last_seq == 1


def test_an_interval_holds_rows_back_until_its_end_even_when_no_new_row_comes():
    batcher = Batcher(FlushRules(interval_s=2.0))
    batcher.add_batch(ready(1), 10.0)
    batcher.add_checkpoint(checkpoint(1, 1, 10), 10.5)
    assert batcher.due_in_s(10.5) == pytest.approx(1.5)
    assert batcher.due_in_s(12.0) == 0.0


def test_rows_after_a_pause_are_due_at_once_and_those_of_a_busy_source_wait_for_more():
    batcher = Batcher(FlushRules(busy_interval_s=0.025))
    for n, at in ((1, 10.0), (2, 10.01), (3, 10.02)):
        batcher.add_batch(ready(n), at)
        batcher.add_checkpoint(checkpoint(n, n, 10), at)
        if n == 1:
            assert batcher.due_in_s(at) == 0.0
            batcher.take(now=at)
    assert batcher.due_in_s(10.02) == pytest.approx(0.005)
    assert batcher.due_in_s(10.025) == pytest.approx(0.0)
    assert batcher.take(now=10.025).rows == 20
    batcher.add_batch(ready(4), 11.0)
    batcher.add_checkpoint(checkpoint(4, 4, 10), 11.0)
    assert batcher.due_in_s(11.0) == 0.0


def test_a_full_micro_batch_of_a_busy_source_is_due_at_once():
    batcher = Batcher(FlushRules(busy_interval_s=0.025, max_rows=10))
    for n in (1, 2):
        batcher.add_batch(ready(n), 10.0)
        batcher.add_checkpoint(checkpoint(n, n, 10), 10.0)
    batcher.take(now=10.0)
    assert batcher.due_in_s(10.0) == 0.0


@pytest.mark.parametrize(
    "rules", [FlushRules(rate_rows=20), FlushRules(rate_bytes=200)], ids=["rows", "bytes"]
)
def test_a_limited_rate_is_kept_on_the_average(rules: FlushRules):
    """Ten rows and 100 bytes a checkpoint: two checkpoints a second."""
    batcher, now, rows = Batcher(rules), 100.0, 0
    for n in range(1, 21):
        batcher.add_batch(ready(n), now)
        batcher.add_checkpoint(checkpoint(n, n, 10), now)
    while (due := batcher.due_in_s(now)) is not None:
        now += due
        rows += batcher.take(now=now).rows
    assert rows == 200
    assert now == pytest.approx(100.0 + 9.0)


def test_the_end_of_the_source_ends_the_wait_for_rows_and_not_the_limit():
    batcher = Batcher(FlushRules(interval_s=9.0, rate_rows=10))
    for n in (1, 2):
        batcher.add_batch(ready(n), 0.0)
        batcher.add_checkpoint(checkpoint(n, n, 10), 0.0)
    assert batcher.due_in_s(0.0, ended=True) == 0.0
    batcher.take(now=0.0)
    assert batcher.due_in_s(0.5, ended=True) == pytest.approx(0.5)


def test_a_checkpoint_larger_than_the_rate_is_taken_and_followed_by_its_pause():
    batcher = Batcher(FlushRules(rate_rows=10))
    for n in (1, 2):
        batcher.add_batch(ready(n, rows=50), 0.0)
        batcher.add_checkpoint(checkpoint(n, n, 50), 0.0)
    assert batcher.take(now=0.0).rows == 50
    assert batcher.due_in_s(1.0) == pytest.approx(4.0)


def test_a_source_that_waits_for_its_commits_is_limited_too():
    batcher = Batcher(FlushRules(rate_rows=10))
    for n in (1, 2):
        batcher.add_batch(ready(n, rows=50), 0.0)
        batcher.add_checkpoint(checkpoint(n, n, 50, await_commit=True), 0.0)
    batcher.take(now=0.0)
    assert batcher.due_in_s(0.1) == pytest.approx(4.9)
    assert batcher.due_in_s(5.0) == 0.0


@pytest.mark.parametrize(
    "rules", [FlushRules(interval_s=9, rows=20), FlushRules(interval_s=9, bytes=200)]
)
def test_enough_rows_or_bytes_end_the_interval(rules: FlushRules):
    batcher = Batcher(rules)
    batcher.add_batch(ready(1), 0.0)
    batcher.add_checkpoint(checkpoint(1, 1, 10), 0.0)
    assert batcher.due_in_s(0.0) == 9
    batcher.add_batch(ready(2), 0.0)
    batcher.add_checkpoint(checkpoint(2, 2, 10), 0.0)
    assert batcher.due_in_s(0.0) == 0.0


def test_await_commit_ends_the_interval():
    batcher = Batcher(FlushRules(interval_s=9))
    batcher.add_checkpoint(checkpoint(1, 0, 0, await_commit=True), 0.0)
    assert batcher.due_in_s(0.0) == 0.0
    assert batcher.take().rows == 0


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=30),
    st.integers(1, 500),
    st.integers(1, 50),
)
def test_every_batch_is_in_exactly_one_micro_batch_in_order(groups, max_bytes, max_rows):
    """Whatever the limits: nothing lost, nothing twice, order kept, offsets never go back."""
    batcher = Batcher(FlushRules(max_bytes=max_bytes, max_rows=max_rows))
    seq = 0
    for id_, size in enumerate(groups, 1):
        for _ in range(size):
            seq += 1
            batcher.add_batch(ready(seq), 0.0)
        batcher.add_checkpoint(checkpoint(id_, seq, 10 * size), 0.0)
    taken, last = [], 0
    while batcher.due_in_s(0.0) is not None:
        batch = batcher.take()
        assert batch.checkpoint_id > last
        last = batch.checkpoint_id
        taken += [b.seq for b in batch.batches]
    assert taken == list(range(1, seq + 1))
    assert last == len(groups)
