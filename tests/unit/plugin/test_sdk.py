"""A plugin made with the SDK goes through the host's two streams from end to end."""

import asyncio
import json
import logging

import grpc.aio
import pyarrow as pa
import pytest

from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.api.connector.v1 import sink_service_pb2_grpc as sink_grpc
from penstock.api.connector.v1 import source_service_pb2 as source_pb
from penstock.api.connector.v1 import source_service_pb2_grpc as source_grpc
from penstock.api.record.v1 import record_pb2
from penstock.model.connector import CommitMode, Partition, Target, TaskPlan
from penstock.model.errors import ConfigError
from penstock.model.stream import (
    BatchReady,
    Checkpoint,
    EndOfStream,
    PutSlot,
    SchemaVersion,
)
from penstock.plugin.catalog.registry import Registry
from penstock.plugin.host import PluginHost
from penstock.plugin.process import startup
from penstock.plugin.streams.sink_stream import PluginSinkStream
from penstock.plugin.streams.source_stream import PluginSourceStream
from penstock.spark.connector_io import plugin_calls
from penstock_values.memory_files import own_memory_file

SECRETS = {"password": "s3cr3t-canary"}


@pytest.fixture
def host(kit):
    """A host of the counting plugin."""
    script = kit.scripted().folder / "counting.py"
    manifest = kit.manifest("{python}", str(script), name="counting")
    return PluginHost(Registry([manifest]), kit.runtime_dir, deadlines=kit.deadlines)


def read_stream(process, limit, start=None, epoch=1):
    target = Target("source", "count", {"limit": str(limit)}, SECRETS)
    plan = TaskPlan("g-0", (Partition({"source": "count"}, start),))
    return PluginSourceStream(process, target, plan, epoch)


async def fetch(ticket):
    """Do what an executor does with a read ticket."""
    async with grpc.aio.insecure_channel(ticket["address"]) as channel:
        stub = source_grpc.SourceServiceStub(channel)
        request = source_pb.FetchRequest(
            task_id=ticket["task_id"], epoch=ticket["epoch"], seqs=ticket["seqs"]
        )
        metadata = (("penstock-credential", ticket["credential"]),)
        return [response.batch async for response in stub.Fetch(request, metadata=metadata)]


async def put(ticket, slot, attempt, batches):
    """Do what an executor does with a write ticket."""
    async with grpc.aio.insecure_channel(ticket["address"]) as channel:
        stub = sink_grpc.SinkServiceStub(channel)
        call = stub.Put(metadata=(("penstock-credential", ticket["credential"]),))
        opened = sink_pb.PutOpen(
            task_id=ticket["task_id"],
            epoch=ticket["epoch"],
            txn_id=ticket["txn_id"],
            slot=slot,
            attempt=attempt,
        )
        await call.write(sink_pb.PutRequest(open=opened))
        for seq, batch in enumerate(batches, 1):
            batch.seq, batch.schema_id = seq, ticket["schema_id"]
            await call.write(sink_pb.PutRequest(batch=batch))
            result = (await call.read()).batch_result
            assert result.all_ok, result
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF


async def read_all(stream):
    """Return all events, up to Drained."""
    events = [event async for event in stream]
    assert isinstance(events[-1], EndOfStream)
    return events


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


ELSEWHERE = record_pb2.MemoryFile(process_id=2**22 + 1, descriptor=3, bytes=1, name="x")


@pytest.mark.parametrize("offered", [own_memory_file(), ELSEWHERE], ids=["here", "elsewhere"])
def test_a_plugin_that_can_read_the_memory_of_its_host_shares_its_own(
    host, run, monkeypatch, offered
):
    monkeypatch.setattr(startup, "own_memory_file", lambda: offered)

    async def scenario():
        source = await host.acquire("source")
        reader = read_stream(source, 10)
        await reader.open()
        (schema,) = of(SchemaVersion, await read_all(reader))
        shares = plugin_calls.shares_memory(reader.ticket([1], schema.schema.schema_id))
        await reader.close()
        await host.close(1)
        return shares

    assert run(scenario()) is (offered is not ELSEWHERE)


def test_rows_go_from_an_sdk_source_to_an_sdk_sink(host, run, tmp_path, caplog):
    async def scenario():
        source, sink = await asyncio.gather(host.acquire("source"), host.acquire("sink"))
        reader = read_stream(source, 2500)
        target = Target("sink", "add", {"path": str(tmp_path / "out")}, SECRETS)
        writer = PluginSinkStream(sink, target, TaskPlan("g-1"))
        await reader.open()
        opened = await writer.open(1, CommitMode.UNSPECIFIED, None, False)
        assert opened.commit_mode is CommitMode.TWO_PHASE
        events = await read_all(reader)
        schema = of(SchemaVersion, events)[0].schema
        batches, last = of(BatchReady, events), of(Checkpoint, events)[-1]
        assert sum(batch.rows for batch in batches) == 2500
        await writer.apply_schema(schema)
        seqs = [batch.seq for batch in batches]
        rows = await fetch(reader.ticket(seqs, schema.schema_id))
        assert [batch.seq for batch in rows] == seqs
        ticket = writer.ticket(1, 0, schema.schema_id)
        await put(ticket, 0, 1, rows[:1])  # an attempt that will not count
        await put(ticket, 0, 2, rows)
        txn = await writer.prepare(1, [PutSlot(0, 2, 2500)], b"token")
        assert (txn.state, txn.token) == (b"2500", b"token")
        await writer.commit(1)
        await reader.committed(last.checkpoint_id)
        await reader.release(seqs[-1])
        await asyncio.gather(reader.close(), writer.close(1))
        await host.close(1)

    with caplog.at_level(logging.INFO, "penstock.plugin"):
        run(scenario())
    lines = (tmp_path / "out-1").read_text().splitlines()
    assert [json.loads(line)["n"] for line in lines] == list(range(2500))
    assert 'counting/source: acked [{"next": 2500}]' in caplog.text
    assert "s3cr3t-canary" not in caplog.text


def test_reading_goes_on_at_the_stored_offset(host, run):
    async def scenario():
        reader = read_stream(await host.acquire("source"), 2500, {"next": 2400})
        await reader.open()
        events = await read_all(reader)
        ticket = reader.ticket([1], 1)
        schema = of(SchemaVersion, events)[0].schema.arrow
        (batch,) = await fetch(ticket)
        await reader.close()
        await host.close(1)
        return pa.ipc.read_record_batch(pa.py_buffer(batch.data), schema)["n"].to_pylist()

    assert run(scenario()) == list(range(2400, 2500))


def test_a_wrong_configuration_is_told_by_the_plugin(host, run):
    async def scenario():
        source = await host.acquire("source")
        with pytest.raises(ConfigError):
            await read_stream(source, "many").open()
        validation = await source.validate(Target("source", "x", {"limit": "many"}))
        await host.close(1)
        return validation.errors

    assert run(scenario())


def test_describe_comes_from_the_classes(host, run):
    async def scenario():
        source = await host.acquire("source")
        await host.close(1)
        return source.spec

    spec = run(scenario())
    assert {key.name: key.sensitive for key in spec.keys} == {"limit": False, "password": True}
    assert spec.source.needs_commit


def test_a_sink_is_asked_what_columns_a_place_has(host, run):
    async def body():
        sink = await host.acquire("sink")
        writer = PluginSinkStream(sink, Target("sink", "add", {"path": "x"}), TaskPlan("g-1"))
        await writer.open(1, CommitMode.TWO_PHASE, None, False)
        try:
            return await asyncio.gather(writer.columns("there"), writer.columns("elsewhere"))
        finally:
            await writer.close(1.0)
            await host.close()

    there, elsewhere = run(body())
    assert there == pa.schema([("n", pa.int64())])
    assert elsewhere is None
