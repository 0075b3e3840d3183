"""Every part of the Go SDK over the wire, used well and badly, by the plugin in `moody/`."""

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import grpc
import pyarrow as pa
import pytest

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.connector.v1 import plugin_service_pb2
from penstock.api.connector.v1 import sink_service_pb2 as sink_pb
from penstock.api.connector.v1 import source_service_pb2 as source_pb
from penstock.api.connector.v1.connector_service_pb2_grpc import ConnectorServiceStub
from penstock.api.connector.v1.plugin_service_pb2_grpc import PluginServiceStub
from penstock.api.connector.v1.source_service_pb2_grpc import SourceServiceStub
from penstock.api.record.v1 import record_pb2
from penstock_connector import CommitMode, Partition, Sink, Source
from penstock_connector.testing import (
    RemoteError,
    alter_offsets,
    sink_task,
    source_monitor,
    source_task,
)
from support.checkout import ROOT
from support.foreign import ForeignBed, go_build

MODULE = ROOT / "connectors/go"


class Moody(Source):
    name = "moody-source"


class Checked(Sink):
    name = "moody-sink"


class Keeper(Sink):
    name = "moody-keeper"


class Traced(Sink):
    name = "moody-traced"


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin, built."""
    return go_build(tmp_path_factory.mktemp("moody"), MODULE, "./tests/moody") / "moody"


@pytest.fixture
def bed(program: Path) -> Iterator[ForeignBed]:
    """The plugin, running."""
    with ForeignBed([program]) as running:
        yield running


def ended_by(task):
    """The code of the error by which a task ends."""
    with pytest.raises(RemoteError) as caught:
        deque(iter(task.event, None))
    return caught.value.code


# ── single rows ─────────────────────────────────────────────────────────────────────────────────


def parsed(bed, *rows, connector="moody-source", **config):
    """Return the results of rows; each is its bytes, or its bytes and the values to set."""
    messages = [
        source_pb.RawRow(
            partition_id='{"key":"a"}', dataset="moods", raw=raw, set_json=json.dumps(changes)
        )
        for raw, changes in rows
    ]
    request = source_pb.ParseRowsRequest(
        target=pb.Target(connector=connector, config=config), rows=messages
    )
    stub = SourceServiceStub(bed.channel)
    return stub.ParseRows(request, metadata=bed.metadata, timeout=30).rows


def test_each_row_is_a_row_or_has_its_own_reason(bed):
    one, bad, changed, two = parsed(bed, (b"1", {}), (b"x", {}), (b"x", {"number": 0}), (b"2", {}))
    assert (one.schema.dataset, list(one.schema.key_columns)) == ("moods", ["number"])
    assert (one.schema.schema_id, one.row.schema_id, one.row.seq, one.row.rows) == (1, 1, 1, 1)
    with pa.ipc.open_stream(pa.py_buffer(one.schema.arrow_schema + one.row.data)) as reader:
        (row,) = reader.read_all().to_pylist()
    assert (row["number"], row["text"]) == (1, "a")
    assert (bad.reason.code, bad.reason.fix) == ("moody.row", "Write 1.")
    assert changed.row.rows == 1
    assert two.reason.code == "source.parse.count"


@pytest.mark.parametrize(
    ("mode", "status", "code"),
    [
        ("panic", grpc.StatusCode.INTERNAL, "connector.defect"),
        ("lost", grpc.StatusCode.UNAVAILABLE, "moody.away"),
        ("uncovered", grpc.StatusCode.INTERNAL, "source.parse.count"),
    ],
)
def test_an_error_is_about_all_rows(bed, mode, status, code):
    with pytest.raises(grpc.RpcError) as caught:
        parsed(bed, (b"1", {}), mode=mode)
    assert caught.value.code() is status
    assert f"[{code}]" in caught.value.details()


# ── sources ─────────────────────────────────────────────────────────────────────────────────────


def test_partitions_keys_ops_and_bad_rows_are_told(bed):
    with source_task(Moody, {}, bed=bed) as task:
        rows = task.all_rows()
        assert [row["number"] for row in rows] == [0, 1, 2] * 2
        assert [row["text"] for row in rows] == [None, "text", None] * 2
        kinds = [frame.WhichOneof("kind") for frame in task.seen]
        assert kinds == [
            "opened", "bad_row", "schema", "ready", "checkpoint", "partition_done",
            "bad_row", "ready", "checkpoint", "partition_done",
            "drained",
        ]  # fmt: skip
        bad, schema = task.seen[1].bad_row, task.seen[2].schema
        assert (bad.raw, bad.reason.code) == (b"\xff", "moody.row")
        assert list(schema.key_columns) == ["number"]
        assert task.schemas[1].field("at").type == pa.timestamp("us", "UTC")
        ids = [frame.ready.partition_id for frame in task.seen if frame.HasField("ready")]
        assert ids == ['{"key":"a"}', '{"key":"b"}']


def test_a_source_that_awaits_a_commit_is_confirmed_and_goes_on(bed):
    with source_task(Moody, {"mode": "await"}, bed=bed) as task:
        assert task.opened.needs_commit
        assert task.opened.confirms_commits
        assert task.until("checkpoint").checkpoint.await_commit
        with pytest.raises(TimeoutError):
            task.until("checkpoint", timeout=0.3)
        task.commit()
        while True:  # the confirmation is a progress frame
            frame = task.call.receive()
            if frame.WhichOneof("kind") == "progress" and frame.progress.committed_checkpoint_id:
                break
        assert task.until("checkpoint").checkpoint.checkpoint_id == 2


def test_a_source_without_an_end_ends_when_it_has_caught_up(bed):
    with source_task(Moody, {"mode": "endless"}, until_caught_up=True, bed=bed) as task:
        assert task.opened.ends_when_caught_up
        assert len(task.all_rows()) == 6
        assert task.seen[-1].HasField("drained")
    with source_task(Moody, {"mode": "endless"}, epoch=2, bed=bed) as task:
        assert not task.opened.ends_when_caught_up
        with pytest.raises(TimeoutError):
            task.until("drained", timeout=0.5)


@pytest.mark.parametrize(
    ("mode", "code"),
    [
        ("panic", "connector.defect"),
        ("defect", "connector.defect"),
        ("lost", "moody.lost"),
        ("uncovered", "source.rows_without_offset"),
        ("nowhere", "source.batch.no_partition"),
        ("dictionary", "rows.dictionary_column"),
    ],
)
def test_a_defect_ends_its_own_task_with_a_code_and_no_other(bed, mode, code):
    with source_task(Moody, {"mode": mode}, bed=bed) as task:
        assert ended_by(task) == code
    with source_task(Moody, {}, epoch=2, bed=bed) as other:
        assert len(other.all_rows()) == 6


def test_a_panic_tells_its_stack(bed):
    with source_task(Moody, {"mode": "panic"}, bed=bed) as task:
        with pytest.raises(RemoteError) as caught:
            deque(iter(task.event, None))
        assert "as it was told" in caught.value.diagnostic.message
        assert "main.go" in caught.value.diagnostic.detail


def test_a_source_that_blocks_is_drained_by_its_context(bed):
    with source_task(Moody, {"mode": "blocks"}, bed=bed) as task:
        assert task.drain().checkpoint_id == 0


def test_a_monitor_asks_warns_and_hears_of_the_plan(bed):
    plan = [Partition({"key": "a"})]
    with source_monitor(Moody, {}, plan, bed=bed) as monitor:
        warning = monitor.until("diagnostic").diagnostic
        assert (warning.code, warning.severity) == ("moody.warning", 2)
        assert monitor.replan() == "1 partitions appeared, 0 are gone"
        assert monitor.replan()  # again, while it is not followed


def test_what_a_monitor_returns_fails_the_connector(bed):
    with source_monitor(Moody, {"mode": "defect"}, bed=bed) as monitor:
        with pytest.raises(RemoteError) as caught:
            deque(iter(monitor.call.receive, None))
        assert caught.value.code == "connector.defect"


def test_a_password_is_told_nowhere(bed):
    config = {"mode": "lost", "password": "s3cr3t-canary", "keys": "a,b,c,d", "every": "x"}
    stub = ConnectorServiceStub(bed.channel)
    target = pb.Target(connector="moody-source", config=config)
    answers = [
        stub.ValidateConfig(
            pb.ValidateConfigRequest(target=target), metadata=bed.metadata, timeout=60
        ),
        *stub.CheckConnection(
            pb.CheckConnectionRequest(target=target), metadata=bed.metadata, timeout=60
        ),
        PluginServiceStub(bed.channel).Describe(
            plugin_service_pb2.DescribeRequest(), metadata=bed.metadata, timeout=60
        ),
    ]
    assert not any("s3cr3t-canary" in str(answer) for answer in answers)
    assert bed.end() == 0
    assert "s3cr3t-canary" not in bed.errors.read_text()


def test_defaults_are_shown_as_people_write_them(bed):
    answer = PluginServiceStub(bed.channel).Describe(
        plugin_service_pb2.DescribeRequest(), metadata=bed.metadata, timeout=60
    )
    keys = {key.name: key for key in answer.connectors[0].config_keys}
    assert keys["every"].default_value == "20ms"
    assert (keys["room"].type, keys["room"].default_value) == ("size", "1MiB")
    assert keys["keys"].default_value == "a,b"
    assert keys["password"].sensitive
    assert keys["mode"].type == "enum"


def form(bed, **config):
    target = pb.Target(connector="moody-source", config=config)
    answer = ConnectorServiceStub(bed.channel).ValidateConfig(
        pb.ValidateConfigRequest(target=target), metadata=bed.metadata, timeout=60
    )
    return {value.name: value for value in answer.values}


def test_a_form_offers_and_hides_what_the_other_values_say_without_secrets(bed):
    shown = form(bed, mode="lost", password="s3cr3t", every="wrong")
    assert list(shown["keys"].recommended_values) == ["a", "wrong"]
    assert not shown["room"].visible, "it was told a secret"
    assert shown["keys"].visible
    assert list(form(bed, mode="lost")["keys"].recommended_values) == ["a", "20ms"]
    assert form(bed)["room"].visible


@pytest.mark.parametrize(
    ("mode", "code"), [("panic", "connector.defect"), ("nowhere", "config.unknown_hint")]
)
def test_a_form_that_its_author_broke_is_a_defect(bed, mode, code):
    with pytest.raises(grpc.RpcError) as caught:
        form(bed, mode=mode)
    assert RemoteError(caught.value).code == code


def test_rules_over_several_values_and_the_outside_are_asked(bed):
    target = pb.Target(connector="moody-source", config={"keys": "a,b,c,d"})
    stub = ConnectorServiceStub(bed.channel)
    answer = stub.ValidateConfig(
        pb.ValidateConfigRequest(target=target), metadata=bed.metadata, timeout=60
    )
    assert [d.code for v in answer.values for d in v.diagnostics] == ["moody.too_many"]
    target = pb.Target(connector="moody-source", config={"mode": "lost"})
    steps = stub.CheckConnection(
        pb.CheckConnectionRequest(target=target), metadata=bed.metadata, timeout=60
    )
    assert [(s.step, [d.code for d in s.diagnostics]) for s in steps] == [
        ("config", []),
        ("outside", ["moody.refused"]),
    ]


# ── sinks ───────────────────────────────────────────────────────────────────────────────────────


def test_refused_rows_are_named_and_the_others_written(bed, tmp_path):
    with sink_task(Checked, {"folder": str(tmp_path)}, bed=bed) as task:
        assert task.opened.commit_mode == CommitMode.IDEMPOTENT
        txn = task.next_txn()
        rows = [{"id": number} for number in (1, -2, 3, -4, 5)]
        (result,) = task.put(rows, txn_id=txn)
        assert not result.all_ok
        assert [(f.row, f.reason.code) for f in result.failed] == [
            (1, "moody.negative"),
            (3, "moody.negative"),
        ]
        task.prepare(txn, [(0, 0, 3)])
        task.commit(txn)
        assert (tmp_path / "rows").read_text() == '{"id":1}\n{"id":3}\n{"id":5}\n'


def test_a_row_that_is_refused_without_a_reason_has_one_all_the_same(bed, tmp_path):
    with sink_task(Checked, {"folder": str(tmp_path)}, bed=bed) as task:
        (result,) = task.put([{"id": 0}], txn_id=task.next_txn())
        assert [f.reason.code for f in result.failed] == ["connector.no_reason"]


def test_a_schema_is_applied_or_refused_and_a_place_is_looked_at(bed, tmp_path):
    with sink_task(Checked, {"folder": str(tmp_path)}, bed=bed) as task:
        assert task.columns("orders") == pa.schema([pa.field("id", pa.int64(), nullable=False)])
        assert task.columns("others") is None
        with pytest.raises(ValueError, match="no such rows here"):
            task.put([{"id": 1}], txn_id=1, dataset="refused")
        assert task.write([{"id": 1}], dataset="orders").txn_id


def test_rows_that_wait_are_bounded(bed, tmp_path):
    with sink_task(Checked, {"folder": str(tmp_path)}, bed=bed) as task:
        txn = task.next_txn()
        rows = pa.RecordBatch.from_pydict({"id": list(range(1, 100_001))})
        task.put(rows, txn_id=txn, slot=0)
        with pytest.raises(RemoteError) as caught:
            task.put(rows, txn_id=txn, slot=1)
        assert caught.value.code == "sink.staging.full"


def test_rows_that_fail_when_they_are_written_are_named_and_the_others_written_once(bed, tmp_path):
    given = {"folder": str(tmp_path)}
    with sink_task(Checked, given, bed=bed, tolerates_failed_rows=True) as task:
        assert task.opened.reports_failed_rows
        txn = task.next_txn()
        task.put([{"id": n} for n in (1, -2, 13, 4)], txn_id=txn)
        task.put([{"id": n} for n in (5, 6, 17, 7, 13)], txn_id=txn, slot=1)
        task.prepare(txn, [(0, 0, 3), (1, 0, 5)])
        named = [(one.slot, one.row, one.reason.code) for one in task.left_out]
        assert named == [(0, 2, "moody.named"), (1, 2, "moody.some"), (1, 4, "moody.named")]
        task.commit(txn)
        written = [json.loads(line)["id"] for line in (tmp_path / "rows").read_text().splitlines()]
        assert written == [1, 4, 5, 6, 7]
        task.write([{"id": 8}])


def test_more_failed_rows_than_fit_an_answer_come_in_several(bed, tmp_path):
    given = {"folder": str(tmp_path)}
    with sink_task(Checked, given, bed=bed, tolerates_failed_rows=True) as task:
        task.write([{"id": 13 if n % 2 else 1} for n in range(2_500)])
        assert [one.row for one in task.left_out] == list(range(1, 2_500, 2))
        assert {one.reason.code for one in task.left_out} == {"moody.named"}
    assert len((tmp_path / "rows").read_text().splitlines()) == 1_250


@pytest.mark.parametrize(
    ("id_", "tolerates", "code"),
    [(13, False, "sink.rows.refused"), (17, False, "moody.some"), (19, True, "moody.busy")],
)
def test_what_is_not_tolerated_ends_the_task(bed, tmp_path, id_, tolerates, code):
    given = {"folder": str(tmp_path)}
    with (
        sink_task(Checked, given, bed=bed, tolerates_failed_rows=tolerates) as task,
        pytest.raises(RemoteError) as caught,
    ):
        task.write([{"id": id_}])
    assert caught.value.code == code


def test_a_sink_that_keeps_the_token_tells_it_when_it_is_opened_again(bed, tmp_path):
    config = {"folder": str(tmp_path)}
    with sink_task(Keeper, config, commit_mode=CommitMode.SINK, bed=bed) as task:
        assert task.opened.commit_mode == CommitMode.SINK
        assert not task.opened.HasField("committed")
        task.write([{"id": 1}])
        assert next(tmp_path.rglob("*txn.json"))
    with sink_task(Keeper, config, epoch=2, bed=bed) as task:
        committed = task.opened.committed
        assert (committed.txn_id, committed.epoch, committed.token) == (1, 1, b"token")
        with pytest.raises(RemoteError) as caught:
            task.put([{"id": 2}], txn_id=1)
        assert caught.value.code == "sink.txn.closed"


@pytest.mark.parametrize("trace", ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", ""])
def test_the_trace_of_the_hosts_call_is_offered(bed, tmp_path, trace):
    """By metadata of the calls, and by the frame that ends a transaction; or none is."""
    config, seen = {"folder": str(tmp_path)}, tmp_path / "traces"
    if trace:
        bed.metadata = (*bed.metadata, ("traceparent", trace))
    request = pb.CheckConnectionRequest(target=pb.Target(connector="moody-traced", config=config))
    check = ConnectorServiceStub(bed.channel).CheckConnection
    assert all(step.ok for step in check(request, metadata=bed.metadata, timeout=60))
    for sink in (Traced, Checked):
        with sink_task(sink, config, bed=bed) as task:
            txn = task.next_txn()
            task.put([{"id": 1}], txn_id=txn)
            slots = [sink_pb.PutSlot(slot=0, attempt=0, rows=1)]
            order = sink_pb.WritePrepare(txn_id=txn, slots=slots, traceparent=trace)
            task.send(prepare=order)
            task.until("prepared")
            task.commit(txn)
    saw = ("Check", "Stage", "Prepare", "WriteBatch")
    assert seen.read_text().splitlines() == [f"{who} {trace}" for who in saw]


def test_state_that_no_host_stores_is_refused(bed, tmp_path):
    with sink_task(Keeper, {"folder": str(tmp_path)}, bed=bed) as task:
        with pytest.raises(RemoteError) as caught:
            task.write([{"id": number} for number in range(13)])
        assert caught.value.code == "sink.state.too_large"


def test_a_batch_out_of_order_is_refused(bed, tmp_path):
    from penstock.api.connector.v1.sink_service_pb2_grpc import SinkServiceStub

    with sink_task(Checked, {"folder": str(tmp_path)}, bed=bed) as task:
        task.write([{"id": 1}])
        batch = record_pb2.Batch(seq=2, schema_id=1, rows=1, encoding=1, data=b"none")
        opened = sink_pb.PutOpen(task_id="test-0", epoch=1, txn_id=2)
        frames = [sink_pb.PutRequest(open=opened), sink_pb.PutRequest(batch=batch)]
        call = SinkServiceStub(bed.channel).Put(iter(frames), metadata=bed.metadata, timeout=60)
        with pytest.raises(grpc.RpcError) as caught:
            list(call)
        assert "wire.seq.gap" in caught.value.details()


def test_bytes_that_are_no_rows_are_refused(bed, tmp_path):
    from penstock.api.connector.v1.sink_service_pb2_grpc import SinkServiceStub

    with sink_task(Checked, {"folder": str(tmp_path)}, bed=bed) as task:
        task.write([{"id": 1}])
        for data in (b"", b"none", b"\xff" * 64):
            batch = record_pb2.Batch(seq=1, schema_id=1, rows=1, encoding=1, data=data)
            opened = sink_pb.PutOpen(task_id="test-0", epoch=1, txn_id=2, attempt=len(data))
            frames = [sink_pb.PutRequest(open=opened), sink_pb.PutRequest(batch=batch)]
            call = SinkServiceStub(bed.channel).Put(iter(frames), metadata=bed.metadata, timeout=60)
            with pytest.raises(grpc.RpcError) as caught:
                list(call)
            assert "wire.rows.unreadable" in caught.value.details()
        assert task.write([{"id": 2}]).txn_id


def test_offsets_that_a_person_sets_are_what_the_connector_makes_of_them(bed, tmp_path):
    config = {"folder": str(tmp_path)}
    wanted = [
        Partition({"topic": "t", "partition": n}, offset=offset)
        for n, offset in enumerate([{"offset": 7}, None])
    ]
    for dry_run, count in ((True, 2), (False, 1)):
        altered = alter_offsets(Checked, config, wanted, dry_run=dry_run, bed=bed)
        assert [(p.key, p.offset) for p in altered] == [(p.key, p.offset) for p in wanted[:count]]
    late = [Partition({"topic": "t", "partition": 0}, offset={"offset": 101})]
    with pytest.raises(RemoteError) as caught:
        alter_offsets(Checked, config, late, bed=bed)
    assert caught.value.code == "moody.late"
    assert [p.offset for p in alter_offsets(Keeper, config, late, bed=bed)] == [{"offset": 101}]
