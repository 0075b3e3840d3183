"""The one queue of Spark jobs of this process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.model.errors import (
    ConfigError,
    DataError,
    PenstockError,
    RetriableError,
    error_of,
)
from penstock.model.step import Step
from penstock.model.ticket import SlotReport, SlotTicket, Ticket
from penstock.spark import report
from penstock.spark.gate import Gate
from penstock.spark.plan import PROPERTY, Plan, build
from penstock.spark.session import kill_jvm, start_session
from penstock.spark.settings import EngineSettings

log = logging.getLogger(__name__)

_BAD_ROW = ("SparkArithmeticException", "SparkNumberFormatException", "SparkDateTimeException",
            "CAST_INVALID_INPUT", "DIVIDE_BY_ZERO", "ARITHMETIC_OVERFLOW")  # fmt: skip


class Engine:
    """Runs micro-batches. `start()` once, in a thread; then `build` and `run`; `stop()` at the end.

    `lost` is set when the JVM is gone: this process must be started anew (doing it inside took 18
    s).
    """

    def __init__(self, settings: EngineSettings | None = None) -> None:
        """Take the settings; nothing is started."""
        self._settings = settings or EngineSettings()
        self._session: SparkSession | None = None
        width = self._settings.slots + 1  # one more job than slots hides the time between jobs
        self._gate = Gate(width)
        self._threads = ThreadPoolExecutor(width, thread_name_prefix="spark-job")
        self._ready = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._jobs = 0
        self._plans = 0
        self._seconds = 0.0
        self.lost = asyncio.Event()

    @property
    def slots(self) -> int:
        """How many slots a large micro-batch is divided into."""
        return self._settings.slots

    async def start(self) -> None:
        """Start the session and warm it up. The rest of the process goes on meanwhile."""
        self._loop = asyncio.get_running_loop()
        self._session = await asyncio.to_thread(start_session, self._settings)
        self._ready.set()
        await self._warm_up()

    async def ready(self) -> None:
        """Wait until jobs can run."""
        await self._ready.wait()

    def build(self, name: str, schema: pa.Schema, steps: Sequence[Step], slots: int) -> Plan:
        """Analyse a plan once. Blocking: call in a thread.

        Raises:
            ConfigError: `transform.not_valid`: Spark cannot resolve a step.
        """
        if self._session is None:
            raise RetriableError("engine.not_started", "the Spark session has not started yet")
        try:
            plan = build(self._session, name, schema, steps, slots)
        except PySparkException as error:
            raise ConfigError(
                "transform.not_valid",
                str(error).split("\n", maxsplit=1)[0],
                fix="Check the expressions and the names of columns of the transforms.",
                config_path="transforms",
            ) from error
        except (Py4JNetworkError, ConnectionError) as error:
            raise self._jvm_lost(error) from error
        self._plans += 1
        return plan

    async def run(self, plan: Plan, ticket: Ticket, *, lag: float = 0.0) -> list[SlotReport]:
        """Run one micro-batch; the one whose rows have waited longest (`lag`, seconds) goes first.

        Raises:
            RetriableError: `engine.job_failed`, `engine.jvm_lost`, or what a read end says.
            DataError: `transform.bad_row`: a step failed on a row.
        """
        async with self._gate.enter(lag):
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._collect, plan, ticket)

    def cancel(self, task_id: str) -> None:
        """Cancel the jobs of a task: they end with an error at once, wherever they are."""
        if self._session is not None and not self.lost.is_set():
            self._threads_cancel(self._session, task_id)

    def statistics(self) -> dict[str, float]:
        """Return counts of jobs and plans, seconds of all jobs, and how many wait."""
        return {
            "jobs": self._jobs,
            "plans": self._plans,
            "job_seconds": self._seconds,
            "waiting": self._gate.waiting,
        }

    def abandon(self) -> None:
        """Make a start that is under way fail soon: it takes seconds, and nobody wants it."""
        kill_jvm()

    async def stop(self) -> None:
        """End the session and the JVM. Idempotent."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        session, self._session = self._session, None
        if session is not None and not self.lost.is_set():
            await asyncio.to_thread(_stop, session)

    def _threads_cancel(self, session: SparkSession, task_id: str) -> None:
        try:
            session.sparkContext.cancelJobGroup(task_id)
        except (Py4JError, OSError) as error:
            log.warning("jobs of %s could not be cancelled: %s", task_id, error)

    def _collect(self, plan: Plan, ticket: Ticket) -> list[SlotReport]:
        if self._session is None:
            raise RetriableError("engine.stopped", "the engine has stopped")
        context = self._session.sparkContext
        began = time.monotonic()
        try:
            context.setJobGroup(ticket.task_id, plan.name, interruptOnCancel=False)
            context.setLocalProperty(PROPERTY, ticket.to_json())
            return report.decode(plan.frame.collect())
        except (Py4JNetworkError, ConnectionError) as error:
            raise self._jvm_lost(error) from error
        except Exception as error:
            raise _job_error(error) from error
        finally:
            self._jobs += 1
            self._seconds += time.monotonic() - began

    def _jvm_lost(self, error: Exception) -> PenstockError:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.lost.set)
        return RetriableError(
            "engine.jvm_lost",
            f"the JVM of the Spark session is gone: {type(error).__name__}",
            fix="The worker starts anew by itself; look for an out-of-memory kill if it repeats.",
        )

    async def _warm_up(self) -> None:
        """Run both lanes once on nothing: classes are loaded and Python workers forked."""
        schema = pa.schema([("x", pa.int64())])
        ticket = Ticket(
            "warm-up",
            0,
            0,
            tuple(
                SlotTicket(slot, 0, {"kind": "nothing"}, {"kind": "nowhere"})
                for slot in range(self.slots)
            ),
        )
        for steps in ([Step(where="x > 0", select=(("x", "x + 1"),))], []):
            plan = await asyncio.to_thread(self.build, "warm-up", schema, steps, self.slots)
            await self.run(plan, ticket)


def _stop(session: SparkSession) -> None:
    try:
        session.stop()
    except (Py4JError, OSError) as error:  # the JVM was ended by the same signal as we were
        log.info("the Spark session was gone before it was stopped: %s", error)


def _job_error(error: Exception) -> PenstockError:
    text = str(error)
    found = report.find_marked(text)
    if found is not None:
        return error_of(found)
    if any(word in text for word in _BAD_ROW):
        return DataError(
            "transform.bad_row",
            _first_line(text),
            fix="Use try_cast, try_divide or a condition, so that no row can fail.",
            config_path="transforms",
        )
    return RetriableError(
        "engine.job_failed",
        f"a Spark job failed: {_first_line(text)}",
        fix="A Python worker or executor may have been lost; the micro-batch is tried again.",
        detail=text[-2000:],
    )


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:500]
