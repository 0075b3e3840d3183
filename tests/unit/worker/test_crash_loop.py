"""A plugin that crashes at the same place again fails its task with the offset, and no
other task.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from penstock.connector_config.dead_letters import RejectedRowRules
from penstock.connector_config.settings import FlushRules, RetryPolicy
from penstock.model.backoff import RestartPolicy
from penstock.model.connector import CommitMode, Connector, Partition, TaskPlan, TaskState
from penstock.model.errors import DataError, RetriableError
from penstock.model.stream import Checkpoint, PreparedTxn, WriteOpened
from penstock.worker.dead_letters.rejected_rows import RejectedRowHandler
from penstock.worker.task import task as tasks
from penstock.worker.task.supervisor import Assignment
from penstock.worker.task.task import MAX_CRASHES, CrashLoopDetector, Task
from penstock.worker.task.task_offsets import Claim

HERE = [Partition({"file": "/a"}, {"position": 7})]
CRASHED = RetriableError("plugin.crashed", "plugin p died of SIGSEGV. Last lines: boom")


def die(loop, place=HERE, *, error=CRASHED, is_progress=False, is_isolated=False):
    loop.record(error, place, is_progress=is_progress, is_isolated=is_isolated)


def test_the_error_names_the_partition_its_offset_and_the_last_log_lines():
    loop = CrashLoopDetector("orders")
    for _ in range(MAX_CRASHES - 1):
        assert not loop.is_suspected
        die(loop)
    assert loop.is_suspected
    group = ExceptionGroup("two", [RetriableError("plugin.stream_ended", "gone"), CRASHED])
    with pytest.raises(DataError) as caught:
        die(loop, error=group, is_isolated=True)
    found = caught.value.diagnostic
    assert found.code == "plugin.crash_loop"
    assert '{"file":"/a"} at {"position":7}' in found.message
    assert "boom" in found.message
    assert "penstock offsets set orders FILE" in found.fix
    assert not loop.is_suspected


def test_of_many_partitions_only_a_few_are_named():
    loop = CrashLoopDetector("orders")
    many = [Partition({"file": f"/{n}"}) for n in range(9)]
    for _ in range(MAX_CRASHES - 1):
        die(loop, many)
    with pytest.raises(DataError, match="at its beginning; and 4 more"):
        die(loop, many, is_isolated=True)


@pytest.mark.parametrize(
    "between",
    [
        {"is_progress": True},
        {"error": RetriableError("test.away", "away")},
        {"place": [Partition({"file": "/a"}, {"position": 8})]},
        {"place": None},
    ],
)
def test_crashes_with_progress_between_them_are_not_a_loop(between):
    loop = CrashLoopDetector("orders")
    for _ in range(MAX_CRASHES * 2):
        die(loop, is_isolated=True)
        die(loop, **between)


def test_crashes_of_shared_plugins_alone_never_fail_a_task():
    loop = CrashLoopDetector("orders")
    for _ in range(MAX_CRASHES * 2):
        die(loop)
    assert loop.is_suspected
    loop.reset()
    assert not loop.is_suspected


class Store:
    """Source, sink and offsets of a task. The source crashes each time it comes to `deadly`;
    another task crashes shared plugins `shared_deaths` times more. With `waits`, isolated plugins
    have no rows.
    """

    confirms = False

    def __init__(
        self, *, deadly: int, rows: int = 4, shared_deaths: int = 0, waits: bool = False
    ) -> None:
        self.deadly, self.rows, self.shared_deaths = deadly, rows, shared_deaths
        self.plan = TaskPlan("g-0", (Partition({"p": 1}),))
        self.waits = waits
        self.offset, self.lives, self.released = 0, [], 0
        self.at, self.is_isolated, self.done = 0, False, asyncio.Event()

    async def spec(self, *, isolated: bool) -> SimpleNamespace:
        self.lives.append(isolated)
        self.is_isolated = isolated
        return SimpleNamespace(
            plan=self.plan,
            epoch=1,
            commit_mode=CommitMode.SINK,
            flush_rules=FlushRules(0.0),
            stall_timeout_s=60.0,
            schema_announcer=None,
            chain=SimpleNamespace(transforms=()),
            engine=None,
            offsets=self,
            writer=self,
            open_reader=self.reader,
            keep_alive=nullcontext(),
            make_rejected_row_handler=lambda _: RejectedRowHandler(RejectedRowRules()),
            retries=RetryPolicy(),
            plugin_metrics=tuple,
            plugin_version="",
            wait_for_change=asyncio.Event().wait,
            is_isolated=isolated,
            release=self.end_own,
            watch_attempts=lambda _: nullcontext(),
        )

    def reader(self, plan):
        self.at = plan.partitions[0].offset["n"] if plan.partitions[0].offset else 0
        self.done.set()
        return self

    def end_own(self):
        self.released += 1

    async def claim(self):
        return Claim(None, recover=False)

    async def get(self, ids):
        return {ids[0]: {"n": self.offset}} if self.offset else {}

    async def open(self, *_):
        return WriteOpened(CommitMode.SINK)

    async def prepare(self, txn_id, slots, token):
        return PreparedTxn(txn_id, 1)

    async def commit(self, *args):
        if len(args) > 1:
            self.offset = args[0]['{"p":1}']["n"]
            self.done.set()

    async def committed(self, checkpoint_id):
        pass

    async def release(self, seq):
        pass

    async def close(self, *_):
        pass

    def __aiter__(self):
        return self

    async def __anext__(self):
        await self.done.wait()
        if self.at == self.deadly or (self.shared_deaths and not self.is_isolated):
            self.shared_deaths -= self.at != self.deadly
            raise RetriableError("plugin.crashed", f"died at row {self.at}")
        if self.is_isolated and self.waits:
            await asyncio.Event().wait()
        if self.at == self.rows:
            raise StopAsyncIteration
        self.at += 1
        self.done.clear()
        return Checkpoint(self.at, {'{"p":1}': {"n": self.at}}, 0, 0)


def lived(store):
    """Run a task until it ends."""
    assigned = Assignment(Connector("orders", {}, generation="g"), store.plan, 1)
    policy = RestartPolicy(first_delay_s=0.001, max_delay_s=0.001, healthy_after_s=3600.0)
    task = Task(assigned, store.spec, policy, lambda: None)
    asyncio.run(asyncio.wait_for(task.run(), 60))
    return task.status()


def test_a_plugin_that_crashes_at_one_row_fails_its_task_with_the_offset_of_the_row():
    store = Store(deadly=2)
    status = lived(store)
    assert status.state is TaskState.FAILED
    assert status.diagnostic.code == "plugin.crash_loop"
    assert '{"p":1} at {"n":2}' in status.diagnostic.message
    assert store.offset == 2
    assert store.lives == [False, False, False, True]
    assert store.released == len(store.lives)


def test_a_task_whose_plugins_another_task_crashes_continues_with_its_own():
    store = Store(deadly=-1, shared_deaths=99)
    assert lived(store).state is TaskState.COMPLETED
    assert store.offset == store.rows
    assert store.lives == [False, False, True]


def test_an_isolated_task_returns_to_shared_plugins_after_a_while(monkeypatch):
    monkeypatch.setattr(tasks, "ISOLATION_S", 0.01)
    store = Store(deadly=-1, shared_deaths=2, waits=True)
    assert lived(store).state is TaskState.COMPLETED
    assert store.lives == [False, False, True, False]
