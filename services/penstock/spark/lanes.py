"""Lanes: Spark jobs that stay up, and move the rows of one micro-batch after another.

A micro-batch whose chain needs no JVM is not a Spark job of its own, which would take 24-38 ms.
Each of its slots is given to a lane: a job of one Spark task whose loop (`lane_loop`) takes tickets
over a connection to the driver. A lane serves whatever task has waited longest, so a hundred busy
tasks share as many lanes as the machine can use, and an idle task holds nothing.

A lane that is lost, silent or cancelled is never used again: what it may still report is not read.
Attempts are numbered here, so a slot that is tried again is another attempt.
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import json
import logging
import secrets
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from penstock.aio import cancel_and_wait, wait_for_first
from penstock.model.errors import InternalError, PenstockError
from penstock.model.ticket import SlotReport, Ticket
from penstock.rpc.traces import span
from penstock.spark import failures, lane_loop, slot_reports
from penstock.spark.admission_queue import AdmissionQueue
from penstock.spark.lane_loop import LaneFunction
from penstock.spark.lane_tls import make_server_context
from penstock.spark.spark_jobs import SparkJob

log = logging.getLogger(__name__)

MAX_AGE_S: Final = 600.0
"""Age at which a lane ends, so that what its process has collected is freed."""

MAX_FUNCTIONS: Final = 256
"""Functions that a lane knows. One that would need another ends."""

OPEN_TIMEOUT_S: Final = 120.0
"""Time for Spark to run the job of a lane. It needs 0.05 s; minutes where executors start first."""

SILENCE_S: Final = 30.0
"""Time without a word from a lane that moves rows, after which it counts as lost. Longer leaves a
task standing behind a process that is stopped; shorter takes a frozen machine for one."""

GROW_AFTER_S: Final = 1.0
"""Time in which slots wait although the lanes that are open use little CPU, after which another
opens: those wait for plugins."""

BUSY_SHARE: Final = 0.3
"""Share of a core above which a lane computes, and another one would only compete with it. A lane
between two local plugins uses more, one whose sink is a slow server less."""

HELLO_TIMEOUT_S: Final = 10.0

_MAX_HELLO_BYTES: Final = 1024
_MAX_FRAME_BYTES: Final = 256 << 20
_FIRST_ATTEMPT: Final = 1 << 31
"""Attempts of lanes, apart from those that Spark numbers. The protocol has 32 bits for them."""

_ENDED: Final = (OSError, EOFError)  # asyncio raises a subclass of EOFError


def is_waiting(cpu_s: float, busy: int) -> bool:
    """Return whether lanes wait for plugins, by the CPU that they used in `GROW_AFTER_S`."""
    return cpu_s < BUSY_SHARE * GROW_AFTER_S * busy


class Lane:
    """A lane that is open."""

    def __init__(
        self,
        job: SparkJob,
        ended: asyncio.Future[None],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """`ended` has the error of its job, which is one of the product."""
        self.job, self.ended = job, ended
        self._reader, self._writer = reader, writer
        self._known: set[bytes] = set()
        self._opened_at = asyncio.get_running_loop().time()
        self._cancelled: PenstockError | None = None
        self.task_id = ""
        self.closing: asyncio.TimerHandle | None = None

    @property
    def is_spent(self) -> bool:
        """Whether it has ended, or should before it gets other work."""
        age_s = asyncio.get_running_loop().time() - self._opened_at
        is_worn = age_s > MAX_AGE_S or len(self._known) >= MAX_FUNCTIONS
        return is_worn or self.ended.done() or self._reader.at_eof()

    async def run(
        self,
        function: LaneFunction,
        ticket: Ticket,
        attempt: int,
        on_cpu: Callable[[float], object],
    ) -> SlotReport:
        """Move the rows of the one slot of a ticket. `on_cpu` gets the CPU seconds that it uses."""
        try:
            self._send(function, ticket, attempt)
            async with asyncio.timeout(SILENCE_S):
                await self._writer.drain()
            while True:
                async with asyncio.timeout(SILENCE_S):
                    tag, body = await _receive(self._reader, _MAX_FRAME_BYTES)
                (cpu_s,) = lane_loop.CPU.unpack_from(body)
                on_cpu(cpu_s)
                if tag == lane_loop.REPORT:
                    return slot_reports.decode_report(json.loads(body[lane_loop.CPU.size :]))
        except TimeoutError:
            raise failures.silent_lane_error(SILENCE_S) from None
        except _ENDED:
            raise await self._loss() from None
        except (struct.error, ValueError, TypeError, KeyError) as error:
            raise InternalError("engine.lane_frame", f"a lane sent no report: {error}") from None

    def cancel(self, error: PenstockError) -> None:
        """Make its run raise this error, and hang up: it ends its process."""
        self._cancelled = error
        self.hang_up()

    def hang_up(self) -> None:
        """End it: at once when it is idle, with its process when it moves rows. Idempotent."""
        if self.closing is not None:
            self.closing.cancel()
        self._writer.transport.abort()

    def _send(self, function: LaneFunction, ticket: Ticket, attempt: int) -> None:
        if function.name not in self._known:
            self._known.add(function.name)
            self._writer.write(
                lane_loop.frame(lane_loop.FUNCTION, function.name + function.pickled)
            )
        head = function.name + lane_loop.ATTEMPT.pack(attempt)
        self._writer.write(lane_loop.frame(lane_loop.TICKET, head + ticket.to_json().encode()))

    async def _loss(self) -> PenstockError:
        """Return why it ended: its job says so soon after its connection."""
        if self._cancelled is not None:
            return self._cancelled
        await asyncio.wait({self.ended}, timeout=failures.LOSS_TIMEOUT_S)
        error = self.ended.exception() if self.ended.done() else None
        return error if isinstance(error, PenstockError) else failures.lost_lane_error()


_Connection: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class _Opening:
    """A lane that is not connected yet, and the task that waits for it."""

    task_id: str
    connected: asyncio.Future[_Connection]


class Lanes:
    """The lanes of an engine. All methods belong to its event loop.

    `busy` is how many move rows, and `seconds` how long all of them have done so.
    """

    def __init__(
        self,
        start_job: Callable[[SparkJob, str], asyncio.Future[None]],
        cancel_job: Callable[[SparkJob], None],
        fewest: int,
        most: int,
        *,
        share_slots: bool,
        idle_s: float,
    ) -> None:
        """`start_job` runs a job of a lane with these parameters, and `cancel_job` cancels it. As
        many lanes as `fewest` run for slots that wait, and up to `most` when those wait for
        plugins. With `share_slots` their Spark tasks have no slots of their own. A lane without
        work ends after `idle_s`.
        """
        self._start_job, self._cancel_job = start_job, cancel_job
        self._fewest, self._places, self._most = fewest, fewest, max(fewest, most)
        self._share_slots, self._idle_s = share_slots, idle_s
        self._queue = AdmissionQueue(fewest)
        self._token = secrets.token_hex(32)
        self._server: asyncio.Server | None = None
        self._address = {"host": "", "port": 0, "certificate": ""}
        self._numbers, self._attempts = itertools.count(1), itertools.count()
        self._opening: dict[int, _Opening] = {}
        self._lanes: set[Lane] = set()
        self._idle: list[Lane] = []
        self._cpu_s = 0.0
        self._growing: asyncio.Task[None] | None = None
        self._other_jobs = 0
        self.busy = 0
        self.seconds = 0.0

    @property
    def waiting(self) -> int:
        """Number of slots that wait for a lane."""
        return self._queue.waiting

    @property
    def open(self) -> int:
        """Number of lanes."""
        return len(self._lanes)

    async def listen(self, bind_address: str, host: str, port: int = 0) -> None:
        """Listen for loops at an address of this machine, which executors reach by `host`. Those on
        other machines need TLS. Port 0 is any.

        Raises:
            RetriableError: `engine.lane_port`: the port is taken.
        """
        context, certificate = make_server_context() if self._share_slots else (None, "")
        try:
            self._server = await asyncio.start_server(
                self._on_connection, bind_address, port, ssl=context
            )
        except OSError as error:
            raise failures.lane_port_error(bind_address, port, error) from error
        port = self._server.sockets[0].getsockname()[1]
        self._address = {"host": host, "port": port, "certificate": certificate}

    async def close(self) -> None:
        """End all lanes."""
        for lane in list(self._lanes):
            self._close(lane)
        if self._growing is not None:
            self._growing.cancel()
        if self._server is not None:
            self._server.close()

    async def run(self, function: LaneFunction, ticket: Ticket, lag_s: float) -> list[SlotReport]:
        """Move the rows of a ticket, each slot in a lane. Slots of the ticket that has waited
        longest are next.

        Raises:
            RetriableError: `engine.job_failed`, `engine.cancelled`, `engine.jvm_lost`,
                `deadline.exceeded`. No slot of the ticket is still running then.
        """
        if len(ticket.slots) == 1:  # as most are: a task of asyncio for each slot is not free
            return [await self._run_slot(function, ticket, lag_s)]
        runs = [
            asyncio.ensure_future(self._run_slot(function, replace(ticket, slots=(slot,)), lag_s))
            for slot in ticket.slots
        ]
        try:
            if runs:
                await asyncio.wait(runs, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            await cancel_and_wait(*(run for run in runs if not run.done()))
        failed = [run for run in runs if not run.cancelled() and run.exception() is not None]
        return [run.result() for run in failed or runs]  # the error of one, or all reports

    def cancel(self, task_id: str, error: PenstockError) -> None:
        """Make what a task runs and waits for raise an error."""
        self._queue.fail_waiting(task_id, error)
        for lane in list(self._lanes):
            if lane.task_id == task_id:
                lane.cancel(error)
        for opening in self._opening.values():
            if opening.task_id == task_id and not opening.connected.done():
                opening.connected.set_exception(error)

    def yield_slots(self, jobs: int) -> None:
        """Note that so many more jobs need slots of Spark, or fewer. Where lanes share them, those
        without work end, and others after their slot: then each runs one slot, as a job would.
        """
        self._other_jobs += jobs
        if self._share_slots and self._other_jobs:
            for lane in list(self._idle):
                self._close(lane)

    async def _run_slot(self, function: LaneFunction, ticket: Ticket, lag_s: float) -> SlotReport:
        if not self._queue.has_place and self._growing is None and self._places < self._most:
            self._growing = asyncio.create_task(self._grow(), name="lanes grow")
        async with self._queue.admit(lag_s, ticket.task_id):
            self.busy += 1
            began = time.monotonic()
            try:
                lane = await self._take(ticket.task_id)
                report = None
                try:
                    attempt = _FIRST_ATTEMPT + next(self._attempts) % _FIRST_ATTEMPT
                    with span("engine.lane", lane=lane.job.group, slot=ticket.slots[0].slot):
                        report = await lane.run(function, ticket, attempt, self._count_cpu)
                finally:
                    self._release(lane, is_usable=report is not None)
            finally:
                self.busy -= 1
                self.seconds += time.monotonic() - began
            return report

    async def _take(self, task_id: str) -> Lane:
        while self._idle:
            lane = self._idle.pop()
            if lane.closing is not None:
                lane.closing.cancel()
            if lane.is_spent:
                self._close(lane)
                continue
            break
        else:
            lane = await self._open(task_id)
        lane.task_id = task_id
        return lane

    def _release(self, lane: Lane, *, is_usable: bool) -> None:
        lane.task_id = ""
        if not is_usable:
            self._close(lane)
            self._cancel_job(lane.job)  # its process may be stopped, and not notice the end
        elif lane.is_spent or (self._share_slots and self._other_jobs):
            self._close(lane)
        else:
            self._idle.append(lane)
            loop = asyncio.get_running_loop()
            lane.closing = loop.call_later(self._idle_s, self._close, lane)

    def _close(self, lane: Lane) -> None:
        self._lanes.discard(lane)
        with suppress(ValueError):
            self._idle.remove(lane)
        lane.hang_up()
        if self._places > self._fewest:
            self._places -= 1
            self._queue.change_capacity(-1)

    async def _open(self, task_id: str) -> Lane:
        number = next(self._numbers)
        loop = asyncio.get_running_loop()
        connected: asyncio.Future[_Connection] = loop.create_future()
        spec = {**self._address, "token": self._token, "lane": number}
        job = SparkJob("lane", number)
        ended = self._start_job(job, json.dumps(spec))
        self._opening[number] = _Opening(task_id, connected)
        try:
            await wait_for_first(connected, ended, timeout_s=OPEN_TIMEOUT_S)
            if not connected.done():
                if not ended.done():
                    raise failures.no_slot_error(OPEN_TIMEOUT_S)
                ended.result()  # raises the reason
                raise failures.lost_lane_error()
            lane = Lane(job, ended, *connected.result())
        except BaseException:
            self._cancel_job(job)
            raise
        finally:
            del self._opening[number]
        self._lanes.add(lane)
        log.debug("lane %d opened for task %s", number, task_id)
        return lane

    async def _on_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                tag, body = await _receive(reader, _MAX_HELLO_BYTES)
            hello = json.loads(body) if tag == lane_loop.HELLO else {}
            known = hmac.compare_digest(str(hello["token"]).encode(), self._token.encode())
            connected = self._opening[hello["lane"]].connected if known else None
        except (*_ENDED, TimeoutError, ValueError, KeyError, TypeError, PenstockError):
            connected = None
        if connected is None or connected.done():
            writer.transport.abort()  # not a lane, or one that nobody waits for any more
        else:
            connected.set_result((reader, writer))

    def _count_cpu(self, seconds: float) -> None:
        self._cpu_s += seconds

    async def _grow(self) -> None:
        """Open lanes while slots wait and those that are open use little CPU."""
        while self._queue.waiting and self._places < self._most:
            before = self._cpu_s
            await asyncio.sleep(GROW_AFTER_S)
            if self._queue.waiting and is_waiting(self._cpu_s - before, self.busy):
                self._places += 1
                self._queue.change_capacity(1)
        self._growing = None


async def _receive(reader: asyncio.StreamReader, max_bytes: int) -> tuple[bytes, bytes]:
    """Return the tag and the body of the next frame."""
    length = lane_loop.frame_length(await reader.readexactly(4))
    if not 0 < length <= max_bytes:
        raise InternalError("engine.lane_frame", f"a lane sent a frame of {length} bytes")
    received = await reader.readexactly(length)
    return received[:1], received[1:]
