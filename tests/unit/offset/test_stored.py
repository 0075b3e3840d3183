"""Stored forms come back as they went, whatever bytes are in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.offset import Prepared, TaskRecord, stored

epochs = st.integers(1, 2**64 - 1)


@given(epochs, st.none() | st.builds(Prepared, epochs, st.binary(), epochs, epochs), st.booleans())
def test_a_record_comes_back(epoch, prepared, applied):
    record = TaskRecord(epoch, prepared, applied)
    assert stored.decode_task(stored.encode_task(record)) == record
