"""A slow sink gets small micro-batches soon, a fast one large ones."""

import math

from hypothesis import given
from hypothesis import strategies as st

from penstock.worker.task.batching import FIRST, SECONDS, Pace

MOST = 1_000_000


@given(st.floats(1, 1e7))
def test_a_micro_batch_soon_takes_about_the_time_it_should(rate):
    pace, took = Pace(MOST), math.inf
    for _ in range(8):
        took = pace.rows / rate
        pace.took(pace.rows, took)
    assert took <= SECONDS * 1.01 or pace.rows == 1
    assert took >= SECONDS / 5 or pace.rows in {1, MOST}


def test_a_fast_sink_gets_all_that_its_owner_allows():
    pace = Pace(MOST)
    for _ in range(5):
        pace.took(pace.rows, 0.1)
    assert pace.rows == MOST
    assert Pace(50).rows == 50


def test_small_micro_batches_say_nothing():
    pace = Pace(MOST)
    for _ in range(100):
        pace.took(1, 0.01)
    assert pace.rows == FIRST
