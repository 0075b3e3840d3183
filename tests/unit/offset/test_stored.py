"""Stored forms come back as they went, whatever bytes are in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.offset import Prepared, TaskRecord, stored

epochs = st.integers(1, 2**64 - 1)


prepared = st.none() | st.builds(Prepared, epochs, st.binary(), epochs, epochs)


@given(st.builds(TaskRecord, epochs, prepared, st.booleans(), epochs))
def test_a_record_comes_back(record):
    assert stored.decode_task(stored.encode_task(record)) == record
