"""The source in Node over the real wire: rows as JSON lines, offsets, credit, ends, fences."""

import subprocess
from collections import deque

import grpc
import pytest

from penstock.api.connector.v1 import connector_service_pb2 as connector_pb
from penstock.api.connector.v1 import plugin_service_pb2, types_pb2
from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock.api.connector.v1.connector_service_pb2_grpc import ConnectorServiceStub
from penstock.api.connector.v1.plugin_service_pb2_grpc import PluginServiceStub
from penstock_connector.testing import RemoteError
from support.checkout import ROOT
from support.json_lines import JSON_LINES, all_numbers, fetched, json_task

ID = '{"source":"node-numbers"}'


def source_task(bed, config, **more):
    return json_task(bed, "node-numbers", config, **more)


def numbers_of(task, ready):
    return fetched(task, ready).column("number").to_pylist()


def test_it_counts_to_its_limit(numbers):
    with source_task(numbers, {"limit": "25000"}) as task:
        assert task.opened.encoding == JSON_LINES
        assert all_numbers(task) == list(range(25_000))
        assert task.event() is None  # all is released: it ends


def test_its_numbers_are_told_before_it_ends(numbers):
    with source_task(numbers, {"limit": "40", "batch.rows": "10"}) as task:
        all_numbers(task)
        assert task.metrics == {"batches_total": 4}


def test_it_goes_on_after_every_checkpoint(numbers):
    config = {"limit": "40", "batch.rows": "10"}
    with source_task(numbers, config) as task:
        offsets = []
        for _ in range(4):
            assert len(numbers_of(task, task.until("ready").ready)) == 10
            task.until("checkpoint")
            task.commit()
            offsets.append(task.offsets[ID])
    assert offsets == [{"next": number} for number in (10, 20, 30, 40)]
    for epoch, offset in enumerate(offsets, 2):
        with source_task(numbers, config, offset=offset, epoch=epoch) as task:
            assert all_numbers(task) == list(range(offset["next"], 40))


def test_credit_is_overdrawn_by_one_batch_at_most(numbers):
    with source_task(numbers, {"limit": "100000", "batch.rows": "10"}, credit=1000) as task:
        held = []
        while sum(held) < 1000:
            held.append(task.until("ready").ready.bytes)
        task.until("checkpoint")
        with pytest.raises(TimeoutError):
            task.until("ready", timeout=0.3)
        task.release(len(held))
        assert task.until("ready").ready.seq == len(held) + 1


def test_batches_keep_the_limits_of_the_host(numbers):
    limits = types_pb2.Limits(max_batch_rows=100, target_batch_bytes=2000)
    with source_task(numbers, {"limit": "1000"}, limits=limits) as task:
        assert all_numbers(task) == list(range(1000))
        ready = [frame.ready for frame in task.seen if frame.HasField("ready")]
        assert all(one.rows <= 100 and one.bytes < 2100 for one in ready)


def test_a_drain_is_answered_and_nothing_follows(numbers):
    with source_task(numbers, {"limit": "100000000"}, credit=1 << 20) as task:
        task.until("checkpoint")
        drained = task.drain()
        last = [f.checkpoint.checkpoint_id for f in task.seen if f.HasField("checkpoint")][-1]
        assert drained.checkpoint_id == last
        task.release(1 << 30)
        assert task.event() is None


def test_an_older_epoch_is_refused_and_a_newer_one_takes_over(numbers):
    config = {"limit": "100000000"}
    with source_task(numbers, config, epoch=5, credit=1000) as old:
        with pytest.raises(RemoteError) as caught, source_task(numbers, config, epoch=4):
            pass
        assert caught.value.code == "task.stale_epoch"
        with source_task(numbers, config, epoch=6, credit=1000) as new:
            with pytest.raises(RemoteError) as ended:
                deque(iter(old.event, None))
            assert ended.value.code == "task.taken_over"
            seq = new.until("ready").ready.seq
            with pytest.raises(RemoteError) as stale:
                new.fetch_frames(seq, epoch=5)
            assert stale.value.code == "task.stale_epoch"


def test_frames_of_unknown_kind_are_ignored(numbers):
    with source_task(numbers, {"limit": "10"}) as task:
        task.call.send(pb.ReadRequest())
        assert len(all_numbers(task)) == 10


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({}, "config.missing"),
        ({"limit": "x"}, "config.invalid_value"),
        ({"limit": "1", "limmit": "2"}, "config.unknown_key"),
    ],
)
def test_a_wrong_configuration_is_refused(numbers, config, code):
    target = connector_pb.Target(connector="node-numbers", config=config)
    answer = ConnectorServiceStub(numbers.channel).ValidateConfig(
        connector_pb.ValidateConfigRequest(target=target), metadata=numbers.metadata, timeout=60
    )
    assert [d.code for value in answer.values for d in value.diagnostics] == [code]
    with pytest.raises(RemoteError) as caught, source_task(numbers, config):
        pass
    assert caught.value.code == code


def test_a_call_without_the_credential_is_refused(numbers):
    stub = PluginServiceStub(numbers.channel)
    with pytest.raises(grpc.RpcError) as caught:
        stub.Describe(plugin_service_pb2.DescribeRequest(), timeout=60)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_the_process_ends_with_its_host(numbers):
    with source_task(numbers, {"limit": "100000000"}, credit=1000) as task:
        task.until("ready")
        assert numbers.end() == 0


def test_without_a_host_it_says_how_it_is_run(plugin):
    ended = subprocess.run(
        ["node", plugin / "connector.js"], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 1
    assert "penstock plugin run" in ended.stderr
    assert ended.stdout == ""


def test_it_is_small_and_names_no_registry(plugin):
    folder = ROOT / "connectors/node"
    assert len((folder / "connector.js").read_text().splitlines()) <= 150
    assert "resolved" not in (folder / "package-lock.json").read_text()
