"""What can be set on the engine, and Spark's own settings, each with its reason."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


def default_slots() -> int:
    """Return how many slots run at once on this machine: one per core that may be used."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How the engine is run."""

    master: str = field(default_factory=lambda: f"local[{default_slots()},1]")
    """Spark master URL. With `local[N,1]` Spark tries nothing twice: the engine does, by
    micro-batch."""
    slots: int = field(default_factory=default_slots)
    """Slots that a large micro-batch is divided into."""
    driver_memory: str = "1g"
    """Heap of the JVM. Rows pass it in Arrow batches, so it need not grow with them."""
    local_dir: Path | None = None
    """Spark's scratch folder; None for Spark's own choice."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Further Spark settings; they win."""

    def spark_conf(self) -> dict[str, str]:
        """Return Spark's settings."""
        conf = dict(_MEASURED)
        conf["spark.driver.memory"] = self.driver_memory
        conf["spark.sql.shuffle.partitions"] = str(self.slots)
        if self.local_dir is not None:
            conf["spark.local.dir"] = str(self.local_dir)
            conf["spark.sql.warehouse.dir"] = str(self.local_dir / "warehouse")
        conf.update(self.extra)
        return conf


_MEASURED: Mapping[str, str] = {
    # nobody looks at it, and its history of jobs grows without end
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.sql.ui.retainedExecutions": "10",
    # the driver talks to executors of this machine only, unless `extra` says otherwise
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # a kept plan is planned once; adaptive execution would plan it again for each micro-batch
    "spark.sql.adaptive.enabled": "false",
    # the engine tries again by micro-batch, with new attempts; a second level would multiply
    "spark.task.maxFailures": "1",
    # a forked worker lives on: it keeps its channels, and its start costs 50 ms
    "spark.python.worker.reuse": "true",
    # a TCP socket to the Python worker adds 40 ms to a job (Spark 4.1; older ones ignore it)
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "penstock.spark.worker_daemon",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # times are instants; a session time zone would shift them
    "spark.sql.session.timeZone": "UTC",
    # a row's column is found by its exact name
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "true",
    # `${env:…}` in an expression would be replaced before it is parsed: the environment is no row
    "spark.sql.variable.substitute": "false",
    "spark.log.level": "ERROR",
    # two short-lived jobs a second leave nothing worth compacting
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=4 -Xss2m",
}
