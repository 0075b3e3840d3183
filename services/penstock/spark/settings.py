"""Settings of the engine, and the settings that it gives Spark, each with its reason."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final


def default_slots() -> int:
    """Return the number of cores that this process may use: one slot runs on each."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Settings of one engine."""

    master: str = field(default_factory=lambda: f"local[{default_slots()},1]")
    """Spark master URL. With `local[N,1]` Spark retries nothing: the engine's caller retries whole
    micro-batches."""
    slots: int = field(default_factory=default_slots)
    """Slots that a large micro-batch is divided into. As many lanes are open when the machine is
    busy, and one job more than that runs at once."""
    driver_memory: str = "1g"
    """Heap of the JVM. Rows pass through it in Arrow batches, so it need not grow with their
    number."""
    lane_idle_s: float = 30.0
    """Time after which a lane without work ends. Shorter makes a line a minute pay for a Spark job
    each time; longer keeps executors of a cluster that dynamic allocation would give back after
    60 s."""
    lane_port: int = 0
    """Port at which loops of lanes reach the driver; 0: any."""
    local_dir: Path | None = None
    """Scratch folder, with the JVM's log; None for Spark's default and no log file."""
    jars: tuple[Path, ...] = ()
    """Jars on the class path of driver and executors. Resolve them beforehand: Spark's own
    `spark.jars.packages` uses the network at every start (20 s), and fails without a message."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Further Spark settings. They override those of the engine."""

    @property
    def most_lanes(self) -> int:
        """Lanes at most. On this machine more than there are cores: some wait for plugins."""
        return self.slots if _LOCAL.fullmatch(self.master) is None else 4 * self.slots

    @property
    def shares_slots(self) -> bool:
        """Whether lanes and jobs share the slots of Spark."""
        return _LOCAL.fullmatch(self.master) is None

    def spark_master(self) -> str:
        """Return the master URL for Spark. On this machine it has slots for lanes, too: a slot is
        a thread.
        """
        local = _LOCAL.fullmatch(self.master)
        if local is None:
            return self.master
        cores = default_slots() if local["cores"] == "*" else int(local["cores"] or 1)
        return f"local[{cores + self.most_lanes}{local['failures'] or ''}]"

    def spark_conf(self) -> dict[str, str]:
        """Return the settings for Spark, as a Spark configuration."""
        conf = dict(_SPARK_SETTINGS)
        conf["spark.driver.memory"] = self.driver_memory
        conf["spark.sql.shuffle.partitions"] = str(self.slots)
        if self.local_dir is not None:
            conf["spark.local.dir"] = str(self.local_dir)
            if len(os.fsencode(self.local_dir)) <= _SOCKET_FOLDER_BYTES:
                # in the temporary folder the sockets of a killed JVM would stay
                conf["spark.python.unix.domain.socket.dir"] = str(self.local_dir)
        # Spark makes this folder at its start; its default is the working directory
        scratch = self.local_dir or Path(tempfile.gettempdir()) / "penstock-spark"
        conf["spark.sql.warehouse.dir"] = str(scratch / "warehouse")
        if self.jars:
            conf["spark.jars"] = ",".join(str(jar) for jar in self.jars)
        conf.update(self.extra)
        return conf


_LOCAL: Final = re.compile(r"local(\[(?P<cores>\d+|\*)(?P<failures>,\d+)?\])?")

_SOCKET_FOLDER_BYTES: Final = 61
"""Longest path of a folder for Spark's sockets. With a longer one Spark 4.1 does not start
(`INVALID_CONF_VALUE.REQUIREMENT` for `spark.python.unix.domain.socket.dir`), although the paths of
the sockets would fit into 107 bytes.
"""

JVM_OPTIONS: Final = "-XX:+UseSerialGC -Xss2m"
"""Options of the JVM: the serial collector suits a small heap, and deep expressions need the stack.
Java's own variable `JDK_JAVA_OPTIONS` adds others. C2 stays on: it pays from the second minute
on."""

_OPTIMIZER: Final = "org.apache.spark.sql.catalyst.optimizer."

_SPARK_SETTINGS: Final[Mapping[str, str]] = {
    # not used, and its history of jobs grows without limit
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # a few seconds of history remain, in which the tasks of a cancelled job are found
    "spark.ui.retainedJobs": "200",
    "spark.ui.retainedStages": "200",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "10",
    # the driver listens for executors of this machine only, unless `extra` changes it
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # a kept plan is planned once; adaptive execution would plan it again for each micro-batch
    # (a new plan costs 27 ms more than a kept one)
    "spark.sql.adaptive.enabled": "false",
    # a condition that is false for every row would turn the plan into an empty one, without slots:
    # no slot would be read or reported
    "spark.sql.optimizer.excludedRules": (
        f"{_OPTIMIZER}PruneFilters,{_OPTIMIZER}PropagateEmptyRelation"
    ),
    # the caller retries whole micro-batches, with new attempts; a second level would multiply
    "spark.task.maxFailures": "1",
    # a row that needs more memory than there is fails its own task only; by default Spark would end
    # the JVM or the executor of all tasks
    "spark.executor.killOnFatalError.depth": "0",
    # a cancelled task that computes on is ended with its executor; in the JVM of a worker Spark
    # does not do that, so `spark_jobs` counts them
    "spark.task.reaper.enabled": "true",
    "spark.task.reaper.killTimeout": "30s",
    "spark.task.reaper.threadDump": "false",
    # a second attempt at a slot at the same time would put its rows twice, to no use
    "spark.speculation": "false",
    # a forked worker is kept: it keeps its channels, and its start costs 50 ms
    "spark.python.worker.reuse": "true",
    # a TCP socket to the Python worker adds 40 ms to a job (Spark 4.1; older ones ignore it)
    "spark.python.unix.domain.socket.enabled": "true",
    # 1-4 ms of CPU for a Python task instead of 80-200
    "spark.python.daemon.module": "penstock.spark.worker_daemon",
    # a row costs about 1 µs between JVM and Python; larger batches gain nothing, and wide rows are
    # in memory on both sides (bytes: Spark 4.1; older ones ignore it)
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "16m",
    # times are instants; a session time zone would shift them
    "spark.sql.session.timeZone": "UTC",
    # columns are found by their exact names
    "spark.sql.caseSensitive": "true",
    # an invalid value is an error, not a silent null
    "spark.sql.ansi.enabled": "true",
    # a ticket has the credential of a plugin (invariant 9). Event logs keep the properties of every
    # job, and redact those whose names match, if they are settings too
    "penstock.ticket": "",
    "spark.redaction.regex": r"(?i)secret|password|token|access[.]?key|^penstock\.ticket$",
    # `${env:…}` inside an expression would be replaced by this process's environment
    "spark.sql.variable.substitute": "false",
    "spark.log.level": "ERROR",
    # two short-lived jobs a second leave nothing worth compacting
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.driver.extraJavaOptions": JVM_OPTIONS,
}
