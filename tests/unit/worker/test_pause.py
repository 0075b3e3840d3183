"""A task is PAUSED when none of its rows move any more, not when the pause is requested. It ends
with an error when its running commits are through.
"""

import asyncio
from contextlib import nullcontext, suppress
from types import SimpleNamespace

import pytest

from penstock.connector_config.dead_letters import RejectedRowRules
from penstock.connector_config.settings import FlushRules, RetryPolicy
from penstock.model.connector import CommitMode, Partition, TaskPlan, TaskState
from penstock.model.errors import RetriableError
from penstock.model.stream import Checkpoint, PreparedTxn, WriteOpened
from penstock.worker.dead_letters.rejected_rows import RejectedRowHandler
from penstock.worker.task import task_run
from penstock.worker.task.live_rows import Inspections
from penstock.worker.task.metrics import TaskCounters
from penstock.worker.task.task_offsets import Claim
from penstock.worker.task.task_run import TaskRun


class Streams:
    """Source, sink and offset service of a task. Preparing waits for `gate`."""

    confirms = False

    def __init__(self) -> None:
        self.events: asyncio.Queue[Checkpoint | Exception] = asyncio.Queue()
        self.asked, self.gate = asyncio.Event(), asyncio.Event()
        self.stored: list[int] = []

    async def claim(self):
        return Claim(None, recover=False)

    async def get(self, ids):
        return {}

    async def open(self, *_):
        return WriteOpened(CommitMode.SINK)

    async def prepare(self, txn_id, slots, token):
        self.asked.set()
        await self.gate.wait()
        return PreparedTxn(txn_id, 1)

    async def commit(self, *args):
        if len(args) > 1:
            self.stored.append(args[2])

    async def committed(self, checkpoint_id):
        pass

    async def release(self, seq):
        pass

    async def close(self, *_):
        pass

    def __aiter__(self):
        return self

    async def __anext__(self):
        event = await self.events.get()
        if isinstance(event, Exception):
            raise event
        return event


def test_an_error_of_the_source_does_not_cut_a_commit_off():
    """The sink may have no transactions: without its offset, the rows would be written again."""
    ends = Streams()

    async def test():
        running = asyncio.create_task(run_of(ends, lambda _: None).run())
        async with asyncio.timeout(60):
            ends.events.put_nowait(Checkpoint(1, {"p": {"n": 1}}, 0, 0))
            await ends.asked.wait()
            ends.events.put_nowait(RetriableError("source.lost", "gone"))
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(running), 0.1)
            assert not running.done()
            ends.gate.set()
            with pytest.raises(ExceptionGroup) as caught:
                await running
        assert caught.group_contains(RetriableError, match="gone")
        assert ends.stored == [1]

    asyncio.run(test())


def test_a_sink_that_hangs_delays_the_end_of_a_run_for_a_while_only(monkeypatch):
    monkeypatch.setattr(task_run, "COMMIT_GRACE_S", 0.05)
    ends = Streams()

    async def test():
        running = asyncio.create_task(run_of(ends, lambda _: None).run())
        async with asyncio.timeout(60):
            ends.events.put_nowait(Checkpoint(1, {"p": {"n": 1}}, 0, 0))
            await ends.asked.wait()
            ends.events.put_nowait(RetriableError("source.lost", "gone"))
            with pytest.raises(ExceptionGroup):
                await running
        assert ends.stored == []

    asyncio.run(test())


def test_a_task_is_paused_once_everything_in_flight_is_committed():
    asyncio.run(paused_in_the_middle_of_a_commit())


def run_of(ends: Streams, on_state) -> TaskRun:
    spec = SimpleNamespace(
        plan=TaskPlan("g-0", (Partition({"p": 1}),)),
        epoch=1,
        commit_mode=CommitMode.SINK,
        flush_rules=FlushRules(0.0),
        stall_timeout_s=60.0,
        schema_announcer=None,
        chain=None,
        engine=None,
        offsets=ends,
        writer=ends,
        open_reader=lambda _: ends,
        keep_alive=nullcontext(),
        make_rejected_row_handler=lambda _: RejectedRowHandler(RejectedRowRules()),
        retries=RetryPolicy(),
        plugin_metrics=tuple,
    )
    return TaskRun(spec, TaskCounters(), Inspections(), on_state)


async def paused_in_the_middle_of_a_commit() -> None:
    ends, states = Streams(), asyncio.Queue()
    run = run_of(ends, states.put_nowait)
    running = asyncio.create_task(run.run())
    async with asyncio.timeout(60):
        assert await states.get() is TaskState.RUNNING
        ends.events.put_nowait(Checkpoint(1, {"p": {"n": 1}}, 0, 0))
        await ends.asked.wait()
        run.pause(paused=True)
        resting = asyncio.create_task(states.get())
        with suppress(TimeoutError):  # the pump and the drive have all the turns that they want
            await asyncio.wait_for(asyncio.shield(resting), 0.1)
        assert not resting.done(), "it rests while a commit is on its way"
        ends.gate.set()
        assert await resting is TaskState.PAUSED
        assert ends.stored == [1]
        ends.events.put_nowait(Checkpoint(2, {"p": {"n": 2}}, 0, 0))
        run.pause(paused=False)
        assert await states.get() is TaskState.RUNNING
        run.stop()
        await running
