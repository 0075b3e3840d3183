"""A read stream: events in order, nothing lost, every lie of a source noticed."""

import asyncio
import base64
import json
import logging
import os
import resource
import signal
import time
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.api.connector.v1 import source_service_pb2 as pb
from penstock.api.error.v1 import diagnostic_pb2
from penstock.model.connector import Partition
from penstock.model.errors import FencedError, InternalError, PenstockError
from penstock.model.metrics import PluginMetric
from penstock.model.stream import (
    BadRow,
    BatchReady,
    Checkpoint,
    EndOfStream,
    PartitionDone,
    Progress,
    SchemaVersion,
    StreamSchema,
)
from penstock.plugin.streams.source_events import PluginMetrics
from penstock.plugin.streams.source_stream import PluginSourceStream
from penstock_values.messages import offset_to_proto


class Reading:
    """Opens a stream on a source that plays a script."""

    def __init__(self, kit, run):
        self.kit, self.run = kit, run

    def __call__(self, script, body, **more):
        """Run `body(stream)` on a stream of a source that plays a script."""

        async def scenario():
            async with self.kit.running() as process:
                stream = self.stream(process, script, **more)
                await stream.open()
                try:
                    return await body(stream)
                finally:
                    await stream.close()

        return self.run(scenario())

    def stream(self, process, script, **more):
        target = self.kit.target(script=self.kit.script(script))
        return PluginSourceStream(process, target, self.kit.plan(), epoch=5, **more)

    def events(self, *frames, **more):
        return self([self.kit.opened(), *frames], everything, **more)

    def failure(self, *frames, **more):
        """Return the error that a stream of these frames ends with."""

        async def body(stream):
            with pytest.raises(PenstockError) as caught:
                await everything(stream)
            return caught.value

        return self([self.kit.opened(), *frames], body, **more)

    def not_opened(self, *frames):
        async def scenario():
            async with self.kit.running() as process:
                with pytest.raises(PenstockError) as caught:
                    await self.stream(process, frames).open()
                return caught.value

        return self.run(scenario())


@pytest.fixture
def reading(kit, run):
    return Reading(kit, run)


async def collect(stream, seen):
    async for event in stream:
        seen.append(event)


async def everything(stream):
    return [event async for event in stream]


def test_events_come_in_order_and_end_after_drained(reading, kit):
    diagnostic = diagnostic_pb2.Diagnostic(code="x.y", message="s3cr3t-canary\n", severity=2)
    events = reading.events(
        kit.schema_frame(),
        kit.ready(1),
        kit.checkpoint(1, await_commit=True),
        pb.ReadResponse(
            bad_row=pb.BadRow(partition_id=kit.partition, raw=b"\xff", reason=diagnostic)
        ),
        pb.ReadResponse(
            bad_row=pb.BadRow(
                partition_id=kit.partition, reason=diagnostic, offset=offset_to_proto({"byte": 70})
            )
        ),
        pb.ReadResponse(progress={"lag_records": 7, "lag_bytes": -1}),
        pb.ReadResponse(partition_done=pb.PartitionDone(partition_id=kit.partition)),
        kit.drained(1),
    )
    assert events[:3] == [
        SchemaVersion(StreamSchema(1, "d", kit.schema)),
        BatchReady(1, 1, kit.partition, 10, 100),
        Checkpoint(1, {kit.partition: {"byte": 1000}}, 10, 1, await_commit=True),
    ]
    assert isinstance(events[3], BadRow)
    assert events[3].reason.message == r"***\n"
    assert (events[3].raw, events[3].offset) == (b"\xff", None)
    assert isinstance(events[4], BadRow)
    assert events[4].offset == {"byte": 70}
    assert events[5:] == [Progress(-1, 7, 0), PartitionDone(kit.partition), EndOfStream(1)]


def test_the_plan_and_its_offsets_arrive(reading, kit, run, caplog):
    plan = kit.plan(partitions=[Partition({"a": 1}, {"lsn": 2**62})])

    async def scenario():
        async with kit.running() as process:
            target = kit.target(script=kit.script([kit.opened()]))
            stream = PluginSourceStream(process, target, plan, 5)
            await stream.open()
            assert stream.needs_commit
            await stream.close()

    with caplog.at_level(logging.INFO, "penstock.plugin.process.logs"):
        run(scenario())
    line = next(r.getMessage() for r in caplog.records if "open" in r.getMessage())
    task = json.loads(line.split("open ", 1)[1])
    assert task["partitions"][0]["partitionId"] == '{"a":1}'
    assert task["partitions"][0]["offset"]["fields"]["lsn"]["intValue"] == str(2**62)


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (lambda k: [k.ready(1)], "unknown_schema"),
        (lambda k: [k.schema_frame(), k.ready(2)], "seq_gap"),
        (lambda k: [k.schema_frame(), k.ready(1), k.ready(1)], "seq_gap"),
        (lambda k: [k.checkpoint(2, 0, 0)], "checkpoint_gap"),
        (lambda k: [k.schema_frame(), k.ready(1), k.checkpoint(1, rows=9)], "row_count"),
        (
            lambda k: [k.schema_frame(), k.schema_frame(pa.schema([("b", pa.int8())]))],
            "schema_changed",
        ),
        (lambda k: [k.schema_frame(pa.schema([("__op", pa.string())]))], "bad_schema"),
        (lambda k: [k.opened()], "second_opened"),
        (lambda k: [k.schema_frame(), k.ready(1), k.drained(0)], "rows_left"),
        (lambda k: [k.schema_frame(), k.ready(1, rows=(1 << 20) + 1)], "too_many_rows"),
        (
            lambda k: [pb.ReadResponse(progress={"committed_checkpoint_id": 1})],
            "confirmed_unknown",
        ),
        (lambda k: [pb.ReadResponse(partition_done={"partition_id": "x"})], "partition_id"),
    ],
)
def test_a_frame_that_breaks_a_rule_ends_the_stream_with_its_code(reading, kit, frames, code):
    error = reading.failure(*frames(kit), {"hang": 1})
    assert isinstance(error, InternalError)
    assert error.code == f"plugin.protocol.{code}"


def test_credit_overdrawn_by_more_than_one_batch_ends_the_stream(reading, kit):
    batches = [kit.ready(seq, size=60) for seq in (1, 2, 3)]
    error = reading.failure(kit.schema_frame(), *batches, credit_bytes=100)
    assert error.code == "plugin.protocol.credit_overdrawn"


def test_an_open_stream_is_a_use_of_its_process(reading, kit, run):
    async def scenario():
        async with kit.running() as process:
            idle = asyncio.Event()
            stream = reading.stream(process, [kit.opened()])
            await stream.open()
            process.connection.idle_timer.start(0.2, idle.set)
            await asyncio.sleep(0.5)
            assert not idle.is_set()
            await stream.close()
            await asyncio.wait_for(idle.wait(), 60)

    run(scenario())


def test_what_comes_after_drained_is_noticed_by_the_next_call(reading, kit):
    async def body(stream):
        assert (await everything(stream))[-1] == EndOfStream(0)
        await stream._receiver
        with pytest.raises(PenstockError) as caught:
            await stream.committed(0)
        return caught.value.code

    script = [kit.opened(), kit.drained(0), kit.schema_frame()]
    assert reading(script, body) == "plugin.protocol.after_drained"


def test_unknown_frames_are_ignored(reading, kit):
    unknown = {"garbage": "fa3e03616263"}  # field 1007
    assert reading.events(unknown, kit.drained(0)) == [EndOfStream(0)]


def test_what_the_host_says_arrives_in_order(reading, kit, caplog):
    async def body(stream):
        async for event in stream:
            match event:
                case Checkpoint():
                    await stream.committed(1)
                    await stream.committed(1)
                    await stream.release(2)
                    await stream.release(2)

    script = [
        kit.opened(),
        kit.schema_frame(),
        kit.ready(1),
        kit.ready(2),
        kit.checkpoint(1, 20, 2),
        {"take": 3},
        kit.drained(1),
    ]
    with caplog.at_level(logging.INFO, "penstock.plugin.process.logs"):
        reading(script, body)
    took = [json.loads(m.split("took ", 1)[1]) for m in caplog.messages if "took" in m]
    assert took == [
        {"committed": {"checkpointId": "1"}},
        {"committed": {"checkpointId": "1"}},
        {"release": {"seq": "2"}},
    ]


def test_a_commit_of_what_was_not_seen_is_refused(reading, kit):
    async def body(stream):
        with pytest.raises(InternalError) as caught:
            await stream.committed(1)
        return caught.value.code

    assert reading([kit.opened()], body) == "plugin.committed_order"


def test_a_ticket_has_all_that_an_executor_needs(reading, kit):
    async def body(stream):
        events = stream.__aiter__()
        while not isinstance(await anext(events), Checkpoint):
            pass
        ticket = stream.ticket([2, 1], 1)
        await stream.release(1)
        with pytest.raises(InternalError, match="cannot be fetched"):
            stream.ticket([1, 2], 1)
        return ticket, stream._process

    script = [
        kit.opened(),
        kit.schema_frame(),
        kit.ready(1),
        kit.ready(2),
        kit.checkpoint(1, 20, 2),
    ]
    ticket, process = reading(script, body)
    assert json.loads(json.dumps(ticket)) == ticket
    text = ticket.pop("schema")
    assert pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))) == kit.schema
    assert ticket == {
        "kind": "plugin",
        "address": process.address,
        "credential": process.credential,
        "task_id": "g-0",
        "epoch": 5,
        "schema_id": 1,
        "encoding": 1,
        "seqs": [2, 1],
        "bytes": [100, 100],
    }


def test_a_heartbeat_that_stays_out_ends_the_stream(reading, kit):
    async def body(stream):
        with pytest.raises(PenstockError, match=r"sent nothing for 0\.4 s") as caught:
            await everything(stream)
        return caught.value.code

    assert reading([kit.opened(0.2), {"hang": 1}], body) == "plugin.heartbeat_missed"


def test_a_stopped_process_is_noticed_by_its_heartbeat(reading, kit):
    async def body(stream):
        with pytest.raises(PenstockError) as caught:
            await everything(stream)
        os.kill(stream._process.pid, signal.SIGCONT)
        return caught.value.code

    assert reading([kit.opened(0.2), {"signal": 19}], body) == "plugin.heartbeat_missed"


@pytest.mark.parametrize(
    ("order", "how"),
    [
        ({"crash": 9}, "exited with status 9"),
        ({"crash": 0}, "exited with status 0"),
        ({"signal": 9}, "signal SIGKILL"),
        ({"signal": 11}, "signal SIGSEGV"),
    ],
)
def test_a_crash_ends_the_stream_after_the_frames_that_were_sent(reading, kit, order, how):
    async def body(stream):
        await kit.until(lambda: stream.statistics()["waiting_events"] == 2)
        await stream.release(1)  # both frames have come: the source may die of this
        seen = []
        with pytest.raises(PenstockError, match=how) as caught:
            await collect(stream, seen)
        with pytest.raises(PenstockError, match=how):
            await stream.committed(0)
        return caught.value.code, len(seen)

    script = [kit.opened(), kit.schema_frame(), kit.ready(1), {"take": 1}, order]
    assert reading(script, body) == ("plugin.crashed", 2)


def test_an_end_of_the_process_that_leaves_the_socket_open_ends_the_stream(reading, kit, run):
    """Something that left the group may go on serving; it is not the plugin any more."""

    async def scenario():
        async with kit.running() as process:
            ended = asyncio.get_running_loop().create_future()
            process._process.exited = ended
            stream = reading.stream(process, [kit.opened(), {"hang": 1}])
            await stream.open()
            ended.set_result(-9)
            with pytest.raises(PenstockError, match="signal SIGKILL") as caught:
                await everything(stream)
            await stream.close()
            process._process.exited = process._process.child.exited
            return caught.value.code

    assert run(scenario()) == "plugin.crashed"


def test_an_end_without_drained_is_an_error(reading):
    assert reading.failure({"end": 1}).code == "plugin.stream_ended"


def test_the_sources_own_error_keeps_its_class(reading):
    error = reading.failure({"refuse": "mine.fenced", "class": 6})
    assert isinstance(error, FencedError)
    assert error.code == "mine.fenced"


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([{"refuse": "mine.no"}], "mine.no"),
        ([{"end": 1}], "plugin.protocol.not_opened"),
        ([pb.ReadResponse(drained=pb.Drained())], "plugin.protocol.not_opened"),
        ([pb.ReadResponse(opened=pb.ReadOpened(encoding=9))], "plugin.protocol.encoding"),
        ([{"crash": 1}], "plugin.crashed"),
    ],
)
def test_a_source_that_does_not_open_is_told(reading, frames, code):
    error = reading.not_opened(*frames)
    assert error.code == code


def test_a_stream_on_a_dead_process_is_told_at_once(reading, kit, run):
    async def scenario():
        async with kit.running() as process:
            os.kill(process.pid, signal.SIGKILL)
            await process.exited
            with pytest.raises(PenstockError) as caught:
                await reading.stream(process, []).open()
            return caught.value.code

    assert run(scenario()) == "plugin.crashed"


def test_a_consumer_that_is_cancelled_loses_no_event(reading, kit):
    async def body(stream):
        events = stream.__aiter__()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(events), 0.1)
        await stream.committed(0)
        return await everything(stream)

    assert reading([kit.opened(), {"take": 1}, kit.drained(0)], body) == [EndOfStream(0)]


def test_a_slow_consumer_stops_the_source_and_grows_nothing(reading, kit):
    """A source that sends 20,000 heartbeats waits in gRPC's flow control, not in our memory."""

    async def body(stream):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await reading.kit.until(lambda: stream.statistics()["waiting_events"] == 256)
        await asyncio.sleep(0.3)
        assert stream.statistics()["waiting_events"] == 256
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    script = [kit.opened(), *[pb.ReadResponse(progress={"lag_bytes": 1}) for _ in range(20_000)]]
    assert reading(script, body) < 16 * 1024


@pytest.mark.timed("a share of a core is measured")
def test_idle_streams_cost_nothing(reading, kit, run):
    """200 streams of one process that have nothing to say: under 1 % of a core at the host."""

    async def scenario():
        async with kit.running() as process:
            streams = [reading.stream(process, [kit.opened(30)]) for _ in range(200)]
            await asyncio.gather(*(stream.open() for stream in streams))
            readers = [asyncio.create_task(everything(stream)) for stream in streams]
            await asyncio.sleep(0.2)
            busy, since = time.process_time(), time.monotonic()
            await asyncio.sleep(2)
            share = (time.process_time() - busy) / (time.monotonic() - since)
            await asyncio.gather(*(stream.close() for stream in streams))
            for reader in readers:
                reader.cancel()
            return share

    assert run(scenario()) < 0.01


def test_one_process_serves_many_streams_and_one_that_fails_touches_no_other(reading, kit, run):
    async def scenario():
        async with kit.running() as process:
            good = reading.stream(process, [kit.opened(), {"take": 1}, kit.drained(0)])
            bad = reading.stream(process, [kit.opened(), kit.ready(9)])
            await asyncio.gather(good.open(), bad.open())
            with pytest.raises(InternalError):
                await everything(bad)
            await good.committed(0)
            assert await everything(good) == [EndOfStream(0)]
            await asyncio.gather(good.close(), bad.close())
            await good.close()

    run(scenario())


def test_the_open_deadline_is_the_processs(kit, run, reading):
    async def scenario():
        async with kit.running(deadlines=replace(kit.deadlines, open_s=0.3)) as process:
            with pytest.raises(PenstockError, match=r"plugin\.read\.open took longer than 0\.3 s"):
                await reading.stream(process, [{"hang": 1}]).open()

    run(scenario())


def test_numbers_that_a_source_has_of_itself_are_taken(reading):
    metrics = PluginMetrics("mine", "source")
    progress = pb.ReadResponse()
    progress.progress.metrics["requests_total"] = 3
    reading.events(progress, reading.kit.drained(0), metrics=metrics)
    assert metrics.current() == (PluginMetric("mine", "source", "requests_total", 3),)
