"""An acknowledgement that a source waits for is repeated until it is confirmed."""

import asyncio

import pytest

from penstock.model import faults
from penstock.model.errors import InternalError
from penstock.worker.task.source_acks import SourceAcks


class Source:
    """Records its acknowledgements. It confirms none of the first `deaf` ones."""

    def __init__(self, deaf: int = 0, *, confirms: bool = True, timeout_s: float = 60) -> None:
        self.confirms, self.deaf, self.told = confirms, deaf, []
        self.acks = SourceAcks(self, resend_after_s=0.01, timeout_s=timeout_s)

    async def committed(self, checkpoint_id: int) -> None:
        self.told.append(checkpoint_id)
        if len(self.told) > self.deaf:
            self.acks.confirm(checkpoint_id)


@pytest.fixture(autouse=True)
def disarmed():
    yield
    faults.load({})


def told(source: Source, checkpoint: int = 3, times: int = 1, awaits: int = 3) -> list[int]:
    """Return the acknowledgements after a commit, once there were `times` of them."""

    async def main() -> None:
        source.acks.expect(awaits)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(source.acks.run())
            await source.acks.send(checkpoint)
            async with asyncio.timeout(60):
                while len(source.told) < times:
                    await asyncio.sleep(0)
            running.cancel()

    asyncio.run(main())
    return source.told


def test_a_source_that_confirms_is_acknowledged_once():
    assert told(Source()) == [3]


def test_an_unconfirmed_acknowledgement_is_repeated():
    assert told(Source(deaf=2), times=3) == [3, 3, 3]


def test_a_lost_acknowledgement_is_sent_again():
    faults.load({faults.VARIABLE: "worker.drop_ack=break@1"})
    assert told(Source()) == [3]


def test_a_source_that_never_confirms_fails_its_task():
    with pytest.raises(ExceptionGroup) as caught:
        told(Source(deaf=10**6, timeout_s=0.2), times=10**6)
    (error,) = caught.value.exceptions
    assert isinstance(error, InternalError)
    assert error.code == "source.deaf"


def test_a_source_that_does_not_wait_is_acknowledged_once():
    assert told(Source(deaf=5), awaits=0) == [3]
    assert told(Source(deaf=5, confirms=False)) == [3]
