"""The process that forks Spark's Python workers, made cheap.

Stock settings cost 80-200 ms of CPU for every Python task, all of it outside of the task:

- Spark puts `pyspark.zip` and `spark-core.jar` first on the path, and every task calls
`importlib.invalidate_caches()`, which re-reads those archives once per cached importer. Here they
leave the path; pyspark is imported from where it is installed.
- modules that a task needs are imported here, before the fork, once.
- the daemon collects garbage after each task: 40 ms with what is loaded. Frozen objects are not
looked at, and what a worker loads later is left to Python's own collections.

It leans on internals of `pyspark.daemon`, so a test guards the CPU of a task against stock
settings.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from contextlib import suppress
from types import SimpleNamespace

PRELOADED = (
    "pyarrow",
    "grpc",
    "pyspark.worker",
    "pyspark.sql.types",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
    "penstock.spark.lanes",
    "penstock.spark.ends.embedded",
    "penstock.spark.ends.plugin",
)
"""What tasks import. A name that a version of pyspark does not have is passed over."""


def leave_archives() -> None:
    """Take Spark's zips and jars off the path."""
    sys.path[:] = [entry for entry in sys.path if not entry.endswith((".zip", ".jar"))]
    sys.path_importer_cache.clear()


def preload() -> None:
    """Import what tasks need and freeze it, so that no worker does it again."""
    for name in PRELOADED:
        with suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def main() -> None:
    """Serve forks to the JVM until it closes standard input."""
    # channels are made in forked workers only, never before the fork: no handlers are needed
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    leave_archives()
    preload()
    daemon = importlib.import_module("pyspark.daemon")
    daemon.gc = SimpleNamespace(collect=int)  # type: ignore[attr-defined] # it would call this alone
    daemon.manager()


if __name__ == "__main__":
    main()
