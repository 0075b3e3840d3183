"""A source of the Go SDK over the real wire: offsets, credit, ends, fences."""

import subprocess
from collections import deque

import pytest

from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock.api.connector.v1 import types_pb2
from penstock_connector import Source
from penstock_connector.testing import RemoteError, source_task
from penstock_kit.testing import wait_until


class Numbers(Source):
    name = "go-numbers"


def numbers_of(rows):
    return [row["number"] for row in rows]


def test_it_counts_to_its_limit(numbers):
    with source_task(Numbers, {"limit": "2500"}, bed=numbers) as task:
        assert numbers_of(task.all_rows()) == list(range(2500))


def test_it_goes_on_after_every_checkpoint(numbers):
    config = {"limit": "40", "batch.rows": "10"}
    with source_task(Numbers, config, bed=numbers) as task:
        rows, offsets = [], []
        for _ in range(4):
            rows += task.rows(1)
            task.until("checkpoint")
            task.commit()
            offsets.append(dict(task.offsets))
    for at, known in enumerate(offsets, 1):
        with source_task(Numbers, config, offsets=known, epoch=at + 1, bed=numbers) as task:
            assert numbers_of(task.all_rows()) == list(range(at * 10, 40))


def test_credit_is_overdrawn_by_one_batch_at_most(numbers):
    config = {"limit": "100000", "batch.rows": "10"}
    with source_task(Numbers, config, credit=1000, bed=numbers) as task:
        held = []
        while sum(held) < 1000:
            held.append(task.until("ready").ready.bytes)
        task.until("checkpoint")
        with pytest.raises(TimeoutError):
            task.until("ready", timeout=0.3)
        task.release(len(held))
        assert task.until("ready").ready.seq == len(held) + 1


def test_a_batch_is_the_same_until_it_is_released(numbers):
    with source_task(Numbers, {"limit": "10"}, bed=numbers) as task:
        seq = task.until("ready").ready.seq
        assert task.fetch(seq) == task.fetch(seq)
        task.release(seq)

        def gone():
            try:
                task.fetch(seq)
            except RemoteError as error:
                return error.code in {"source.batch.released", "task.not_open"}
            return False

        wait_until(gone, 60, "the batch to be let go")


def test_a_large_batch_is_cut_to_the_limits_of_the_host(numbers):
    limits = types_pb2.Limits(max_message_bytes=70 << 10, target_batch_bytes=8 << 10)
    config = {"limit": "5000", "batch.rows": "5000"}
    with source_task(Numbers, config, limits=limits, bed=numbers) as task:
        assert numbers_of(task.all_rows()) == list(range(5000))
        ready = [frame.ready for frame in task.seen if frame.HasField("ready")]
        assert len(ready) > 10
        assert all(one.bytes < 70 << 10 for one in ready)


def test_a_drain_is_answered_and_nothing_follows(numbers):
    with source_task(Numbers, {"limit": "1000000"}, bed=numbers) as task:
        task.until("checkpoint")
        drained = task.drain()
        last = [f.checkpoint.checkpoint_id for f in task.seen if f.HasField("checkpoint")][-1]
        assert drained.checkpoint_id == last
        task.release(1 << 40)
        assert task.event() is None


def test_an_older_epoch_is_refused_and_a_newer_one_takes_over(numbers):
    config = {"limit": "1000000"}
    with source_task(Numbers, config, epoch=5, bed=numbers) as old:
        with (
            pytest.raises(RemoteError) as caught,
            source_task(Numbers, config, epoch=4, bed=numbers),
        ):
            pass
        assert caught.value.code == "task.stale_epoch"
        with source_task(Numbers, config, epoch=6, bed=numbers) as new:
            with pytest.raises(RemoteError) as ended:
                deque(iter(old.event, None))
            assert ended.value.code == "task.taken_over"
            assert new.rows(1)


def test_frames_of_unknown_kind_are_ignored(numbers):
    with source_task(Numbers, {"limit": "10"}, bed=numbers) as task:
        task.call.send(pb.ReadRequest())
        assert len(task.all_rows()) == 10


def test_the_process_ends_with_its_host(numbers):
    with source_task(Numbers, {"limit": "1000000"}, bed=numbers) as task:
        assert task.rows(1)
        assert numbers.end() == 0


def test_without_a_host_it_says_how_it_is_run(programs):
    ended = subprocess.run(
        [programs / "numbers"], capture_output=True, text=True, check=False, timeout=60, env={}
    )
    assert ended.returncode == 1
    assert "go-numbers (source)" in ended.stderr
    assert "--listen" in ended.stderr
    assert ended.stdout == ""
