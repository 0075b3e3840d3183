"""Control calls: values in, values out, one deadline each, and failures that can be told apart."""

import asyncio
import json
import logging
import os
import signal
from dataclasses import replace

import grpc
import grpc.aio
import pytest

from penstock.api.connector.v1 import connector_service_pb2 as pb
from penstock.api.record.v1 import record_pb2
from penstock.model.connector import ApplyAction, Partition
from penstock.model.datasets import Dataset, DatasetColumn
from penstock.model.errors import ConfigError, ErrorClass, InternalError, PenstockError
from penstock.plugin import responses
from penstock.plugin.errors import DIAGNOSTIC_KEY, error_from_status


def failing(kit, run, **config):
    async def scenario():
        deadlines = replace(kit.deadlines, validate_s=0.5) if "hang" in config else kit.deadlines
        async with kit.running(deadlines=deadlines) as process:
            with pytest.raises(PenstockError) as caught:
                await process.validate(kit.target(**config))
            return caught.value

    return run(scenario())


def test_validation_comes_back_as_values(kit, run):
    async def scenario():
        async with kit.running() as process:
            return await process.validate(kit.target())

    validation = run(scenario())
    assert [error.code for error in validation.errors] == ["mine.key"]


def test_plan_apply_and_check_come_back_as_values(kit, run):
    async def scenario():
        async with kit.running() as process:
            known = [Partition({"n": 1, "at": b"x"}, {"lsn": 2**60})]
            planned = await process.plan(kit.target(), 2, known)
            applied = await process.apply(kit.target(), ApplyAction.DELETE)
            return known, planned, applied, [step async for step in process.check(kit.target())]

    known, planned, applied, steps = run(scenario())
    assert [task.task_id for task in planned.tasks] == ["0", "1"]
    assert planned.tasks[0].partitions[0] == known[0]
    assert applied.actions == ("action 3",)
    assert [(step.step, step.ok) for step in steps] == [
        ("dns", True),
        ("tcp", True),
        ("login", False),
    ]


def listing(kit, run, *datasets, **config):
    async def scenario():
        async with kit.running() as process:
            target = kit.target(datasets=json.dumps(datasets), **config)
            return [dataset async for dataset in process.list_datasets(target)]

    return run(scenario())


def test_datasets_come_back_with_their_columns_and_without_secrets(kit, run):
    listed = listing(kit, run, ["shop.a", {"id": "int64", "name": "string"}, "id"], ["SECRET", {}])
    columns = (DatasetColumn("id", "int64", key=True), DatasetColumn("name", "string"))
    assert listed == [
        Dataset("shop.a", "rows", columns, selected=True),
        Dataset("***", "rows", selected=True),
    ]


@pytest.mark.parametrize(
    ("datasets", "code"),
    [
        ([["a", {}], ["b", {}], ["a", {}]], "plugin.protocol.dataset_name"),
        ([["", {}]], "plugin.protocol.dataset_name"),
        ([["x" * 8_193, {}]], "plugin.protocol.dataset_name"),
        ([["a", {"id": "int64"}, "other"]], "plugin.protocol.bad_schema"),
        ([["a", {"__op": "string"}]], "plugin.protocol.bad_schema"),
    ],
)
def test_datasets_that_break_a_rule_are_refused(kit, run, datasets, code):
    with pytest.raises(InternalError) as caught:
        listing(kit, run, *datasets)
    assert caught.value.code == code


def test_a_plugin_that_lacks_the_call_is_told_apart(kit, run):
    with pytest.raises(InternalError) as caught:
        listing(kit, run, without="")
    assert caught.value.code == "plugin.unimplemented"


def altering(kit, run, **config):
    async def scenario():
        async with kit.running() as process:
            wanted = [Partition({"n": 1, "at": b"x"}, {"lsn": 2**60}), Partition({"n": 2})]
            return wanted, await process.alter_offsets(kit.target(**config), wanted, dry_run=True)

    return run(scenario())


def test_offsets_that_a_person_sets_come_back_as_values(kit, run):
    wanted, altered = altering(kit, run)
    assert [(p.key, p.offset) for p in altered] == [(p.key, p.offset) for p in wanted]


def test_a_partition_may_come_back_under_another_key(kit, run):
    _, altered = altering(kit, run, renames="1")
    assert [p.key for p in altered] == [{"own": 0}, {"own": 1}]


def test_two_partitions_that_come_back_as_one_are_a_defect(kit, run):
    with pytest.raises(InternalError, match="returned 2, of which 1 are different ones"):
        altering(kit, run, renames="0")


def test_offsets_that_were_asked_about_and_not_answered_are_a_defect(kit, run):
    with pytest.raises(InternalError, match="for 2 partitions and returned 1"):
        altering(kit, run, **{"left.out": "1"})


def test_more_tasks_than_asked_for_are_refused(kit, run):
    async def scenario():
        async with kit.running() as process:
            with pytest.raises(InternalError) as caught:
                await process.plan(kit.target(more="1"), 2)
            return caught.value.code

    assert run(scenario()) == "plugin.protocol.too_many_tasks"


@pytest.mark.parametrize(
    ("id_", "key"), [('{"file": "a"}', {"file": "a"}), ('{"file":"b"}', {"file": "a"}), ("", {})]
)
def test_a_plan_with_an_id_that_is_not_that_of_its_key_is_refused(id_, key):
    partition = record_pb2.Partition(partition_id=id_)
    for name, text in key.items():
        partition.key[name].string_value = text
    for message in (
        pb.PlanResponse(partitions=[partition]),
        pb.PlanResponse(tasks=[pb.TaskPlan(partitions=[partition])]),
    ):
        with pytest.raises(InternalError) as caught:
            responses.plan_from_proto(message)
        assert caught.value.code == "plugin.protocol.partition_id"


def test_a_call_that_hangs_is_ended_and_named(kit, run):
    error = failing(kit, run, hang="")
    assert error.code == "plugin.deadline"
    assert "stage plugin.validate took longer than 0.5 s" in str(error)
    assert error.diagnostic.error_class is ErrorClass.RETRIABLE


def test_a_call_that_hangs_holds_up_no_other(kit, run):
    async def scenario():
        async with kit.running() as process:
            hanging = asyncio.create_task(process.validate(kit.target(hang="")))
            await process.validate(kit.target())
            assert not hanging.done()
            hanging.cancel()

    run(scenario())


def test_a_plugins_own_diagnostic_keeps_its_class_and_code_but_not_the_secret(kit, run):
    error = failing(kit, run, refuse="")
    assert isinstance(error, ConfigError)
    assert error.code == "mine.bad"
    assert error.diagnostic.message == r"\x1b[31m*** is wrong\nreally"
    assert error.diagnostic.fix == "Do it right."


def test_a_bare_status_is_told_without_the_secret(kit, run):
    error = failing(kit, run, status="")
    assert error.code == "plugin.failed"
    assert "UNKNOWN: boom ***" in str(error)


def test_a_secret_in_a_log_line_is_hidden(kit, run, caplog):
    async def scenario():
        async with kit.running() as process:
            await process.validate(kit.target(say="password is s3cr3t-canary"))

    with caplog.at_level(logging.INFO, "penstock.plugin.process.logs"):
        run(scenario())
    assert "password is ***" in caplog.text
    assert "s3cr3t-canary" not in caplog.text


def test_a_crash_in_a_call_is_told_as_one_with_how_it_ended(kit, run):
    error = failing(kit, run, crash="")
    assert error.code == "plugin.crashed"
    assert "exited with status 7" in str(error)


def test_a_call_after_the_end_is_told_as_a_crash(kit, run):
    async def scenario():
        async with kit.running() as process:
            os.kill(process.pid, signal.SIGKILL)
            await process.exited
            with pytest.raises(PenstockError) as caught:
                await process.plan(kit.target(), 1)
            assert not await kit.is_healthy(process)
            return caught.value

    error = run(scenario())
    assert error.code == "plugin.crashed"
    assert "signal SIGKILL" in str(error)


def test_a_crash_between_two_answers_of_a_stream_is_told(kit, run):
    async def scenario():
        async with kit.running() as process:
            with pytest.raises(PenstockError) as caught:
                [step async for step in process.check(kit.target(crash=""))]
            return caught.value.code

    assert run(scenario()) == "plugin.crashed"


def test_a_stopped_process_is_not_healthy(kit, run):
    async def scenario():
        async with kit.running() as process:
            assert await kit.is_healthy(process)
            os.kill(process.pid, signal.SIGSTOP)
            process.deadlines = replace(process.deadlines, health_s=0.3)
            assert not await kit.is_healthy(process)
            os.kill(process.pid, signal.SIGCONT)

    run(scenario())


def test_a_wrong_credential_is_an_error_of_its_own():
    """A plugin that refuses us was not built for this host: no retry helps."""
    error = grpc.aio.AioRpcError(
        grpc.StatusCode.UNAUTHENTICATED, grpc.aio.Metadata(), grpc.aio.Metadata(), "no"
    )
    assert error_from_status(error, "plugin.x", 1, str).code == "plugin.credential_refused"


def test_a_broken_diagnostic_does_not_hide_the_status():
    trailing = grpc.aio.Metadata((DIAGNOSTIC_KEY, b"\xff\xff\xff"))
    error = grpc.aio.AioRpcError(grpc.StatusCode.UNIMPLEMENTED, grpc.aio.Metadata(), trailing, "no")
    assert error_from_status(error, "plugin.x", 1, str).code == "plugin.unimplemented"
