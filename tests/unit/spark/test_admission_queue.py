"""The queue before the engine: bounded, fair, and nobody's place is lost."""

import asyncio

import pytest

from penstock.spark.admission_queue import AdmissionQueue


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def visit(
    queue: AdmissionQueue, name: str, lag: float, log: list[str], leave: asyncio.Event
) -> None:
    async with queue.admit(lag, name):
        log.append(name)
        await leave.wait()


def test_no_more_are_in_than_the_gate_is_wide():
    async def run():
        queue, log, leave = AdmissionQueue(2), [], asyncio.Event()
        visits = [asyncio.ensure_future(visit(queue, str(n), 0, log, leave)) for n in range(5)]
        await settle()
        assert (log, queue.waiting) == (["0", "1"], 3)
        leave.set()
        await asyncio.gather(*visits)
        assert queue.waiting == 0

    asyncio.run(run())


def test_the_largest_lag_goes_first_and_equals_in_order():
    async def run():
        queue, log, leave = AdmissionQueue(1), [], asyncio.Event()
        lags = {"in": 0.0, "a": 1.0, "b": 9.0, "c": 1.0, "d": 5.0}
        visits = []
        for name, lag in lags.items():
            visits.append(asyncio.ensure_future(visit(queue, name, lag, log, leave)))
            await settle()
        leave.set()
        await asyncio.gather(*visits)
        assert log == ["in", "b", "d", "a", "c"]

    asyncio.run(run())


def test_who_waits_is_not_overtaken_for_ever_by_newcomers_with_more_lag():
    """Lag grows while one waits: a lag of 0.2 s that came 0.3 s later is the smaller one."""

    async def run():
        queue, log, leave = AdmissionQueue(1), [], asyncio.Event()
        visits = [asyncio.ensure_future(visit(queue, "in", 0, log, leave))]
        await settle()
        visits.append(asyncio.ensure_future(visit(queue, "old", 0.0, log, leave)))
        await settle()
        now = asyncio.get_running_loop().time
        asyncio.get_running_loop().time = lambda: now() + 0.3
        visits.append(asyncio.ensure_future(visit(queue, "new", 0.2, log, leave)))
        await settle()
        leave.set()
        await asyncio.gather(*visits)
        assert log == ["in", "old", "new"]

    asyncio.run(run())


@pytest.mark.parametrize("how", ["cancel", "expel", "cancel when given"])
def test_a_place_that_nobody_takes_goes_to_the_next(how):
    async def run():
        queue, log, leave = AdmissionQueue(1), [], asyncio.Event()
        names = ("in", "gone", "next")
        visits = [asyncio.ensure_future(visit(queue, n, 0, log, leave)) for n in names]
        await settle()
        if how == "expel":
            queue.fail_waiting("gone", RuntimeError("expelled"))
        elif how == "cancel":
            visits[1].cancel()
        leave.set()
        if how == "cancel when given":
            await asyncio.sleep(0)  # the place is given in this turn of the loop
            visits[1].cancel()
        async with asyncio.timeout(60):
            ended = await asyncio.gather(*visits, return_exceptions=True)
        assert log[-1] == "next"
        assert ended[2] is None
        assert queue._free == 1
        assert how != "expel" or str(ended[1]) == "expelled"

    asyncio.run(run())


def test_expelling_touches_nobody_else():
    async def run():
        queue, log, leave = AdmissionQueue(1), [], asyncio.Event()
        visits = [asyncio.ensure_future(visit(queue, n, 0, log, leave)) for n in ("in", "a", "b")]
        await settle()
        queue.fail_waiting("in", RuntimeError("is in already"))
        queue.fail_waiting("a", RuntimeError("expelled"))
        leave.set()
        ended = await asyncio.gather(*visits, return_exceptions=True)
        assert log == ["in", "b"]
        assert isinstance(ended[1], RuntimeError)

    asyncio.run(run())


def test_a_place_that_is_taken_away_is_not_given_again_until_it_is_back():
    async def run():
        queue, log, leave = AdmissionQueue(2), [], [asyncio.Event() for _ in range(4)]
        visits = [asyncio.ensure_future(visit(queue, str(n), 0, log, leave[n])) for n in range(4)]
        await settle()
        queue.change_capacity(-1)
        leave[0].set()
        await settle()
        assert log == ["0", "1"]
        leave[1].set()
        await settle()
        assert log == ["0", "1", "2"]
        queue.change_capacity(1)
        await settle()
        assert log == ["0", "1", "2", "3"]
        for event in leave:
            event.set()
        await asyncio.gather(*visits)

    asyncio.run(run())
