"""Executors write and read where their ticket says: forked processes that know nothing else."""

import json

import pytest

from contract.topic.conftest import Place
from penstock.model.stream import BatchReady
from penstock.topic.embedded.topics import EmbeddedTopics
from unit.topic.producer_consumer import Producer, rows, run
from unit.topic.producer_consumer import place as partition

DAEMON = """
import json, os, sys
import pyarrow as pa
from penstock.topic_files.file_reader import read_files
from penstock.topic_files.file_writer import write_files

def done(ticket):
    if "files" in ticket:
        return [row["id"] for batch in read_files(ticket) for row in batch.to_pylist()]
    rows = pa.RecordBatch.from_pydict({"id": [1, 2], "name": ["a", "b"]})
    return write_files([rows], ticket, 1)

for line in sys.stdin:  # as Spark's: what tasks need is imported, then it forks
    if not os.fork():
        print(json.dumps(done(json.loads(line))), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.fixture
def executed(place):
    """Does what a ticket says in a forked process without a credential in its environment."""
    with Place(place.folder, place.text).start(DAEMON) as daemon:

        def ask(ticket):
            daemon.stdin.write(json.dumps(ticket) + "\n")
            daemon.stdin.flush()
            return json.loads(daemon.stdout.readline())

        yield ask
        daemon.stdin.close()


async def first_ticket(topics):
    """Return the ticket of the first batch of a topic."""
    stream = topics.reader([partition()], "earliest", 1 << 20)
    await stream.open()
    try:
        async for event in stream:
            if isinstance(event, BatchReady):
                return stream.ticket([event.seq], event.schema_id)
    finally:
        await stream.close()


def test_files_written_by_a_forked_process_count_and_are_read_by_another(place, executed):
    async def story():
        async with EmbeddedTopics(place.folder) as topics:
            producer = await Producer(topics).open()
            await producer.append(1, rows(0, 1))
            (file,) = executed(producer.stream.ticket(2, 0, 1))["files"]
            assert place.folder.subfolder("t").get_sizes([file["path"]]) == [file["bytes"]]
            return executed(await first_ticket(topics))

    assert run(story()) == [0]
