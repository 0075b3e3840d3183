"""Task records are decoded as they were encoded, with any bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.offset import PreparedTransaction, TaskRecord, records

epochs = st.integers(1, 2**64 - 1)


prepared = st.none() | st.builds(PreparedTransaction, epochs, st.binary(), epochs, epochs)


@given(st.builds(TaskRecord, epochs, prepared, st.booleans(), epochs))
def test_a_record_comes_back(record):
    assert records.decode_task(records.encode_task(record)) == record
