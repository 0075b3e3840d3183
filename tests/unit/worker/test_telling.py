"""A source is told again what it waits for, until it says that it knows."""

import asyncio

import pytest

from penstock.model import faults
from penstock.model.errors import InternalError
from penstock.worker.task.source_acks import Telling


class Source:
    """Takes what it is told, after so many times that it does not hear it."""

    def __init__(self, deaf: int = 0, *, confirms: bool = True) -> None:
        self.confirms, self.deaf, self.told = confirms, deaf, []
        self.telling = Telling(self, again=0.01, give_up=0.2)

    async def committed(self, checkpoint_id: int) -> None:
        self.told.append(checkpoint_id)
        if len(self.told) > self.deaf:
            self.telling.confirmed(checkpoint_id)


@pytest.fixture(autouse=True)
def disarmed():
    yield
    faults.load({})


def told(source: Source, checkpoint: int = 3, times: int = 1, awaits: int = 3) -> list[int]:
    """What a source was told after a commit, when it was told so often, or for good."""

    async def main() -> None:
        source.telling.awaits(awaits)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(source.telling.run())
            await source.telling.tell(checkpoint)
            async with asyncio.timeout(60):
                while len(source.told) < times:
                    await asyncio.sleep(0)
            running.cancel()

    asyncio.run(main())
    return source.told


def test_a_source_that_confirms_is_told_once():
    assert told(Source()) == [3]


def test_a_source_that_was_not_told_is_told_again():
    assert told(Source(deaf=2), times=3) == [3, 3, 3]


def test_a_message_that_is_lost_on_its_way_out_is_sent_again():
    faults.load({faults.VARIABLE: "worker.drop_ack=break@1"})
    assert told(Source()) == [3]


def test_a_source_that_never_confirms_fails_its_task():
    with pytest.raises(ExceptionGroup) as caught:
        told(Source(deaf=10**6), times=10**6)
    (error,) = caught.value.exceptions
    assert isinstance(error, InternalError)
    assert error.code == "source.deaf"


def test_a_source_that_waits_for_nothing_is_told_once():
    assert told(Source(deaf=5), awaits=0) == [3]
    assert told(Source(deaf=5, confirms=False)) == [3]
