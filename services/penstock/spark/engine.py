"""The one queue of Spark jobs of this process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from penstock.model.errors import PenstockError, RetriableError
from penstock.model.step import Step
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.spark import cancelled_tasks, failures, gateway, report
from penstock.spark.admission_queue import Gate
from penstock.spark.cancelled_tasks import stages_of, watch
from penstock.spark.lanes import PROPERTY
from penstock.spark.plan import Plan, build
from penstock.spark.session import STOP_WITHIN, Jvm, Process, start_jvm
from penstock.spark.settings import EngineSettings
from penstock.spark.spark_jobs import Job, Jobs

log = logging.getLogger(__name__)

CANCEL_WITHIN: Final = 2.0
"""Seconds that a cancelled run holds its caller. Spark ends a job within 0.2 s, whatever its Python
workers do; only a JVM that hangs takes longer, and must not take its caller along."""

_DEATH_SHOWS_WITHIN: Final = 1.0
"""Seconds in which a broken connection to the JVM turns out to be its end: the socket closes some
milliseconds before the process can be waited for."""


class Engine:
    """Runs micro-batches: `await start()`, then `build` and `run`; `await stop()` at the end.

    `start`, `run`, `cancel` and `stop` belong to one event loop; only `build` blocks, so call it in
    a thread. `lost` is set when the JVM is gone, or when less than half of its slots are left
    because the others compute for jobs that were cancelled: this process must be started anew
    (doing it inside took 18 s).
    """

    def __init__(self, settings: EngineSettings | None = None) -> None:
        """Take the settings; nothing is started."""
        self._settings = settings or EngineSettings()
        self._jvm: Jvm | None = None
        self._starting: Process | None = None
        width = self._settings.slots + 1  # one more job than slots hides the time between jobs
        self._gate = Gate(width)
        self._threads = ThreadPoolExecutor(width, thread_name_prefix="spark-job")
        self._jobs = Jobs()
        self._ready = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done = 0
        self._failed = 0
        self._plans = 0
        self._seconds = 0.0
        self._lost_slots = 0
        self._loss = failures.jvm_lost()
        self.lost = asyncio.Event()

    @property
    def slots(self) -> int:
        """How many slots a large micro-batch is divided into."""
        return self._settings.slots

    async def start(self) -> None:
        """Start the session and warm it up. The rest of the process goes on meanwhile. When the JVM
        is lost in the warm-up, `lost` says so.

        Raises:
            ConfigError: `engine.no_java`.
            RetriableError: `engine.start_failed`.
        """
        self._loop = asyncio.get_running_loop()
        jvm = await asyncio.to_thread(start_jvm, self._settings, self._spawned)
        self._jvm = jvm
        jvm.watch(lambda: self._ended(jvm))
        self._ready.set()
        try:
            await self._warm_up()
        except RetriableError:
            if not jvm.gone():
                raise
            # a loss like any other: rows may have moved before it
            async with asyncio.timeout(_DEATH_SHOWS_WITHIN):
                await self.lost.wait()

    async def ready(self) -> None:
        """Wait until jobs can run."""
        await self._ready.wait()

    def build(
        self,
        name: str,
        schema: pa.Schema,
        steps: Sequence[Step],
        slots: int,
        *,
        numbered: bool = False,
    ) -> Plan:
        """Analyse a plan once. Blocking: call in a thread. With `numbered`, rows that are refused
        are told by their numbers in the input.

        Raises:
            ConfigError: `transform.not_valid`: Spark cannot resolve a step;
                `transform.frozen_time`; `engine.package_missing`.
            SchemaError: `engine.unsupported_type`.
            RetriableError: `engine.jvm_lost`, `engine.not_started`.
        """
        jvm = self._running()
        try:
            plan = build(jvm.session, name, schema, steps, slots, numbered=numbered)
        except PySparkException as error:
            raise failures.refused(error) from error
        except (Py4JError, OSError) as error:
            raise self._translated(jvm, error) from error
        self._plans += 1
        return plan

    async def run(self, plan: Plan, ticket: Ticket, *, lag: float = 0.0) -> list[SlotReport]:
        """Run one micro-batch; the one whose rows have waited longest (`lag`, seconds) goes first.

        Cancelling this coroutine cancels the job.

        Raises:
            RetriableError: `engine.job_failed`, `engine.cancelled`, `engine.jvm_lost`, or what a
                read end says.
            DataError: `transform.bad_row`: a step failed on a row.
        """
        async with self._gate.enter(lag, ticket.task_id):
            jvm = self._running()
            with self._jobs.run(ticket.task_id) as job:
                loop = asyncio.get_running_loop()
                # the place in the gate is held as long as the thread is
                collecting = loop.run_in_executor(self._threads, self._run, jvm, job, plan, ticket)
                try:
                    return await asyncio.shield(collecting)
                finally:
                    if not collecting.done():
                        self._cancel(jvm, job)
                        collecting.add_done_callback(_retrieved)
                        await asyncio.wait({collecting}, timeout=CANCEL_WITHIN)

    def cancel(self, task_id: str) -> None:
        """Cancel what a task has here: its jobs end with `engine.cancelled` within 2 s, wherever
        they are.
        """
        self._gate.expel(task_id, failures.cancelled(task_id))
        if self._jvm is not None:
            for job in self._jobs.of(task_id):
                self._cancel(self._jvm, job)

    def statistics(self) -> dict[str, float]:
        """Return counts of jobs and plans, the seconds of all jobs, and what runs and waits."""
        return {
            "jobs": self._done,
            "failed": self._failed,
            "plans": self._plans,
            "job_seconds": self._seconds,
            "running": self._jobs.running,
            "waiting": self._gate.waiting,
            "lost_slots": self._lost_slots,
        }

    def abandon(self) -> None:
        """Make a start that is under way fail soon: it takes seconds, and nobody wants it.

        To be repeated until `start` has ended: there may be no process yet.
        """
        if self._starting is not None:
            gateway.kill(self._starting)

    async def stop(self, within: float = STOP_WITHIN) -> None:
        """Cancel what runs, end the session and the JVM within some seconds. Idempotent."""
        jvm, self._jvm = self._jvm, None
        if jvm is not None:
            for job in self._jobs.of():
                self._cancel(jvm, job)
            await asyncio.to_thread(jvm.stop, within)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _spawned(self, process: Process) -> None:
        self._starting = process

    def _running(self) -> Jvm:
        if self.lost.is_set():
            raise self._loss
        if self._jvm is None:
            raise failures.not_running()
        return self._jvm

    def _cancel(self, jvm: Jvm, job: Job) -> None:
        def order(group: str) -> None:
            job.stages |= stages_of(jvm, group)
            try:
                jvm.session.sparkContext.cancelJobGroup(group)
            except (Py4JError, OSError, AttributeError) as error:  # it ends with its JVM anyway
                log.info("job %s could not be cancelled: %s", group, error)

        counted = 0

        def changed(stuck: int) -> None:
            nonlocal counted
            more, counted = stuck - counted, stuck
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._lose, more, job.task_id)

        after_s = cancelled_tasks.STUCK_AFTER_S
        job.cancel(order, lambda: watch(jvm, job.group, job.stages, changed, after_s))

    def _lose(self, count: int, task_id: str) -> None:
        """Count slots whose tasks go on after they were cancelled; less when they have ended."""
        self._lost_slots += count
        self._gate.widen(-count)
        left = self._settings.slots - self._lost_slots
        log.warning(
            "task %s was cancelled, and %s computing; %d of %d slots are left",
            task_id,
            "goes on" if count > 0 else "has now ended",
            left,
            self._settings.slots,
        )
        if 2 * left < self._settings.slots and not self.lost.is_set():
            self._loss = failures.slots_lost(self._lost_slots, self._settings.slots)
            self.lost.set()

    def _run(self, jvm: Jvm, job: Job, plan: Plan, ticket: Ticket) -> list[SlotReport]:
        """Collect a plan, in a thread of its own: group and ticket belong to the thread."""
        context = jvm.session.sparkContext
        began = time.monotonic()
        try:
            context.setJobGroup(job.group, plan.name, interruptOnCancel=False)
            context.setLocalProperty(PROPERTY, ticket.to_json())
            if job.cancelled:
                raise failures.cancelled(job.task_id)
            return report.decode(plan.frame.collect())
        except PenstockError:
            self._failed += 1
            raise
        except Exception as error:
            self._failed += 1
            if job.cancelled and not jvm.gone():
                raise failures.cancelled(job.task_id) from error
            raise self._translated(jvm, error) from error
        finally:
            job.end()
            self._done += 1
            self._seconds += time.monotonic() - began

    def _translated(self, jvm: Jvm, error: Exception) -> PenstockError:
        if not failures.is_answer(error) and jvm.gone(_DEATH_SHOWS_WITHIN):
            return failures.jvm_lost()
        return failures.of_job(error)

    def _ended(self, jvm: Jvm) -> None:
        """Tell the loop that the JVM is gone, unless it was stopped. Runs in a watching thread."""
        if self._jvm is not jvm or self._loop is None or self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self.lost.set)

    async def _warm_up(self) -> None:
        """Run both lanes once on nothing: classes are loaded and Python workers forked."""
        schema = pa.schema([("x", pa.int64())])
        nothing, nowhere = {"kind": "nothing"}, {"kind": "nowhere"}
        slots = tuple(SlotTicket(slot, 0, nothing, nowhere) for slot in range(self.slots))
        # the cheap lane first: rows that wait for it need not wait for the JVM's
        for steps in ([], [Step(where="x > 0", select=(("x", "x + 1"),))]):
            plan = await asyncio.to_thread(self.build, "warm-up", schema, steps, self.slots)
            await self.run(plan, Ticket("warm-up", 0, 0, slots))


def _retrieved(future: asyncio.Future[list[SlotReport]]) -> None:
    """Look at what a run came to whose caller has gone, or asyncio complains that nobody did."""
    if not future.cancelled():
        future.exception()
