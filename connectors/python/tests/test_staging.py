"""Rows that do not count yet: within their bounds, and the same when they come back from a file."""

import pyarrow as pa
import pytest

from penstock_connector import RetriableError
from penstock_connector import staging as module
from penstock_connector.staging import Budget, Spill, SpillStaging


def batch(start):
    return pa.record_batch({"n": range(start, start + 100), "s": ["x" * 20] * 100})


def staged(memory_bytes, count=5):
    staging = SpillStaging(Spill(memory_bytes, "a.full", "a.failed"))
    for number in range(count):
        staging.add_batch(batch(number * 100))
    return staging


@pytest.mark.parametrize("memory_bytes", [0, 4000, 1 << 20])
def test_rows_come_back_in_order_from_memory_and_from_the_file(memory_bytes):
    staging = staged(memory_bytes)
    staging.close()
    rows = pa.Table.from_batches(staging.parts())
    assert rows.equals(pa.Table.from_batches([batch(number * 100) for number in range(5)]))
    staging.discard()


def test_parts_of_the_file_can_be_read_after_it_was_discarded():
    staging = staged(0)
    staging.close()
    (first, *_) = staging.parts()
    staging.discard()
    assert first.equals(batch(0))


def test_a_discarded_staging_gives_its_memory_back():
    staging = staged(10_000, count=1)
    spill = staging._spill
    staging.discard()
    assert spill.memory.fits(10_000)
    assert not spill.memory.fits(1)


def test_a_staging_that_is_dropped_before_it_is_closed_leaves_nothing():
    staging = staged(0)
    staging.discard()
    assert staging.parts() == []
    assert staging._spill.files._used == 0


def test_files_are_bounded_too(monkeypatch):
    monkeypatch.setattr(module, "_MAX_FILE_BYTES", 5000)
    with pytest.raises(RetriableError) as caught:
        staged(0)
    assert caught.value.code == "a.full"


def test_a_disk_that_is_full_is_told(monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.tempfile, "TemporaryFile", fail)
    with pytest.raises(RetriableError, match="No space left") as caught:
        staged(0)
    assert caught.value.code == "a.failed"


def test_the_first_rows_are_taken_however_large_they_are():
    budget = Budget(10, "a.full", "")
    budget.take(100)
    with pytest.raises(RetriableError):
        budget.take(1)
    budget.give(100)
    budget.take(1)
