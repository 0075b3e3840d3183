"""Topics of rows are told once a minute, and never in the way of rows."""

from __future__ import annotations

import asyncio

import pytest

from penstock.model.connector import Connector, ConnectorKind
from penstock.model.errors import RetriableError
from penstock.worker.runtime.topic_tracking import AGAIN, AT_ONCE, Noting


class Notes:
    """Keeps what it is told, when it is there."""

    def __init__(self):
        self.told, self.away = [], False

    async def note_topics(self, generation, topics):
        if self.away:
            raise RetriableError("rpc.unavailable", "away")
        self.told.append((generation, tuple(topics)))


@pytest.fixture
def notes():
    return Notes()


async def told(noting):
    running = asyncio.create_task(noting.run())
    for _ in range(10):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_a_topic_is_told_once_a_minute(notes):
    now = [0.0]

    async def run():
        noting = Noting(notes, lambda: now[0])
        for now[0] in (0.0, 1.0, AGAIN - 1):
            noting.moved("g", "t")
        await told(noting)
        assert notes.told == [("g", ("t",))]
        now[0] = AGAIN
        noting.moved("g", "t")
        await told(noting)
        assert len(notes.told) == 2

    asyncio.run(run())


def test_what_could_not_be_told_is_told_with_the_next_rows(notes):
    async def run():
        noting = Noting(notes)
        notes.away = True
        noting.moved("g", "t")
        await told(noting)
        notes.away = False
        noting.moved("g", "t")
        await told(noting)
        assert notes.told == [("g", ("t",))]

    asyncio.run(run())


def test_many_are_told_in_parts(notes):
    async def run():
        noting = Noting(notes)
        for number in range(AT_ONCE + 1):
            noting.moved("g", f"t{number}")
        await told(noting)
        assert [len(topics) for _, topics in notes.told] == [AT_ONCE, 1]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("kind", "topics"),
    [
        (ConnectorKind.SOURCE, {"after"}),
        (ConnectorKind.SINK, {"before"}),
        (ConnectorKind.MIRROR, {"before", "after"}),
        (ConnectorKind.PIPELINE, set()),
    ],
)
def test_whose_topics_they_are(notes, kind, topics):
    async def run():
        noting = Noting(notes)
        noting.telling(Connector("c", {}, kind, generation="g"))("before", "after")
        await told(noting)
        assert {topic for _, told in notes.told for topic in told} == topics

    asyncio.run(run())
