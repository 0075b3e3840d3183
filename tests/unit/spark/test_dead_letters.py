"""Letters of rows that failed, written by real jobs: read again, picked, put beside the others."""

import asyncio
import json

import pytest

from penstock.connector_config.settings import RetryPolicy
from penstock.model.dead_letter import DEAD_LETTER_SCHEMA, RowFailure, Stage
from penstock.model.errors import Diagnostic, ErrorClass
from penstock.model.stream import BadRow, BatchReady, StreamSchema, TopicPosition
from penstock.worker.dead_letters.dead_letter_writer import DeadLetterOrigin, DeadLetterWriter
from penstock.worker.dead_letters.rejected_rows import SlotFailures
from tests.unit.spark.tiny_plugin import SCHEMA, TinyPlugin

WHY = RowFailure(Stage.WRITE, Diagnostic("sink.too_long", "too long", ErrorClass.DATA))


@pytest.fixture
def place(tmp_path):
    """Where letters go."""
    place = TinyPlugin(tmp_path, DEAD_LETTER_SCHEMA, "letters")
    yield place
    place.stop()


class Streams:
    """Says where rows are read again, and where letters go."""

    def __init__(self, plugin, place):
        self.plugin, self.place = plugin, place
        self.staged = {}

    def ticket(self, seqs, schema_id):
        return self.plugin.ticket("t", [list(seqs)]).slots[0].read

    def dead_letter_ticket(self, txn_id, slot):
        place = self.place.ticket("t-letters", [[]], txn_id=txn_id).slots[0].write
        return {**place, "slot": slot}

    def count_staged(self, txn_id):
        return 0

    def stage(self, txn_id, slots):
        self.staged[txn_id] = slots


def test_the_rows_that_failed_are_the_ones_in_the_letters(loop, engine, plugin, place):
    ends = Streams(plugin, place)
    posting = DeadLetterWriter(
        DeadLetterOrigin("shop", "t", 1, 20), engine, ends, ends, RetryPolicy(), max_texts=2
    )
    stream = StreamSchema(1, "orders", SCHEMA)
    batches = [
        BatchReady(seq, 1, "p", 1000, 10_000, TopicPosition(seq, 10_000 * seq))
        for seq in (1, 2, 3, 4)
    ]
    parts = [
        SlotFailures(stream, batches[:2], 6, [(0, WHY), (1999, WHY)]),
        SlotFailures(stream, batches[2:], 7, [(1500, WHY)]),
    ]
    unread = [BadRow("p9", b"\xff", WHY.reason, "orders", {"line": 3})]
    texts = loop.run_until_complete(posting.send(3, parts, unread, 0.0))
    found = []
    for slot in ends.staged[3]:
        for batch in place.put[3, slot.slot, slot.attempt]:
            found += batch.to_pylist()
    assert [slot.rows for slot in ends.staged[3]] == [2, 1, 1]
    read = [json.loads(one["row"])["id"] for one in found[:3]]
    assert read == [1000, 2999, 4500]
    assert [one["partition"] for one in found] == ["1", "2", "4", "p9"]
    assert [one["offset"] for one in found] == ["10000", "20999", "40500", '{"line":3}']
    assert [one["attempt"] for one in found] == [6, 6, 7, None]
    assert found[3]["raw"] == b"\xff"
    assert [json.loads(text)["id"] for text in texts] == [1000, 2999, 4500]


def test_a_letter_that_cannot_be_put_is_no_success(loop, engine, plugin, place):
    ends = Streams(plugin, place)
    place.refuse = [0]
    posting = DeadLetterWriter(
        DeadLetterOrigin("shop", "t", 1, 20), engine, ends, ends, RetryPolicy()
    )
    part = SlotFailures(
        StreamSchema(1, "orders", SCHEMA), [BatchReady(1, 1, "p", 1000, 10)], 0, [(5, WHY)]
    )

    async def send():
        async with asyncio.timeout(60):
            await posting.send(3, [part], (), 0.0)

    with pytest.raises(Exception, match=r"errors\.place_refused"):
        loop.run_until_complete(send())
    assert ends.staged == {}
