"""A slow sink gets small micro-batches soon, a fast one large ones."""

import math

from hypothesis import given
from hypothesis import strategies as st

from penstock.worker.task.micro_batches import FIRST_BATCH_ROWS, TARGET_SLOT_S, BatchSizer

MOST = 1_000_000


@given(st.floats(1, 1e7))
def test_micro_batches_approach_the_target_duration(rate):
    pace, took = BatchSizer(MOST), math.inf
    for _ in range(8):
        took = pace.rows / rate
        pace.record(pace.rows, took)
    assert took <= TARGET_SLOT_S * 1.01 or pace.rows == 1
    assert took >= TARGET_SLOT_S / 5 or pace.rows in {1, MOST}


def test_a_fast_sink_gets_the_configured_maximum():
    pace = BatchSizer(MOST)
    for _ in range(5):
        pace.record(pace.rows, 0.1)
    assert pace.rows == MOST
    assert BatchSizer(50).rows == 50


def test_small_micro_batches_do_not_change_the_size():
    pace = BatchSizer(MOST)
    for _ in range(100):
        pace.record(1, 0.01)
    assert pace.rows == FIRST_BATCH_ROWS
