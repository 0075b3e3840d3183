"""A write stream: one answer for each question, and no sink that is believed blindly."""

import asyncio
import json
import logging
import time
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.api.connector.v1 import sink_service_pb2 as pb
from penstock.api.error.v1 import diagnostic_pb2 as pb_error
from penstock.model.connector import CommitMode
from penstock.model.errors import (
    ConfigError,
    FencedError,
    InternalError,
    PenstockError,
    SchemaError,
)
from penstock.model.metrics import PluginMetric
from penstock.model.stream import FailedRowsError, PreparedTxn, PutSlot, StreamSchema
from penstock.plugin.limits import StreamLimits
from penstock.plugin.streams.sink_stream import PluginSinkStream
from penstock.plugin.streams.source_events import PluginMetrics

SCHEMA = StreamSchema(3, "d", pa.schema([("a", pa.string())]))
SLOTS = [PutSlot(0, 11, 3), PutSlot(1, 12, 2)]
OFFSETS = {'{"file":"a"}': {"byte": 7}}


SHORT = {
    "open": {"open_s": 0.5},
    "prepare": {"prepare_s": 0.5, "slow_s": 0.1},
    "close": {"end_s": 0.3},
}
"""Deadlines of the answers that a test waits out; all others stay as they are."""


def deadlines_of(usual, scripts):
    hanging = [name for name, script in scripts.items() if {"hang": 1} in script]
    return replace(usual, **{k: v for name in hanging for k, v in SHORT.get(name, {}).items()})


@pytest.fixture
def writing(kit, run):
    """Runs `body(stream)` on a sink that plays scripts instead of some of its answers."""

    def write(
        body, asked=CommitMode.TWO_PHASE, open_it=True, metrics=None, tolerant=False, **scripts
    ):
        async def scenario():
            deadlines = deadlines_of(kit.deadlines, scripts)
            async with kit.running(connector="sink", deadlines=deadlines) as process:
                config = {name: kit.script(script) for name, script in scripts.items()}
                target = kit.target("sink", **config)
                stream = PluginSinkStream(
                    process, target, kit.plan(), metrics=metrics, tolerates_failed_rows=tolerant
                )
                if not open_it:
                    return await body(stream)
                await stream.open(5, asked, None, False)
                try:
                    return await body(stream)
                finally:
                    await stream.close(0.3)

        return run(scenario())

    return write


async def prepare(stream):
    return await stream.prepare(1, SLOTS, b"token")


def opened(**more):
    return pb.WriteResponse(opened=pb.WriteOpened(**more))


def prepared(**more):
    return pb.WriteResponse(prepared=pb.Prepared(txn=pb.PreparedTxn(**more)))


def test_a_transaction_goes_from_schema_to_visible(writing):
    async def body(stream):
        await stream.apply_schema(SCHEMA)
        txn = await prepare(stream)
        await stream.commit(1)
        return txn

    txn = writing(body)
    assert json.loads(txn.state) == [[0, 11, 3], [1, 12, 2]]
    assert txn == PreparedTxn(1, 5, txn.state, b"token")


def test_the_next_transaction_may_overlap(writing):
    async def body(stream):
        await prepare(stream)
        _, txn = await asyncio.gather(stream.commit(1), stream.prepare(2, SLOTS, b""))
        return txn.txn_id

    assert writing(body) == 2


def test_a_ticket_has_all_that_an_executor_needs(writing):
    async def body(stream):
        return stream.ticket(9, 2, 3), stream._process

    ticket, process = writing(body)
    assert json.loads(json.dumps(ticket)) == ticket
    assert ticket == {
        "kind": "plugin",
        "address": process.address,
        "credential": process.credential,
        "task_id": "g-0",
        "epoch": 5,
        "txn_id": 9,
        "schema_id": 3,
        "max_message_bytes": 4 << 20,
    }


def test_a_message_is_no_larger_than_either_side_takes(kit, run):
    async def scenario():
        async with kit.running(connector="sink") as process:
            config = {"open": kit.script([opened(commit_mode=3, limits={"max_message_bytes": 9})])}
            stream = PluginSinkStream(
                process, kit.target("sink", **config), kit.plan(), limits=StreamLimits()
            )
            await stream.open(5, CommitMode.UNSPECIFIED, None, False)
            size = stream.ticket(1, 0, 1)["max_message_bytes"]
            await stream.close(0.1)
            return size

    assert run(scenario()) == 9


def test_what_the_sink_has_already_is_given_to_the_task(writing):
    async def body(stream):
        return await stream.open(5, CommitMode.SINK, PreparedTxn(3, 4, b"s", b"t"), True)

    last = pb.PreparedTxn(txn_id=3, epoch=4, token=b"t")
    result = writing(
        body,
        open_it=False,
        open=[opened(commit_mode=2, committed=last, commit_every={"seconds": 2})],
    )
    assert result.committed == PreparedTxn(3, 4, b"", b"t")
    assert result.commit_mode is CommitMode.SINK
    assert result.commit_every == 2


@pytest.mark.parametrize(
    ("asked", "given", "weaker"),
    [
        (CommitMode.TWO_PHASE, CommitMode.HOST, True),
        (CommitMode.TWO_PHASE, CommitMode.IDEMPOTENT, True),
        (CommitMode.SINK, CommitMode.HOST, True),
        (CommitMode.IDEMPOTENT, CommitMode.HOST, True),
        (CommitMode.SINK, CommitMode.TWO_PHASE, False),
        (CommitMode.HOST, CommitMode.SINK, False),
        (CommitMode.UNSPECIFIED, CommitMode.HOST, False),
    ],
)
def test_a_weaker_commit_mode_than_asked_for_fails_at_the_start(writing, asked, given, weaker):
    async def body(stream):
        return await stream.open(5, asked, None, False)

    script = [opened(commit_mode=int(given))]
    if not weaker:
        assert writing(body, open_it=False, open=script).commit_mode is given
        return
    with pytest.raises(ConfigError) as caught:
        writing(body, open_it=False, open=script)
    assert caught.value.code == "plugin.weaker_commit_mode"
    assert asked.name in str(caught.value)
    assert given.name in str(caught.value)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ([opened(commit_mode=0)], "plugin.protocol.commit_mode"),
        ([opened(commit_mode=99)], "plugin.protocol.commit_mode"),
        ([prepared(txn_id=1)], "plugin.protocol.not_opened"),
        ([{"hang": 1}], "plugin.deadline"),
        ([{"crash": 4}], "plugin.crashed"),
        ([{"refuse": "mine.no"}], "mine.no"),
    ],
)
def test_a_sink_that_does_not_open_is_told(writing, script, code):
    async def body(stream):
        await stream.open(5, CommitMode.UNSPECIFIED, None, False)

    with pytest.raises(PenstockError) as caught:
        writing(body, open_it=False, open=script)
    assert caught.value.code == code


def test_a_sink_with_a_newer_owners_transaction_fences_the_task(writing):
    async def body(stream):
        await stream.open(5, CommitMode.SINK, None, False)

    newer = pb.PreparedTxn(txn_id=1, epoch=6)
    with pytest.raises(FencedError):
        writing(body, open_it=False, open=[opened(commit_mode=2, committed=newer)])


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ([prepared(txn_id=2, epoch=5)], "plugin.protocol.unasked"),
        ([prepared(txn_id=1, epoch=4)], "plugin.protocol.epoch"),
        ([prepared(txn_id=1, epoch=5, state=b"x" * 65_537)], "plugin.protocol.state_size"),
        ([opened(commit_mode=3)], "plugin.protocol.second_opened"),
        ([{"hang": 1}], "plugin.deadline"),
        ([{"crash": 5}], "plugin.crashed"),
        ([{"end": 1}], "plugin.stream_ended"),
        ([{"refuse": "mine.full", "class": 1}], "mine.full"),
    ],
)
def test_a_prepare_that_goes_wrong_is_told_and_ends_the_stream(writing, script, code):
    async def body(stream):
        with pytest.raises(PenstockError) as first:
            await prepare(stream)
        with pytest.raises(PenstockError) as second:
            await stream.commit(1)
        return first.value.code, second.value.code

    assert writing(body, prepare=script) == (code, code)


def test_a_second_answer_ends_the_stream(writing):
    async def body(stream):
        await prepare(stream)
        with pytest.raises(InternalError) as caught:
            await stream.commit(1)
        return caught.value.code

    answers = [prepared(txn_id=1, epoch=5), prepared(txn_id=1, epoch=5)]
    assert writing(body, prepare=answers) == "plugin.protocol.unasked"


def test_what_a_newer_sink_says_is_ignored(writing):
    async def body(stream):
        return (await prepare(stream)).txn_id

    more = [
        pb.WriteResponse(progress={"lag_bytes": 1}),
        {"garbage": "fa3e03616263"},
        prepared(txn_id=1, epoch=5),
    ]
    assert writing(body, prepare=more) == 1


def test_a_schema_that_the_sink_refuses_is_told_with_its_reason(writing):
    async def body(stream):
        with pytest.raises(SchemaError) as caught:
            await stream.apply_schema(SCHEMA)
        return caught.value.diagnostic

    refused = pb.SchemaApplied(schema_id=3, refused=True)
    refused.diagnostics.add(message="type of a", fix="Cast it.")
    diagnostic = writing(body, schema=[pb.WriteResponse(schema_applied=refused)])
    assert diagnostic.code == "plugin.schema_refused"
    assert "type of a" in diagnostic.message
    assert diagnostic.fix == "Cast it."


@pytest.mark.timed("the end of a sink has its own deadline")
def test_a_sink_that_does_not_close_is_let_go_in_time(writing):
    async def body(_):
        return time.monotonic()

    before = writing(body, close=[{"hang": 1}])
    assert time.monotonic() - before < 4


def test_a_sink_that_does_not_say_that_it_tells_its_columns_is_not_asked(writing):
    async def body(stream):
        return await stream.columns("d")

    assert writing(body, describe=[{"hang": 1}]) is None


def test_numbers_that_a_sink_has_of_itself_are_taken(writing):
    async def body(stream):
        await prepare(stream)
        await stream.commit(1)

    metrics = PluginMetrics("mine", "sink")
    progress, done = pb.WriteResponse(), pb.WriteResponse(txn_committed={"txn_id": 1})
    progress.progress.metrics["requests_total"] = 3
    writing(body, metrics=metrics, commit=[progress, done])
    assert metrics.current() == (PluginMetric("mine", "sink", "requests_total", 3),)


def test_a_sink_that_never_prepares_is_warned_of_and_fails_with_its_stage(writing, caplog):
    async def body(stream):
        with pytest.raises(PenstockError) as error:
            await prepare(stream)
        return error.value

    with caplog.at_level(logging.WARNING, "penstock.plugin.streams.sink_stream"):
        error = writing(body, prepare=[{"hang": 1}])
    assert error.code == "plugin.deadline"
    assert "stage plugin.write.prepare took longer than 0.5 s" in error.diagnostic.message
    assert "has not answered stage plugin.write.prepare for 0.1 s" in caplog.text


def failed(*rows, error_class=pb_error.ERROR_CLASS_DATA):
    """Return an answer that names rows which the sink cannot write."""
    named = [
        pb.FailedRow(
            slot=slot,
            row=row,
            reason=pb_error.Diagnostic(code="t.bad", message="bad", error_class=error_class),
        )
        for slot, row in rows
    ]
    return pb.WriteResponse(prepared=pb.Prepared(txn=pb.PreparedTxn(txn_id=1), failed=named))


def test_rows_that_the_sink_cannot_write_are_named_with_their_reasons(writing):
    with pytest.raises(FailedRowsError, match=r"cannot write 2 row.s., the first: bad") as caught:
        writing(prepare, tolerant=True, prepare=[failed((0, 2), (1, 0))])
    found = [(one.slot, one.row, one.reason.code) for one in caught.value.rows]
    assert found == [(0, 2, "t.bad"), (1, 0, "t.bad")]


@pytest.mark.parametrize(
    ("answer", "tolerant", "why"),
    [
        (failed((0, 2)), False, "does not tolerate them"),
        (failed((7, 2)), True, "in slot 7, which was not named"),
        (failed((0, 2), (0, 2)), True, "row 2 of slot 0 is named twice"),
        (failed(*((0, n) for n in range(1_001))), True, "1001 failed rows are named at once"),
        (failed((0, 2), error_class=pb_error.ERROR_CLASS_RETRIABLE), True, "no error of its data"),
    ],
)
def test_failed_rows_that_cannot_be_are_a_protocol_error(writing, answer, tolerant, why):
    with pytest.raises(InternalError, match=why) as caught:
        writing(prepare, tolerant=tolerant, prepare=[answer])
    assert caught.value.diagnostic.code == "plugin.protocol.failed_rows"


def test_a_row_that_was_left_out_cannot_fail_again(writing):
    async def body(stream):
        return await stream.prepare(1, [replace(SLOTS[0], left_out=(2,)), SLOTS[1]], b"")

    with pytest.raises(InternalError, match="row 2 of slot 0 is named twice"):
        writing(body, tolerant=True, prepare=[failed((0, 2))])
