"""The pool of lanes without Spark: a thread stands for the Python worker of a lane."""

import asyncio
import json
import socket
import ssl
import threading
from contextlib import suppress

import pytest

from penstock.model.errors import PenstockError, RetriableError
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.spark import failures, lane_loop, lane_tls, lanes, slot_reports
from penstock.spark.lane_loop import LaneFunction
from penstock.spark.lanes import Lanes
from support.processes import free_ports
from support.waiting import until

FUNCTION = LaneFunction.of((), tracked=False)


def ticket(task: str = "t", slots: int = 1) -> Ticket:
    return Ticket(
        task,
        1,
        1,
        tuple(SlotTicket(n, 0, {"kind": "empty"}, {"kind": "discard"}) for n in range(slots)),
    )


def connect(spec) -> socket.socket:
    driver = socket.create_connection((spec["host"], spec["port"]))
    if spec["certificate"]:
        driver = lane_loop.make_client_context(spec["certificate"]).wrap_socket(driver)
    return driver


def in_thread(function, *arguments) -> asyncio.Future:
    """Run a function. Nobody need read its error, as in the engine."""
    ended = asyncio.get_running_loop().run_in_executor(None, function, *arguments)
    ended.add_done_callback(lambda one: one.cancelled() or one.exception())
    return ended


class Workers:
    """Python workers in threads. `hold` keeps them from reporting; `silent` from anything else."""

    def __init__(self) -> None:
        self.hold = threading.Event()
        self.hold.set()
        self.running: list[str] = []
        self.tasks: list[str] = []
        self.attempts: list[int] = []
        self.cancelled: list[str] = []
        self.started, self.cpu_s = 0, 0.0
        self.refuse: Exception | None = None
        self.sockets: list[socket.socket] = []

    def start(self, job, spec):
        self.started += 1
        return in_thread(self._run, job, json.loads(spec))

    def cancel(self, job):
        job.cancelled = True
        self.cancelled.append(job.group)

    def _run(self, job, spec):
        if self.refuse is not None:
            raise self.refuse
        with connect(spec) as driver:
            self.sockets.append(driver)
            hello = {"token": spec["token"], "lane": spec["lane"]}
            driver.sendall(lane_loop.frame(lane_loop.HELLO, json.dumps(hello).encode()))
            serving = lane_loop._Loop(driver)
            while (received := serving._receive()) is not None:
                if received[:1] == lane_loop.TICKET:
                    report = slot_reports.report_row(self._move(received[1:]))
                    cpu = lane_loop.CPU.pack(self.cpu_s)
                    body = cpu + json.dumps(report).encode()
                    driver.sendall(lane_loop.frame(lane_loop.REPORT, body))

    def _move(self, body):
        at = lane_loop.NAME_BYTES
        (attempt,) = lane_loop.ATTEMPT.unpack_from(body, at)
        given = Ticket.from_json(body[at + lane_loop.ATTEMPT.size :].decode())
        self.running.append(given.task_id)
        self.hold.wait(60)
        self.running.remove(given.task_id)
        self.tasks.append(given.task_id)
        self.attempts.append(attempt)
        return SlotReport(given.slots[0].slot, attempt)


def with_lanes(
    body, fewest: int = 2, most: int = 4, *, share_slots: bool = False, idle_s: float = 30.0
):
    """Run a test with lanes and their workers."""

    async def run():
        workers = Workers()
        pool = Lanes(
            workers.start, workers.cancel, fewest, most, share_slots=share_slots, idle_s=idle_s
        )
        await pool.listen("127.0.0.1", "127.0.0.1")
        try:
            async with asyncio.timeout(60):
                await body(pool, workers)
        finally:
            workers.hold.set()
            await pool.close()

    asyncio.run(run())


def start(pool, task: str = "t", lag_s: float = 0.0):
    return asyncio.ensure_future(pool.run(FUNCTION, ticket(task), lag_s))


def test_a_lane_serves_one_micro_batch_after_another_of_whatever_task():
    async def body(pool, workers):
        for n in range(20):
            (report,) = await pool.run(FUNCTION, ticket(f"t{n}"), 0.0)
            assert report.error is None
        assert workers.started == pool.open == 1
        assert len(set(workers.attempts)) == 20

    with_lanes(body)


def test_slots_of_a_micro_batch_run_beside_each_other_and_are_reported_in_order():
    async def body(pool, workers):
        workers.hold.clear()
        run = asyncio.ensure_future(pool.run(FUNCTION, ticket(slots=3), 0.0))
        await until(lambda: len(workers.running) == 3, "three lanes")
        workers.hold.set()
        assert [report.slot for report in await run] == [0, 1, 2]

    with_lanes(body, fewest=3)


def test_a_lost_lane_ends_the_other_slots_of_its_micro_batch(monkeypatch):
    """They would be written again, and may wait for a slow sink meanwhile."""
    monkeypatch.setattr(failures, "LOSS_TIMEOUT_S", 0.05)

    async def body(pool, workers):
        workers.hold.clear()
        run = asyncio.ensure_future(pool.run(FUNCTION, ticket(slots=3), 0.0))
        await until(lambda: len(workers.running) == 3, "three lanes")
        workers.sockets[1].shutdown(socket.SHUT_RDWR)
        with pytest.raises(RetriableError) as caught:
            await run
        assert caught.value.code == "engine.job_failed"
        assert (pool.busy, pool.open) == (0, 0)

    with_lanes(body, fewest=3)


def test_the_slot_that_has_waited_longest_is_next():
    async def body(pool, workers):
        workers.hold.clear()
        runs = [start(pool, "first")]
        await until(lambda: workers.running, "the first slot")
        runs += [start(pool, f"lag {n}", float(n)) for n in range(5)]
        await until(lambda: pool.waiting == 5, "the queue")
        workers.hold.set()
        await asyncio.gather(*runs)
        assert workers.started == 1
        assert workers.tasks == ["first", *(f"lag {n}" for n in reversed(range(5)))]

    with_lanes(body, fewest=1)


def test_lanes_that_compute_make_no_other_open():
    assert lanes.is_waiting(0.0, 1)
    assert lanes.is_waiting(0.5, 2)
    assert not lanes.is_waiting(0.5, 1)

    async def body(pool, workers):
        workers.cpu_s = 0.25
        await asyncio.gather(*(start(pool, f"t{n}") for n in range(8)))
        assert pool._cpu_s == 2.0, "each report says what its slot has used"

    with_lanes(body)


def test_lanes_that_wait_for_plugins_make_others_open_and_those_end_first(monkeypatch):
    monkeypatch.setattr(lanes, "GROW_AFTER_S", 0.01)

    async def body(pool, workers):
        workers.hold.clear()
        runs = [start(pool, f"t{n}") for n in range(6)]
        await until(lambda: pool.open == 4 and pool.waiting == 2, "the other lanes")
        workers.hold.set()
        await asyncio.gather(*runs)
        await until(lambda: not pool.open, "the end of lanes without work")
        workers.hold.clear()
        monkeypatch.setattr(lanes, "GROW_AFTER_S", 60)
        runs = [start(pool, f"t{n}") for n in range(6)]
        await until(lambda: len(workers.running) == 2, "the lanes that always may run")
        assert pool.waiting == 4
        workers.hold.set()
        await asyncio.gather(*runs)

    with_lanes(body, idle_s=0.05)


def test_lanes_listen_at_the_port_that_they_are_given():
    async def body(pool, workers):
        (port,) = free_ports(1)
        one, other = (
            Lanes(workers.start, workers.cancel, 1, 1, share_slots=False, idle_s=1)
            for _ in range(2)
        )
        await one.listen("127.0.0.1", "127.0.0.1", port)
        with pytest.raises(RetriableError) as caught:
            await other.listen("127.0.0.1", "127.0.0.1", port)
        await one.close()
        told = caught.value.diagnostic
        assert (told.code, told.config_path) == ("engine.lane_port", "lane.port")
        assert f"port {port} of 127.0.0.1" in told.message

    with_lanes(body)


@pytest.mark.parametrize("what", ["MAX_AGE_S", "MAX_FUNCTIONS"])
def test_a_lane_that_is_old_or_knows_much_is_replaced(monkeypatch, what):
    monkeypatch.setattr(lanes, what, -1)

    async def body(pool, workers):
        for _ in range(3):
            await pool.run(FUNCTION, ticket(), 0.0)
        assert workers.started == 3

    with_lanes(body)


def test_a_lane_that_ended_while_it_had_no_work_is_not_used():
    async def body(pool, workers):
        await pool.run(FUNCTION, ticket(), 0.0)
        workers.sockets[0].shutdown(socket.SHUT_RDWR)
        (lane,) = pool._idle
        await until(lambda: lane.is_spent, "its end")
        await pool.run(FUNCTION, ticket(), 0.0)
        assert workers.started == 2

    with_lanes(body)


@pytest.mark.parametrize("stage", ["waits", "opens", "runs"])
def test_a_cancelled_task_gets_its_error_wherever_its_slot_is(monkeypatch, stage):
    async def body(pool, workers):
        workers.hold.clear()
        other = start(pool, "other")
        await until(lambda: workers.running, "the other slot")
        if stage == "opens":
            begun = workers.start
            pool._start_job = lambda *_: asyncio.get_running_loop().create_future()
            pool._queue.change_capacity(1)
        elif stage == "runs":
            pool._queue.change_capacity(1)
        run = start(pool)
        if stage == "waits":
            await until(lambda: pool.waiting, "the queue")
        elif stage == "opens":
            await until(lambda: pool._opening, "the lane that opens")
            pool._start_job = begun
        else:
            await until(lambda: "t" in workers.running, "the slot")
        pool.cancel("t", failures.cancelled_error("t"))
        with pytest.raises(RetriableError) as caught:
            await run
        assert caught.value.code == "engine.cancelled"
        assert len(workers.cancelled) == (stage != "waits")
        workers.hold.set()
        assert await other

    with_lanes(body, fewest=1, most=1)


def test_what_a_cancelled_slot_reports_late_is_nobodys():
    """The lane is not used again, so no other slot can take the report for its own."""

    async def body(pool, workers):
        workers.hold.clear()
        run = start(pool, "cancelled")
        await until(lambda: workers.running, "the slot")
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        following = start(pool, "next")
        await until(lambda: "next" in workers.running, "another lane")
        workers.hold.set()
        (report,) = await following
        assert workers.started == 2
        assert report.attempt == workers.attempts[workers.tasks.index("next")]

    with_lanes(body)


def test_a_lane_that_says_nothing_is_given_up_with_the_name_of_the_stage(monkeypatch):
    monkeypatch.setattr(lanes, "SILENCE_S", 0.05)

    async def body(pool, workers):
        workers.hold.clear()
        with pytest.raises(RetriableError, match=r"deadline\.exceeded.*engine\.lane") as caught:
            await start(pool)
        assert caught.value.code == "deadline.exceeded"
        assert len(workers.cancelled) == 1
        assert not pool.open

    with_lanes(body)


def test_each_word_of_a_slow_slot_begins_the_time_anew(monkeypatch):
    monkeypatch.setattr(lanes, "SILENCE_S", 59.5)
    monkeypatch.setattr(lane_loop, "HEARTBEAT_S", 0.01)
    timeout, waits = asyncio.timeout, []
    monkeypatch.setattr(
        asyncio, "timeout", lambda time_s: (waits.append(time_s), timeout(time_s))[1]
    )
    ended: list[int] = []
    monkeypatch.setattr(lane_loop.os, "_exit", ended.append)
    slow = threading.Event()

    class SlowLoop(lane_loop._Loop):
        def _move(self, body):
            slow.wait(60)
            return SlotReport(0, 1)

    def start_job(job, parameters):
        spec = json.loads(parameters)

        def serve():
            with connect(spec) as driver:
                SlowLoop(driver).serve(spec["token"], spec["lane"])

        return in_thread(serve)

    async def body(pool, workers):
        pool._start_job = start_job
        run = start(pool)
        await until(lambda: waits.count(59.5) > 20, "twenty words")
        slow.set()
        assert await run

    with_lanes(body)
    assert ended == []


def test_a_job_that_cannot_start_gives_its_reason_and_a_slot_that_never_comes_its_stage(
    monkeypatch,
):
    monkeypatch.setattr(lanes, "OPEN_TIMEOUT_S", 0.05)

    async def body(pool, workers):
        workers.refuse = failures.jvm_lost_error()
        with pytest.raises(RetriableError) as caught:
            await start(pool)
        assert caught.value.code == "engine.jvm_lost"
        never = asyncio.get_running_loop().create_future()
        pool._start_job = lambda *_: never
        with pytest.raises(RetriableError, match=r"engine\.lane") as caught:
            await start(pool)
        assert caught.value.code == "deadline.exceeded"
        assert len(workers.cancelled) == 2

    with_lanes(body)


@pytest.mark.parametrize(
    "hello",
    [b"", b"GET / HTTP/1.1\r\n\r\n", lane_loop.frame(b"H", b"{}"), lane_loop.frame(b"R", b"{}"),
     lane_loop.frame(b"H", json.dumps({"token": "guessed", "lane": 1}).encode()),
     lane_loop.frame(b"H", json.dumps({"token": 5, "lane": []}).encode()),
     lane_loop.frame(b"H", b"x" * 2000), b"\xff" * 5000],
)  # fmt: skip
def test_a_stranger_is_hung_up_on(hello):
    async def body(pool, workers):
        never = asyncio.get_running_loop().create_future()
        pool._start_job = lambda *_: never
        run = start(pool)
        await until(lambda: pool._opening, "the lane that opens")
        host, port = pool._address["host"], pool._address["port"]
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(hello)
        writer.write_eof()
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        assert not run.done()
        writer.close()
        run.cancel()

    with_lanes(body)


def test_lanes_on_other_machines_trust_the_certificate_of_their_driver_alone():
    async def body(pool, workers):
        await pool.run(FUNCTION, ticket(), 0.0)
        assert isinstance(workers.sockets[0], ssl.SSLSocket)
        _, other = lane_tls.make_server_context()
        with pytest.raises(ssl.SSLError):
            await asyncio.to_thread(connect, {**pool._address, "certificate": other})

    with_lanes(body, share_slots=True)


def test_lanes_that_share_slots_with_jobs_yield_them():
    async def body(pool, workers):
        await pool.run(FUNCTION, ticket(), 0.0)
        assert pool.open == 1
        pool.yield_slots(1)
        assert not pool.open
        await pool.run(FUNCTION, ticket(), 0.0)
        assert not pool.open
        pool.yield_slots(-1)
        await pool.run(FUNCTION, ticket(), 0.0)
        assert pool.open == 1
        assert workers.started == 3

    with_lanes(body, share_slots=True)


@pytest.mark.parametrize("body", [b"", b"x" * 8 + b"no JSON", b"x" * 8 + b"{}"])
def test_a_lane_that_sends_something_else_is_given_up(body):
    """Functions of users run in its process."""

    def serve(spec):
        with connect(spec) as driver:
            hello = json.dumps({"token": spec["token"], "lane": spec["lane"]}).encode()
            driver.sendall(lane_loop.frame(lane_loop.HELLO, hello))
            driver.recv(1)
            driver.sendall(lane_loop.frame(lane_loop.REPORT, body))
            while driver.recv(1 << 16):
                pass

    async def run(pool, workers):
        pool._start_job = lambda job, spec: in_thread(serve, json.loads(spec))
        with pytest.raises(PenstockError) as caught:
            await start(pool)
        assert caught.value.code == "engine.lane_frame"
        assert len(workers.cancelled) == 1

    with_lanes(run)


def test_a_lost_lane_says_what_its_job_says():
    async def body(pool, workers):
        ended = asyncio.get_running_loop().create_future()

        def start_job(job, spec):
            workers.start(job, spec)
            return ended

        pool._start_job = start_job
        workers.hold.clear()
        run = start(pool)
        await until(lambda: workers.running, "the slot")
        ended.set_exception(failures.jvm_lost_error())
        workers.sockets[0].shutdown(socket.SHUT_RDWR)
        with pytest.raises(PenstockError) as caught:
            await run
        assert caught.value.code == "engine.jvm_lost"

    with_lanes(body)
