"""Warnings of workers outlive the workers, and their leader."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from dataclasses import replace

from penstock.model.errors import RetriableError
from penstock.model.logs import (
    MAX_STORED_LINE_LENGTH,
    MAX_STORED_LINES,
    LogFilter,
    LogLine,
)
from penstock.model.logs import LogLines as ReadLines
from penstock.scheduler.leader import worker_logs
from penstock.scheduler.leader.stored_state import StoredItems, oldest_beyond
from penstock.scheduler.leader.worker_logs import WorkerLogs
from penstock.scheduler.state.log_lines import (
    MAX_LINES_PER_READ,
    LogLines,
    decode_log_lines,
    encode_log_lines,
)

ALL = LogFilter(tail=MAX_STORED_LINES)


def line(number, connector="orders", message=""):
    attributes = {"connector": connector} if connector else {}
    return LogLine(number, logging.WARNING, "penstock.t", message or f"line {number}", attributes)


def messages(log, log_filter=ALL):
    return [one.line.message for one in log.latest(log_filter)]


def test_a_line_that_is_read_again_is_stored_once():
    """A new leader reads the last lines of each worker once more."""
    log = LogLines()
    log.add("w1", [line(1), line(2)])
    stored = decode_log_lines(encode_log_lines(log.take_unstored()[0]))
    after = LogLines()
    after.load(stored)
    after.add("w1", [line(1), line(2), line(3)])
    after.add("w2", [line(1)])
    assert messages(after) == ["line 1", "line 2", "line 3", "line 1"]
    assert [[one.line.message for one in entry] for entry in after.take_unstored()] == [
        ["line 3"], ["line 1"]
    ]  # fmt: skip


def test_a_long_line_is_cut_and_is_the_same_line_when_it_is_read_again():
    log = LogLines()
    for _ in range(2):
        log.add("w1", [line(1, message="x" * 4_000)])
    assert messages(log) == ["x" * MAX_STORED_LINE_LENGTH]


def test_a_worker_that_logs_too_much_leaves_a_word_about_what_is_not_stored():
    log = LogLines()
    log.add("w1", [line(n) for n in range(100)], missed=5)
    first, *rest = messages(log)
    assert first.startswith(f"{105 - MAX_LINES_PER_READ} lines of this worker")
    assert rest == [f"line {n}" for n in range(100 - MAX_LINES_PER_READ, 100)]


def test_lines_are_selected_by_connector_and_level_and_the_oldest_go():
    log = LogLines()
    for n in range(MAX_STORED_LINES + 10):
        log.add("w1", [line(n, "" if n % 2 else "orders")])
    assert len(messages(log)) == MAX_STORED_LINES
    assert messages(log, LogFilter("orders", tail=1)) == ["line 1008"]
    assert messages(log, LogFilter(level=logging.ERROR, tail=9)) == []
    assert messages(log, LogFilter(tail=0)) == []


def test_a_noisy_worker_pushes_out_its_own_lines_and_of_its_entries_the_oldest():
    log = LogLines()
    log.add("quiet", [line(1, message="why it died")])
    for n in range(2 * MAX_STORED_LINES):
        log.add("noisy", [line(n)])
    log.add("other", [line(2, message="still there")])
    found = messages(log)
    assert len(found) == MAX_STORED_LINES
    assert found[0] == "why it died"
    assert found[-1] == "still there"
    assert found[-2] == f"line {2 * MAX_STORED_LINES - 1}"

    entries = {"01": StoredItems("quiet", 1), "99": StoredItems("other", 2)}
    entries |= {f"{n:02d}": StoredItems("noisy", 10) for n in range(2, 9)}
    assert oldest_beyond(entries, 50) == ["02", "03"]


def test_a_leader_reads_entries_of_several_workers_in_the_order_of_their_lines():
    log = LogLines()
    for n in range(3):
        log.add("w1", [line(n)])
        log.add("w2", [line(n)])
    stored = [one for entry in log.take_unstored() for one in entry]
    assert [one.number for one in stored] == [1, 3, 5, 2, 4, 6]
    after = LogLines()
    after.load(stored)
    assert [one.number for one in after.latest(ALL)] == [1, 2, 3, 4, 5, 6]
    for entry in log.take_unstored():
        log.record_stored(entry)
    assert log.take_unstored() == []


def test_lines_of_an_earlier_connector_of_the_name_are_left_out():
    log = LogLines()
    for number, generation in enumerate(("old", "new")):
        attributes = {"connector": "orders", "task": f"{generation}-0"}
        log.add("w1", [replace(line(number), attributes=attributes)])
    assert messages(log, LogFilter("orders")) == ["line 0", "line 1"]
    assert messages(log, LogFilter("orders", generation="new")) == ["line 1"]
    assert messages(log, LogFilter("orders", generation="newer")) == []


class Source:
    """Logs of workers by their addresses. An address without a queue does not answer."""

    def __init__(self) -> None:
        self.queues: dict[str, asyncio.Queue] = {}
        self.opened: dict[str, int] = defaultdict(int)

    async def watch(self, address):
        self.opened[address] += 1
        if address not in self.queues:
            raise RetriableError("rpc.unavailable", "away")
        while (read := await self.queues[address].get()) is not None:
            yield read


def test_workers_are_followed_as_they_come_go_and_come_back(monkeypatch):
    monkeypatch.setattr(worker_logs, "CHECK_INTERVAL_S", 0.005)
    monkeypatch.setattr(worker_logs, "PASS_INTERVAL_S", 0.0)
    source, connected, added = Source(), {"a": "h:1"}, []
    arrived = asyncio.Event()

    def add(worker, lines, missed):
        added.append((worker, [one.at_us for one in lines], missed))
        arrived.set()

    async def read(address, number, missed=0):
        arrived.clear()
        source.queues[address].put_nowait(ReadLines((line(number),), missed))
        await arrived.wait()

    async def main():
        source.queues["h:1"] = asyncio.Queue()
        task = asyncio.create_task(WorkerLogs(source, lambda: connected, add).run())
        await read("h:1", 1)
        connected["b"] = "h:2"  # it does not answer yet
        while source.opened["h:2"] < 2:
            await asyncio.sleep(0.001)
        source.queues["h:2"] = asyncio.Queue()
        await read("h:2", 2, 7)
        source.queues["h:1"].put_nowait(None)  # its stream ends, and is opened again
        await read("h:1", 3)
        del connected["a"]
        connected["c"] = "h:1"
        while source.opened["h:1"] < 3:
            await asyncio.sleep(0.001)
        await read("h:1", 4)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(main(), 60))
    assert added == [("a", [1], 0), ("b", [2], 7), ("a", [3], 0), ("c", [4], 0)]


def test_the_last_lines_of_a_worker_that_logs_much_and_dies_are_passed_on(monkeypatch):
    """Its log is read as fast as it comes: what waits at the worker dies with it."""
    monkeypatch.setattr(worker_logs, "PASS_INTERVAL_S", 3600.0)
    source, added = Source(), []
    source.queues["h:1"] = asyncio.Queue()

    async def main():
        logs = WorkerLogs(source, lambda: {"a": "h:1"}, lambda *found: added.append(found))
        task = asyncio.create_task(logs.run())
        queue = source.queues["h:1"]
        queue.put_nowait(ReadLines((line(0),), 0))
        while not added:
            await asyncio.sleep(0.001)
        for n in range(1, 1000, 100):
            queue.put_nowait(ReadLines(tuple(line(k) for k in range(n, n + 100)), 1))
        queue.put_nowait(None)
        while len(added) < 2:
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(main(), 60))
    (_, lines, missed) = added[1]
    assert [one.message for one in lines] == [f"line {n}" for n in range(981, 1001)]
    assert missed == 980 + 10
