"""Topics of rows are reported once a minute, and never delay rows."""

from __future__ import annotations

import asyncio

import pytest

from penstock.model.connector import Connector, ConnectorKind
from penstock.model.errors import RetriableError
from penstock.worker.runtime.topic_tracking import (
    MAX_TOPICS_PER_CALL,
    REFRESH_AFTER_S,
    TopicTracker,
)


class Notes:
    """Keeps what is reported, unless it is `away`."""

    def __init__(self):
        self.told, self.away = [], False

    async def record_topics(self, generation, topics):
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


def test_a_topic_is_reported_once_a_minute(notes):
    now = [0.0]

    async def run():
        noting = TopicTracker(notes, lambda: now[0])
        for now[0] in (0.0, 1.0, REFRESH_AFTER_S - 1):
            noting.record("g", "t")
        await told(noting)
        assert notes.told == [("g", ("t",))]
        now[0] = REFRESH_AFTER_S
        noting.record("g", "t")
        await told(noting)
        assert len(notes.told) == 2

    asyncio.run(run())


def test_a_failed_report_is_repeated_with_the_next_rows(notes):
    async def run():
        noting = TopicTracker(notes)
        notes.away = True
        noting.record("g", "t")
        await told(noting)
        notes.away = False
        noting.record("g", "t")
        await told(noting)
        assert notes.told == [("g", ("t",))]

    asyncio.run(run())


def test_many_topics_are_reported_in_parts(notes):
    async def run():
        noting = TopicTracker(notes)
        for number in range(MAX_TOPICS_PER_CALL + 1):
            noting.record("g", f"t{number}")
        await told(noting)
        assert [len(topics) for _, topics in notes.told] == [MAX_TOPICS_PER_CALL, 1]

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
def test_topics_are_reported_by_the_kind_of_the_connector(notes, kind, topics):
    async def run():
        noting = TopicTracker(notes)
        noting.recorder_for(Connector("c", {}, kind, generation="g"))("before", "after")
        await told(noting)
        assert {topic for _, told in notes.told for topic in told} == topics

    asyncio.run(run())
