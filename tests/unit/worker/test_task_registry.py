"""The tasks of a worker become equal to an assignment, and are never reported as gone too early."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import pytest

from penstock.model.connector import (
    Connector,
    ConnectorKind,
    Partition,
    TargetState,
    TaskPlan,
    TaskState,
    TaskStatus,
)
from penstock.model.errors import ConfigError
from penstock.worker.runtime import task_registry as module
from penstock.worker.runtime.task_registry import TaskRegistry
from penstock.worker.task.supervisor import Assignment, KeptTask
from support.waiting import until


class Task:
    """A task that runs until it is stopped, and ends when a test lets it."""

    def __init__(self, assigned: Assignment, *, stubborn: bool) -> None:
        self.task_id, self.epoch = assigned.plan.task_id, assigned.epoch
        self.paused = assigned.is_paused
        self.stopped, self.go, self.cut_off = asyncio.Event(), asyncio.Event(), False
        if not stubborn:
            self.go.set()

    async def run(self) -> None:
        try:
            await self.stopped.wait()
            await self.go.wait()
        except asyncio.CancelledError:
            self.cut_off = True
            raise

    def stop(self) -> None:
        self.stopped.set()

    def update(self, wanted: Assignment) -> None:
        self.paused = wanted.is_paused

    def status(self) -> TaskStatus:
        return TaskStatus(self.task_id, "orders", self.epoch, TaskState.RUNNING)


class Made:
    """The tasks that were created, newest last. `stubborn` ones end only when a test lets them."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.stubborn = False
        self.refuse: Exception | None = None
        self.task_registry = TaskRegistry(self)

    def __call__(self, assigned: Assignment) -> Task:
        if self.refuse is not None:
            raise self.refuse
        self.tasks.append(Task(assigned, stubborn=self.stubborn))
        return self.tasks[-1]

    def running(self) -> dict[str, int]:
        """The tasks that run, with their epochs."""
        return {
            status.task_id: status.epoch
            for status in self.task_registry.statuses()
            if status.state is TaskState.RUNNING
        }


def assigned(id_: str, epoch: int, state: TargetState = TargetState.RUNNING) -> Assignment:
    connector = Connector("orders", {}, ConnectorKind.PIPELINE, state, generation="g")
    return Assignment(connector, TaskPlan(id_, (Partition({"n": id_}),)), epoch)


def holding(test: Callable[[Made], Awaitable[None]]) -> None:
    async def main() -> None:
        made = Made()
        async with asyncio.timeout(60):
            try:
                await test(made)
            finally:
                for task in made.tasks:
                    task.go.set()
                await made.task_registry.release()

    asyncio.run(main())


def test_an_assignment_starts_its_tasks_and_releases_all_others():
    async def test(made):
        made.task_registry.assign([assigned("a", 1), assigned("b", 2)], {})
        assert [s.state for s in made.task_registry.statuses()] == [TaskState.STARTING] * 2
        await until(lambda: made.running() == {"a": 1, "b": 2}, "both run")
        made.task_registry.assign([assigned("c", 3)], {"b": KeptTask(2, TargetState.RUNNING)})
        await until(lambda: made.running() == {"b": 2, "c": 3}, "a is gone, c runs")
        assert [task.task_id for task in made.tasks] == ["a", "b", "c"]  # b went on

    holding(test)


def test_a_stopping_task_is_registered_until_it_has_stopped():
    """Invariant 11: another worker starts a task as soon as no report names it."""

    async def test(made):
        made.stubborn = True
        made.task_registry.assign([assigned("a", 1)], {})
        await until(lambda: made.running() == {"a": 1}, "it runs")
        made.task_registry.assign([], {})
        await until(made.tasks[0].stopped.is_set, "it was told to stop")
        assert len(made.task_registry) == 1
        assert [s.task_id for s in made.task_registry.statuses()] == ["a"]
        made.tasks[0].go.set()
        await until(lambda: not len(made.task_registry), "it is let go")

    holding(test)


def test_a_newer_epoch_starts_only_when_the_older_one_has_ended():
    async def test(made):
        made.stubborn = True
        made.task_registry.assign([assigned("a", 1)], {})
        await until(lambda: made.running() == {"a": 1}, "it runs")
        made.task_registry.assign([assigned("a", 2)], {})
        await until(made.tasks[0].stopped.is_set, "the older one was told to stop")
        (status,) = made.task_registry.statuses()
        assert (status.epoch, status.state) == (2, TaskState.STARTING)
        assert len(made.tasks) == 1
        made.tasks[0].go.set()
        await until(lambda: made.running() == {"a": 2}, "the newer one runs")

    holding(test)


def test_an_older_epoch_is_ignored_and_the_same_one_changes_nothing():
    """Invariant 4."""

    async def test(made):
        made.task_registry.assign([assigned("a", 5)], {})
        await until(lambda: made.running() == {"a": 5}, "it runs")
        made.task_registry.assign([assigned("a", 4)], {})
        made.task_registry.assign([assigned("a", 5)], {})
        made.task_registry.assign([assigned("a", 5), assigned("b", 6)], {})
        await until(lambda: "b" in made.running(), "what came after was taken in")
        assert made.running() == {"a": 5, "b": 6}
        assert len(made.tasks) == 2
        made.task_registry.assign(
            [], {"a": KeptTask(4, TargetState.PAUSED), "b": KeptTask(6, TargetState.PAUSED)}
        )
        await until(lambda: made.tasks[1].paused, "b is paused")
        assert not made.tasks[0].paused  # that was said of an epoch that is over

    holding(test)


def test_a_kept_task_follows_its_target_state():
    async def test(made):
        made.task_registry.assign([assigned("a", 1, TargetState.PAUSED)], {})
        await until(lambda: made.running() == {"a": 1}, "it runs")
        assert made.tasks[0].paused
        made.task_registry.assign([], {"a": KeptTask(1, TargetState.RUNNING)})
        await until(lambda: not made.tasks[0].paused, "it moves rows again")
        assert len(made.tasks) == 1

    holding(test)


def test_a_task_that_is_assigned_again_while_it_stops_is_created_again():
    async def test(made):
        made.stubborn = True
        made.task_registry.assign([assigned("a", 1)], {})
        await until(lambda: made.running() == {"a": 1}, "it runs")
        made.task_registry.assign([], {})
        await until(made.tasks[0].stopped.is_set, "it was told to stop")
        made.task_registry.assign([assigned("a", 3)], {})
        made.tasks[0].go.set()
        await until(lambda: made.running() == {"a": 3}, "it runs at its new epoch")
        assert [task.epoch for task in made.tasks] == [1, 3]

    holding(test)


def test_a_task_that_cannot_be_created_fails_alone_and_stays_registered():
    async def test(made):
        made.refuse = ConfigError("config.key", "no such key")
        made.task_registry.assign([assigned("a", 1)], {})
        await until(lambda: made.task_registry.statuses()[0].state is TaskState.FAILED, "it fails")
        (status,) = made.task_registry.statuses()
        assert status.diagnostic.code == "config.key"
        assert (status.connector, status.epoch) == ("orders", 1)
        made.refuse = None
        made.task_registry.assign([assigned("b", 2)], {"a": KeptTask(1, TargetState.RUNNING)})
        await until(lambda: made.running() == {"b": 2}, "another task runs")
        assert len(made.task_registry) == 2  # FAILED is held too
        made.task_registry.assign([assigned("a", 3)], {"b": KeptTask(2, TargetState.RUNNING)})
        await until(lambda: made.running() == {"a": 3, "b": 2}, "a new epoch is tried")

    holding(test)


def test_an_unexpected_error_is_in_the_status_of_its_task_alone():
    """Invariant 8."""

    async def test(made):
        made.refuse = RuntimeError("oops")
        made.task_registry.assign([assigned("a", 1)], {})
        await until(lambda: made.task_registry.statuses()[0].state is TaskState.FAILED, "it fails")
        assert made.task_registry.statuses()[0].diagnostic.code == "task.unexpected"

    holding(test)


def test_a_task_that_does_not_stop_in_time_is_cancelled(monkeypatch):
    async def test(made):
        monkeypatch.setattr(module, "STOP_DEADLINE_S", 0.05)
        made.stubborn = True
        made.task_registry.assign([assigned("a", 1)], {})
        await until(lambda: made.running() == {"a": 1}, "it runs")
        made.task_registry.assign([], {})
        await until(lambda: not len(made.task_registry), "it is let go")
        assert made.tasks[0].cut_off

    holding(test)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_release_returns_when_no_task_is_left(at_once):
    """Immediately, because other workers may start them; or after they have stopped by
    themselves.
    """

    async def test(made):
        made.stubborn = at_once
        made.task_registry.assign([assigned("a", 1), assigned("b", 1)], {})
        await until(lambda: len(made.running()) == 2, "they run")
        await made.task_registry.release(immediately=at_once)
        assert not len(made.task_registry)
        assert [task.cut_off for task in made.tasks] == [at_once] * 2

    holding(test)


def test_a_watch_yields_at_changes_and_at_an_interval():
    async def test(made):
        async with aclosing(made.task_registry.watch(0)) as changes:
            assert await anext(changes) == []
            made.task_registry.assign([assigned("a", 1)], {})
            assert [s.task_id for s in await anext(changes)] == ["a"]
        async with aclosing(made.task_registry.watch(0.01)) as numbers:
            for _ in range(3):
                assert [s.task_id for s in await anext(numbers)] == ["a"]

    holding(test)


def test_changes_are_told_also_those_that_came_while_the_last_one_was_taken():
    async def test(made):
        async with aclosing(made.task_registry.changes()) as changes:
            waiting = asyncio.ensure_future(anext(changes))
            await asyncio.sleep(0)
            assert not waiting.done()
            made.task_registry.assign([assigned("a", 1)], {})
            await waiting
            made.task_registry.assign([assigned("a", 1), assigned("b", 1)], {})
            await anext(changes)

    holding(test)


def test_a_registry_that_releases_too_early_is_caught_by_these_tests(monkeypatch):
    """The twin: a stop that does not wait reports a task as gone while it runs."""

    async def at_once(self, id_, hold):
        hold.task.stop()

    async def test(made):
        made.stubborn = True
        made.task_registry.assign([assigned("a", 1)], {})
        await until(lambda: made.running() == {"a": 1}, "it runs")
        monkeypatch.setattr(TaskRegistry, "_stop", at_once)
        running = made.task_registry._entries["a"].running
        made.task_registry.assign([], {})
        await until(lambda: not len(made.task_registry), "it is said to be gone")
        assert not running.done()
        made.tasks[0].go.set()
        await running

    holding(test)
