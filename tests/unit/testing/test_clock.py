"""Time moves when told, and only then."""

import asyncio

import pytest

from penstock_kit.testing.clock import FakeClock


def test_time_stands_until_it_is_moved():
    clock = FakeClock(5)
    clock.advance(2.5)
    assert clock() == 7.5
    with pytest.raises(ValueError, match="go back"):
        clock.advance(-1)


def test_sleepers_wake_in_the_order_of_their_time():
    async def story():
        clock, woke = FakeClock(), []

        async def sleeper(seconds):
            await clock.sleep(seconds)
            woke.append(seconds)

        tasks = [asyncio.create_task(sleeper(s)) for s in (3, 1, 2, 0)]
        while clock.sleepers < 3:
            await clock.sleep(0)
        clock.advance(2)
        await asyncio.gather(*tasks[1:])
        assert (woke, clock.sleepers) == ([0, 1, 2], 1)
        tasks[0].cancel()
        await asyncio.gather(tasks[0], return_exceptions=True)
        clock.advance(9)
        assert (woke, clock.sleepers) == ([0, 1, 2], 0)

    asyncio.run(story())
