"""The status of a connector is one message, however many tasks fail with long diagnostics."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.model.connector import ConnectorKind, TaskState, TaskStatus
from penstock.model.errors import Diagnostic, ErrorClass, RetriableError
from penstock.model.status import ConnectorStatus, RunState, RunStatus
from penstock.rpc.channels import MAX_MESSAGE_BYTES
from penstock.wire.scheduler import connector_status_from_proto, connector_status_to_proto

G = "g" * 32
FIX = "Check that the database runs and accepts connections."
FAILED = {TaskState.FAILED: RunState.FAILED, TaskState.RESTARTING: RunState.RESTARTING}


def away(length: int, filler: str = "x") -> Diagnostic:
    return RetriableError("sink.unavailable", filler * length, fix=FIX).diagnostic


def run(number: int, said: Diagnostic | None, state: TaskState = TaskState.RESTARTING) -> RunStatus:
    task = TaskStatus(f"{G}-{number}", "orders", 10**6, state, said, 10**9, 10**9, 10**12, 10**6)
    shown = FAILED.get(state, RunState.RUNNING)
    return RunStatus(task.task_id, shown, "worker-1-abcdef", 10**6, said, 3, task)


def status(*tasks: RunStatus) -> ConnectorStatus:
    return ConnectorStatus("orders", G, ConnectorKind.SINK, RunState.RUNNING, "w", None, tasks)


@pytest.mark.parametrize(
    ("tasks", "length", "filler"),
    [(5_100, 1_500, "x"), (2_000, 50_000, "\u6c34"), (30_000, 50, "x")],
)
def test_a_status_is_one_message(tasks, length, filler):
    said = away(length, filler)
    message = connector_status_to_proto(status(*(run(n, said) for n in range(tasks))))
    assert message.ByteSize() < MAX_MESSAGE_BYTES
    found = connector_status_from_proto(message)
    assert len(found.tasks) == tasks
    assert {one.diagnostic.code for one in found.tasks} == {"sink.unavailable"}
    assert {one.diagnostic.error_class for one in found.tasks} == {ErrorClass.RETRIABLE}
    assert found.tasks[0].diagnostic.fix == FIX
    assert found.tasks[0].diagnostic.message.startswith(filler * min(length, 1_999))


@pytest.mark.parametrize("state", [TaskState.FAILED, TaskState.RESTARTING])
def test_a_diagnostic_is_sent_once_and_read_twice(state):
    said = away(1_000)
    message = connector_status_to_proto(status(run(0, said, state)))
    assert message.ByteSize() < 1_500
    (found,) = connector_status_from_proto(message).tasks
    assert found == run(0, said, state)


def test_a_different_diagnostic_of_a_worker_is_sent_as_well():
    one = run(0, away(5))
    one = replace(one, diagnostic=away(7))
    assert connector_status_from_proto(connector_status_to_proto(status(one))).tasks == (one,)
    well = replace(run(1, None, TaskState.RUNNING), diagnostic=away(7))
    assert connector_status_from_proto(connector_status_to_proto(status(well))).tasks == (well,)
