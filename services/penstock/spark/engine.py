"""Runs micro-batches: in lanes, or as Spark jobs. A process has one engine."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from penstock.model.errors import PenstockError, RetriableError
from penstock.model.step import Step
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.rpc.traces import span
from penstock.spark import failures, lane_loop, slot_reports, spark_jobs
from penstock.spark.admission_queue import AdmissionQueue
from penstock.spark.jvm import STOP_TIMEOUT_S, Jvm, JvmProcess, kill_process, start_jvm
from penstock.spark.lane_loop import LaneFunction
from penstock.spark.lanes import Lanes
from penstock.spark.partition_functions import TICKET_PROPERTY
from penstock.spark.plan import Plan, build_plan
from penstock.spark.settings import EngineSettings
from penstock.spark.spark_jobs import SparkJob, SparkJobs

log = logging.getLogger(__name__)

CANCEL_TIMEOUT_S: Final = 2.0
"""How long a cancelled run holds its caller. Spark ends a job within 0.2 s, whatever its Python
workers do. Only a JVM that hangs takes longer, and must not block the caller."""

_EXIT_DELAY_S: Final = 1.0
"""Time within which a broken connection to the JVM turns out to be its end. The socket closes some
milliseconds before the process can be waited for."""


class Engine:
    """Runs micro-batches: `await start()`, then `build` and `run`; `await stop()` at the end.

    `start`, `run`, `cancel` and `stop` belong to one event loop. Only `build` blocks, so call it in
    a thread. `lost` is set when the JVM has ended, or when less than half of its slots are left
    because the others compute for cancelled jobs. Then this process must be restarted (a new JVM in
    the same process took 18 s).
    """

    def __init__(self, settings: EngineSettings | None = None) -> None:
        """Take the settings; nothing is started."""
        self._settings = settings or EngineSettings()
        self._jvm: Jvm | None = None
        self._starting: JvmProcess | None = None
        capacity = self._settings.slots + 1  # one more job than slots hides the time between jobs
        self._queue = AdmissionQueue(capacity)
        self._threads = ThreadPoolExecutor(capacity, thread_name_prefix="spark-job")
        self._jobs = SparkJobs()
        most_lanes = self._settings.most_lanes
        self._lanes = Lanes(
            self._start_lane,
            self._cancel_lane,
            self.slots,
            most_lanes,
            share_slots=self._settings.shares_slots,
            idle_s=self._settings.lane_idle_s,
        )
        # a cancelled job keeps its thread for some seconds
        self._lane_threads = ThreadPoolExecutor(2 * most_lanes, thread_name_prefix="spark-lane")
        self._lane_frame: DataFrame
        self._ready = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done = 0
        self._failed = 0
        self._plans = 0
        self._seconds = 0.0
        self._lost_slots = 0
        self._loss = failures.jvm_lost_error()
        self.lost = asyncio.Event()

    @property
    def slots(self) -> int:
        """Number of slots that a large micro-batch is divided into."""
        return self._settings.slots

    async def start(self) -> None:
        """Start the session and warm it up, without blocking the event loop. If the JVM ends during
        the warm-up, `lost` is set.

        Raises:
            ConfigError: `engine.no_java`.
            RetriableError: `engine.start_failed`, `engine.lane_port`.
        """
        self._loop = asyncio.get_running_loop()
        jvm = await asyncio.to_thread(start_jvm, self._settings, self._on_spawn)
        self._jvm = jvm
        jvm.watch(lambda: self._on_jvm_end(jvm))
        self._lane_frame = await asyncio.to_thread(_build_lane_frame, jvm.session)
        conf = self._settings.spark_conf()
        await self._lanes.listen(
            conf["spark.driver.bindAddress"], conf["spark.driver.host"], self._settings.lane_port
        )
        self._ready.set()
        try:
            await self._warm_up()
        except RetriableError:
            if not jvm.has_ended():
                raise
            # a loss like any other: micro-batches may have run before it
            async with asyncio.timeout(_EXIT_DELAY_S):
                await self.lost.wait()

    async def wait_until_ready(self) -> None:
        """Wait until jobs can run: the session has started."""
        await self._ready.wait()

    def build(
        self,
        name: str,
        schema: pa.Schema,
        steps: Sequence[Step],
        slots: int,
        *,
        number_rows: bool = False,
    ) -> Plan:
        """Build and analyse a plan. Blocking: call in a thread. With `number_rows`, rows that the
        sink rejects are reported by their numbers in the input.

        Raises:
            ConfigError: `transform.not_valid`: Spark cannot resolve a step;
                `transform.frozen_time`; `engine.package_missing`.
            SchemaError: `engine.unsupported_type`.
            RetriableError: `engine.jvm_lost`, `engine.not_started`.
        """
        jvm = self._running_jvm()
        try:
            plan = build_plan(jvm.session, name, schema, steps, slots, number_rows=number_rows)
        except PySparkException as error:
            raise failures.plan_error(error) from error
        except (Py4JError, OSError) as error:
            raise self._translate(jvm, error) from error
        self._plans += 1
        return plan

    async def run(self, plan: Plan, ticket: Ticket, *, lag: float = 0.0) -> list[SlotReport]:
        """Run one micro-batch. When the engine is busy, the one with the largest `lag` (seconds) is
        next. Cancelling this coroutine cancels the job.

        Raises:
            RetriableError: `engine.job_failed`, `engine.cancelled`, `engine.jvm_lost`, or an error
                of the source reader.
            DataError: `transform.bad_row`: a step failed on a row.
        """
        self._running_jvm()
        is_failed = True
        try:
            if isinstance(plan.work, LaneFunction):
                reports = await self._lanes.run(plan.work, ticket, lag)
            else:
                reports = await self._run_job(plan, ticket, lag)
            is_failed = False
        finally:
            self._done += 1
            self._failed += is_failed
        return reports

    def cancel(self, task_id: str) -> None:
        """Cancel the jobs of a task, queued and running: they end with `engine.cancelled` within 2
        s.
        """
        self._queue.fail_waiting(task_id, failures.cancelled_error(task_id))
        self._lanes.cancel(task_id, failures.cancelled_error(task_id))
        if self._jvm is not None:
            for job in self._jobs.of_task(task_id):
                self._cancel(self._jvm, job)

    def statistics(self) -> dict[str, float]:
        """Return counts of jobs and plans, the seconds of all jobs, and what runs and waits."""
        return {
            "jobs": self._done,
            "failed": self._failed,
            "plans": self._plans,
            "job_seconds": self._seconds + self._lanes.seconds,
            "running": self._jobs.running + self._lanes.busy,
            "waiting": self._queue.waiting + self._lanes.waiting,
            "lanes": self._lanes.open,
            "lost_slots": self._lost_slots,
        }

    def abort_start(self) -> None:
        """Make a running `start` fail soon, to stop without waiting for it.

        Call it repeatedly until `start` has ended: the process may not exist yet.
        """
        if self._starting is not None:
            kill_process(self._starting)

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Cancel all jobs, and end the session and the JVM within about `timeout_s`. Idempotent."""
        jvm, self._jvm = self._jvm, None
        if jvm is not None:
            for job in self._jobs.all():
                self._cancel(jvm, job)
            await self._lanes.close()
            await asyncio.to_thread(jvm.stop, timeout_s)
        for threads in (self._threads, self._lane_threads):
            threads.shutdown(wait=False, cancel_futures=True)

    def _on_spawn(self, process: JvmProcess) -> None:
        self._starting = process

    def _running_jvm(self) -> Jvm:
        if self.lost.is_set():
            raise self._loss
        if self._jvm is None:
            raise failures.not_started_error()
        return self._jvm

    async def _run_job(self, plan: Plan, ticket: Ticket, lag: float) -> list[SlotReport]:
        """Run a micro-batch as a Spark job."""
        self._lanes.yield_slots(1)
        try:
            async with self._queue.admit(lag, ticket.task_id):
                jvm = self._running_jvm()
                with self._jobs.run(ticket.task_id) as job:
                    loop = asyncio.get_running_loop()
                    # the place in the queue is held as long as the thread is
                    collecting = loop.run_in_executor(
                        self._threads,
                        self._collect,
                        jvm,
                        job,
                        plan.name,
                        plan.work,
                        ticket.to_json(),
                    )
                    began = time.monotonic()
                    try:
                        with span("engine.job", slots=len(ticket.slots)):
                            rows = await asyncio.shield(collecting)
                    finally:
                        self._seconds += time.monotonic() - began
                        if not collecting.done():
                            self._cancel(jvm, job)
                            collecting.add_done_callback(_retrieve_result)
                            await asyncio.wait({collecting}, timeout=CANCEL_TIMEOUT_S)
        finally:
            self._lanes.yield_slots(-1)
        return [slot_reports.decode_report(row.asDict()) for row in rows]

    def _start_lane(self, job: SparkJob, spec: str) -> asyncio.Future[Any]:
        """Start the Spark job of a lane. Returns its end."""
        jvm = self._running_jvm()
        loop = asyncio.get_running_loop()
        ended = loop.run_in_executor(
            self._lane_threads, self._collect, jvm, job, "lane", self._lane_frame, spec
        )
        ended.add_done_callback(_retrieve_result)
        return ended

    def _cancel_lane(self, job: SparkJob) -> None:
        if self._jvm is not None:
            job.cancel(partial(_cancel_group, self._jvm), lambda: None)

    def _cancel(self, jvm: Jvm, job: SparkJob) -> None:
        def order(group: str) -> None:
            job.stages |= spark_jobs.find_stages(jvm, group)
            _cancel_group(jvm, group)

        counted = 0

        def on_change(stuck: int) -> None:
            nonlocal counted
            more, counted = stuck - counted, stuck
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._lose_slots, more, job.task_id)

        stuck_after_s = spark_jobs.STUCK_AFTER_S
        job.cancel(
            order,
            lambda: spark_jobs.watch_stuck_tasks(
                jvm, job.group, job.stages, on_change, stuck_after_s
            ),
        )

    def _lose_slots(self, count: int, task_id: str) -> None:
        """Count slots whose tasks go on after their cancellation; `count` is negative when they
        have ended.
        """
        self._lost_slots += count
        self._queue.change_capacity(-count)
        left = self._settings.slots - self._lost_slots
        log.warning(
            "task %s was cancelled, and %s computing; %d of %d slots are left",
            task_id,
            "goes on" if count > 0 else "has now ended",
            left,
            self._settings.slots,
        )
        if 2 * left < self._settings.slots and not self.lost.is_set():
            self._loss = failures.slots_lost_error(self._lost_slots, self._settings.slots)
            self.lost.set()

    def _collect(
        self, jvm: Jvm, job: SparkJob, name: str, frame: DataFrame, ticket: str
    ) -> list[Row]:
        """Collect a frame, in a thread of its own: job group and ticket belong to the thread."""
        context = jvm.session.sparkContext
        try:
            context.setJobGroup(job.group, name, interruptOnCancel=False)
            context.setLocalProperty(TICKET_PROPERTY, ticket)
            if job.cancelled:
                raise failures.cancelled_error(job.task_id)
            return list(frame.collect())
        except PenstockError:
            raise
        except Exception as error:
            if job.cancelled and not jvm.has_ended():
                raise failures.cancelled_error(job.task_id) from error
            raise self._translate(jvm, error) from error
        finally:
            job.end()

    def _translate(self, jvm: Jvm, error: Exception) -> PenstockError:
        if not failures.is_from_jvm(error) and jvm.has_ended(_EXIT_DELAY_S):
            return failures.jvm_lost_error()
        return failures.job_error(error)

    def _on_jvm_end(self, jvm: Jvm) -> None:
        """Set `lost`, unless the JVM was stopped. Runs in a watching thread."""
        if self._jvm is not jvm or self._loop is None or self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self.lost.set)

    async def _warm_up(self) -> None:
        """Run a plan of each kind on no rows: classes are loaded and Python workers forked."""
        schema = pa.schema([("x", pa.int64())])
        slots = tuple(
            SlotTicket(slot, 0, {"kind": "empty"}, {"kind": "discard"})
            for slot in range(self.slots)
        )
        # the fused plan first: rows for it need not wait for the warm-up of the JVM plan
        for steps in ([], [Step(where="x > 0", select=(("x", "x + 1"),))]):
            plan = await asyncio.to_thread(self.build, "warm-up", schema, steps, self.slots)
            await self.run(plan, Ticket("warm-up", 0, 0, slots))


def _build_lane_frame(session: SparkSession) -> DataFrame:
    return session.range(0, 1, 1, 1).mapInArrow(lane_loop.run_lane, lane_loop.DDL)


def _cancel_group(jvm: Jvm, group: str) -> None:
    try:
        jvm.session.sparkContext.cancelJobGroup(group)
    except (Py4JError, OSError, AttributeError) as error:  # it ends with its JVM anyway
        log.info("job %s could not be cancelled: %s", group, error)


def _retrieve_result(future: asyncio.Future[Any]) -> None:
    """Read the exception of a run without a caller; asyncio logs one that is never read."""
    if not future.cancelled():
        future.exception()
