"""How a micro-batch is divided among slots."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.stream import BatchReady
from penstock.worker.task.micro_batches import MIN_DIVIDED_ROWS, divide_into_slots, group_by_schema


def batch(seq: int, rows: int, size: int, schema: int = 1) -> BatchReady:
    return BatchReady(seq, schema, "p", rows, size)


def test_a_small_micro_batch_is_one_slot():
    batches = [batch(n, 10, 1000) for n in range(8)]
    assert divide_into_slots(batches, 4) == [batches]


def test_a_large_one_is_spread_evenly():
    batches = [batch(n, MIN_DIVIDED_ROWS, 1000) for n in range(8)]
    assert [len(part) for part in divide_into_slots(batches, 2)] == [4, 4]


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=40), st.integers(1, 8))
def test_slots_are_contiguous_runs_in_order(sizes, slots):
    """Concatenated in order of slot, the parts are the micro-batch: order within a partition is
    kept.
    """
    batches = [batch(n, MIN_DIVIDED_ROWS, size) for n, size in enumerate(sizes)]
    parts = divide_into_slots(batches, slots)
    assert [b for part in parts for b in part] == batches
    assert all(parts)
    assert len(parts) <= slots


def test_interleaved_datasets_become_one_job_each_in_order():
    batches = [batch(1, 1, 1, 1), batch(2, 1, 1, 2), batch(3, 1, 1, 1)]
    jobs = group_by_schema(batches)
    assert list(jobs) == [1, 2]
    assert [b.seq for b in jobs[1]] == [1, 3]
