"""What can be set on the engine, and Spark's own settings, each with its reason."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final


def default_slots() -> int:
    """Return how many slots run at once on this machine: one per core that may be used."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How the engine is run."""

    master: str = field(default_factory=lambda: f"local[{default_slots()},1]")
    """Spark master URL. With `local[N,1]` Spark tries nothing twice: the engine's caller does, by
    micro-batch."""
    slots: int = field(default_factory=default_slots)
    """Slots that a large micro-batch is divided into; one job more than that runs at once."""
    driver_memory: str = "1g"
    """Heap of the JVM. Rows pass it in Arrow batches, so it need not grow with them."""
    local_dir: Path | None = None
    """Scratch folder, and home of the JVM's log; None for Spark's own choice and no log file."""
    jars: tuple[Path, ...] = ()
    """Jars on the class path of driver and executors. Resolve them beforehand: Spark's own
    `spark.jars.packages` asks the network at every start (20 s), and fails without a word."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Further Spark settings; they win."""

    def spark_conf(self) -> dict[str, str]:
        """Return Spark's settings."""
        conf = dict(_MEASURED)
        conf["spark.driver.memory"] = self.driver_memory
        conf["spark.sql.shuffle.partitions"] = str(self.slots)
        if self.local_dir is not None:
            conf["spark.local.dir"] = str(self.local_dir)
            if len(os.fsencode(self.local_dir)) + _SOCKET_NAME <= _SOCKET_PATH:
                # the temporary folder would keep the sockets of each JVM that was killed
                conf["spark.python.unix.domain.socket.dir"] = str(self.local_dir)
        # Spark makes this folder at its start; its default is the working directory
        scratch = self.local_dir or Path(tempfile.gettempdir()) / "penstock-spark"
        conf["spark.sql.warehouse.dir"] = str(scratch / "warehouse")
        if self.jars:
            conf["spark.jars"] = ",".join(str(jar) for jar in self.jars)
        conf.update(self.extra)
        return conf


_SOCKET_NAME: Final = len("/.00000000-0000-0000-0000-000000000000.sock")
_SOCKET_PATH: Final = 107
"""Bytes that the path of a Unix socket may have."""

JVM_OPTIONS: Final = "-XX:+UseSerialGC -Xss2m"
"""Options of the JVM: a small heap wants short pauses, deep expressions need the stack. Java's own
variable `JDK_JAVA_OPTIONS` adds others. C2 stays on: it pays from the second minute on."""

_OPTIMIZER: Final = "org.apache.spark.sql.catalyst.optimizer."

_MEASURED: Final[Mapping[str, str]] = {
    # nobody looks at it, and its history of jobs grows without end
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # but for a few seconds of them, by which the tasks of a cancelled job are found
    "spark.ui.retainedJobs": "200",
    "spark.ui.retainedStages": "200",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "10",
    # the driver talks to executors of this machine only, unless `extra` says otherwise
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # a kept plan is planned once; adaptive execution would plan it again for each micro-batch
    # (a new plan costs 27 ms more than a kept one)
    "spark.sql.adaptive.enabled": "false",
    # a condition that is false for every row would turn the plan into an empty one, without slots:
    # nothing would be read, and nobody would report
    "spark.sql.optimizer.excludedRules": (
        f"{_OPTIMIZER}PruneFilters,{_OPTIMIZER}PropagateEmptyRelation"
    ),
    # the caller tries again by micro-batch, with new attempts; a second level would multiply
    "spark.task.maxFailures": "1",
    # a row that needs more memory than there is fails its task, and nobody else's: Spark would end
    # the JVM, or the executor, of all
    "spark.executor.killOnFatalError.depth": "0",
    # a cancelled task that computes on is ended with its executor; in the JVM of a worker Spark
    # does not do that, so `cancelled_tasks` counts them
    "spark.task.reaper.enabled": "true",
    "spark.task.reaper.killTimeout": "30s",
    "spark.task.reaper.threadDump": "false",
    # two attempts at a slot at once are one too many: the rows would be put twice for nothing
    "spark.speculation": "false",
    # a forked worker lives on: it keeps its channels, and its start costs 50 ms
    "spark.python.worker.reuse": "true",
    # a TCP socket to the Python worker adds 40 ms to a job (Spark 4.1; older ones ignore it)
    "spark.python.unix.domain.socket.enabled": "true",
    # 1-4 ms of CPU for a Python task instead of 80-200
    "spark.python.daemon.module": "penstock.spark.worker_daemon",
    # crossing costs about 1 µs a row; larger batches no longer gain, and wide rows are held in
    # memory at both sides (bytes: Spark 4.1; older ones ignore it)
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "16m",
    # times are instants; a session time zone would shift them
    "spark.sql.session.timeZone": "UTC",
    # a row's column is found by its exact name
    "spark.sql.caseSensitive": "true",
    # a value that cannot be is an error, not a quiet null
    "spark.sql.ansi.enabled": "true",
    # a ticket holds the credential of a plugin (invariant 9). Event logs keep the properties of
    # every job, and mask those whose names match, if they are settings too
    "penstock.ticket": "",
    "spark.redaction.regex": r"(?i)secret|password|token|access[.]?key|^penstock\.ticket$",
    # `${env:…}` inside an expression would be replaced by this process's environment
    "spark.sql.variable.substitute": "false",
    "spark.log.level": "ERROR",
    # two short-lived jobs a second leave nothing worth compacting
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.driver.extraJavaOptions": JVM_OPTIONS,
}
