"""The example sink of the Go SDK over the real wire: exactly once, whatever is lost."""

import json

import pytest

from penstock_connector import CommitMode, TransactionalSink
from penstock_connector.testing import RemoteError, sink_task
from support.foreign import ForeignBed


class Lines(TransactionalSink):
    name = "go-lines"


def rows(first, count):
    return [{"id": number, "text": f"row {number}"} for number in range(first, first + count)]


def written(folder):
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(line)["id"] for file in files for line in file.read_text().splitlines()]


@pytest.fixture
def config(tmp_path):
    return {"folder": str(tmp_path / "out")}


def test_rows_are_seen_after_the_commit_and_not_before(lines, config, tmp_path):
    with sink_task(Lines, config, bed=lines) as task:
        assert task.opened.commit_mode == CommitMode.TWO_PHASE
        txn = task.next_txn()
        task.put(rows(0, 10), txn_id=txn)
        task.prepare(txn, [(0, 0, 10)])
        assert written(tmp_path / "out") == []
        assert task.commit(txn).txn_id == txn
        assert written(tmp_path / "out") == list(range(10))


def test_its_numbers_come_after_a_commit(lines, config):
    with sink_task(Lines, config, bed=lines) as task:
        task.write(rows(0, 3))
        task.write(rows(3, 3))
        assert dict(task.until("progress").progress.metrics) == {"files_total": 2}


def test_only_the_attempts_that_prepare_names_count(lines, config, tmp_path):
    with sink_task(Lines, config, bed=lines) as task:
        txn = task.next_txn()
        task.put(rows(10, 10), txn_id=txn, slot=1, attempt=3)
        task.put(rows(0, 4), txn_id=txn, slot=0, attempt=0)
        task.put(rows(0, 10), txn_id=txn, slot=0, attempt=1)
        task.prepare(txn, [(1, 3, 10), (0, 1, 10)])
        task.commit(txn)
    assert written(tmp_path / "out") == list(range(20))


def test_a_crash_between_prepare_and_commit_is_mended_once(programs, config, tmp_path):
    with ForeignBed([programs / "lines"]) as bed, sink_task(Lines, config, bed=bed) as task:
        task.write(rows(0, 5))
        txn = task.next_txn()
        task.put(rows(5, 5), txn_id=txn)
        prepared = task.prepare(txn, [(0, 0, 5)])
        lost = task.next_txn()
        task.put(rows(10, 5), txn_id=lost)
        bed.process.kill()
        bed.process.wait(60)
    assert written(tmp_path / "out") == list(range(5))
    for epoch in (2, 3):  # to recover again does nothing
        with (
            ForeignBed([programs / "lines"]) as bed,
            sink_task(
                Lines, config, epoch=epoch, last_prepared=prepared, recover=True, bed=bed
            ) as task,
        ):
            assert written(tmp_path / "out") == list(range(10))
            task.close()
    assert [path.name for path in (tmp_path / "out/.staged").rglob("*-*")] == []


def test_a_count_that_differs_is_refused(lines, config, tmp_path):
    with sink_task(Lines, config, bed=lines) as task:
        txn = task.next_txn()
        task.put(rows(0, 10), txn_id=txn)
        with pytest.raises(RemoteError) as caught:
            task.prepare(txn, [(0, 0, 11)])
        assert caught.value.code == "sink.slot.rows_mismatch"
    assert written(tmp_path / "out") == []


def test_an_older_epoch_can_put_nothing(lines, config):
    with sink_task(Lines, config, epoch=5, bed=lines) as task:
        with pytest.raises(RemoteError) as caught:
            task.put(rows(0, 1), txn_id=1, epoch=4)
        assert caught.value.code == "task.stale_epoch"
        with sink_task(Lines, config, epoch=6, bed=lines) as newer:
            with pytest.raises(RemoteError) as ended:
                task.until("nothing")
            assert ended.value.code == "task.taken_over"
            assert newer.write(rows(0, 2)).txn_id


def test_a_commit_that_was_not_prepared_is_refused(lines, config):
    with sink_task(Lines, config, bed=lines) as task:
        with pytest.raises(RemoteError) as caught:
            task.commit(7)
        assert caught.value.code == "sink.txn.not_prepared"
