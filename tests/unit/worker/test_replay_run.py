"""A whole run of a replay, over real topics: each row is in one place, however often it runs."""

import asyncio
from collections import Counter
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.connector_config.dead_letters import RejectedRowRules, read_tolerance
from penstock.connector_config.settings import DEFAULT_RETRIES, FlushRules
from penstock.model.connector import CommitMode, TaskPlan
from penstock.model.dead_letter import DEAD_LETTER_SCHEMA
from penstock.model.dead_letter_queue import REPLAYED, DeadLetterId, RowEdits
from penstock.model.errors import Diagnostic, ErrorClass
from penstock.model.stream import PutSlot, StreamSchema
from penstock.model.ticket import SlotReport, Ticket
from penstock.spark.connector_io.sink_writer import write_rows
from penstock.spark.connector_io.source_reader import read_rows
from penstock.topic.embedded.topics import EmbeddedTopics
from penstock.topic_files.file_writer import write_files
from penstock.worker.dead_letters.dead_letter_writer import (
    DeadLetterOrigin,
    DeadLetterWriter,
    SinkWithDeadLetters,
)
from penstock.worker.dead_letters.rejected_rows import RejectedRowHandler
from penstock.worker.dead_letters.replay import ReplayReader
from penstock.worker.task.live_rows import Inspections
from penstock.worker.task.metrics import TaskCounters
from penstock.worker.task.task_offsets import Claim
from penstock.worker.task.task_run import RunSpec, TaskRun

ROWS = pa.schema([("id", pa.int64()), ("value", pa.string())])
TOPIC, LETTERS, BAD = "dead", 6, 5
WHY = Diagnostic("c.again", "still bad", ErrorClass.DATA)


class Engine:
    """Runs the slots in this process; rows of one id are rejected."""

    slots = 1

    def build(self, name, schema, steps, slots, number_rows=False):
        return SimpleNamespace(output_schema=schema, letters="#letters" in name)

    async def run(self, plan, ticket, lag=0):
        ticket = Ticket.from_json(ticket.to_json())
        return [self._slot(plan, ticket, slot) for slot in ticket.slots]

    def _slot(self, plan, ticket, slot):
        batches = list(read_rows(ticket, slot))
        rows = [b.slice(at, 1) for b in batches for at in range(b.num_rows)]
        bad = [
            at for at, row in enumerate(rows)
            if not plan.letters and row.column("id")[0].as_py() == BAD
        ]  # fmt: skip
        good = [row for at, row in enumerate(rows) if at not in bad]
        done = write_rows(ticket, slot, 1, good)
        apart = tuple((at, WHY) for at in bad)
        return SlotReport(
            slot.slot,
            1,
            len(rows),
            done.rows,
            tuple(done.rejected),
            done.detail,
            rejected_by_chain=apart,
        )

    def cancel(self, task_id):
        pass


class Offsets:
    """Keeps what is committed, or forgets all offsets."""

    def __init__(self, *, forgets):
        self.forgets = forgets
        self.offsets, self.prepared = {}, None

    async def claim(self):
        return Claim(self.prepared, recover=False)

    async def get(self, ids):
        return {id_: self.offsets[id_] for id_ in ids if id_ in self.offsets}

    async def commit(self, offsets, prepared, applied):
        self.prepared = prepared or self.prepared
        if not self.forgets:
            self.offsets |= offsets


class Chain:
    """Rows go to a topic of their dataset."""

    def compile(self, dataset, schema):
        return SimpleNamespace(dataset=f"out-{dataset}", steps=())

    def report_dataset(self, before, after):
        pass


async def put_letters(topics):
    writer = topics.writer("g-0-letters")
    await writer.open(1, CommitMode.UNSPECIFIED, None, recover=False)
    await writer.apply_schema(StreamSchema(1, TOPIC, DEAD_LETTER_SCHEMA))
    schema = ROWS.serialize().to_pybytes()
    rows = [
        {"connector": "orders", "dataset": "d", "row": f'{{"id":{n},"value":"x"}}',
         "schema": schema, "stage": "transform", "partition": "{}"}
        for n in range(LETTERS)
    ]  # fmt: skip
    batch = pa.RecordBatch.from_pylist(rows, schema=DEAD_LETTER_SCHEMA)
    detail = write_files([batch], writer.ticket(1, 0, 1), attempt=1)
    await writer.prepare(1, [PutSlot(0, 1, LETTERS, detail)], b"{}")
    await writer.commit(1)


def spec_of(topics, offsets, epoch):
    writer = SinkWithDeadLetters(topics.writer("r-0"), topics.writer("r-0-letters"), TOPIC)
    engine, sender = Engine(), DeadLetterOrigin("orders", "r-0", epoch, 30)
    changes = RowEdits({}, {DeadLetterId(0, 2): {"value": "9"}})

    async def announce(dataset, rows, apply):
        await apply(rows)

    def letters(reader):
        posting = DeadLetterWriter(sender, engine, reader, writer, DEFAULT_RETRIES)
        return RejectedRowHandler(RejectedRowRules(read_tolerance("all")), posting)

    return RunSpec(
        plan=TaskPlan("r-0", tuple(DeadLetterId(0, n).to_partition(TOPIC) for n in range(LETTERS))),
        epoch=epoch,
        commit_mode=CommitMode.UNSPECIFIED,
        flush_rules=FlushRules(interval_s=0.0),
        stall_timeout_s=30,
        schema_announcer=SimpleNamespace(announce=announce),
        chain=Chain(),
        engine=engine,
        offsets=offsets,
        writer=writer,
        open_reader=lambda p: ReplayReader(topics.rows(TOPIC), p.partitions, changes),
        make_rejected_row_handler=letters,
    )


@pytest.mark.parametrize("forgets", [False, True])
def test_a_row_is_replayed_once_because_its_offset_says_so(tmp_path, forgets):
    """The twin forgets offsets: then every row comes again."""
    offsets = Offsets(forgets=forgets)

    async def main():
        async with asyncio.timeout(60), EmbeddedTopics(tmp_path) as topics:
            await put_letters(topics)
            for epoch in (1, 2):
                run = TaskRun(
                    spec_of(topics, offsets, epoch), TaskCounters(), Inspections(), lambda _: None
                )
                await run.run()
                assert run.completed, "a replay ends"

    asyncio.run(main())
    times = 2 if forgets else 1
    written = DeltaTable(tmp_path / "out-d").to_pyarrow_table().to_pylist()
    assert Counter(row["id"] for row in written) == dict.fromkeys(range(LETTERS - 1), times)
    assert {row["value"] for row in written if row["id"] == 2} == {"9"}
    letters = DeltaTable(tmp_path / TOPIC).to_pyarrow_table().to_pylist()
    again = [one for one in letters if one["code"] == "c.again"]
    assert len(again) == times
    assert again[0]["connector"] == "orders"
    assert again[0]["partition"] == DeadLetterId(0, BAD).to_partition(TOPIC).id, (
        "it names the first"
    )
    if not forgets:
        assert set(map(str, offsets.offsets.values())) == {str(REPLAYED)}
        assert len(offsets.offsets) == LETTERS
