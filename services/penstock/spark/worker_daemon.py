"""The process that forks Spark's Python workers, with less CPU for each task than the stock daemon.

The stock daemon costs 80-200 ms of CPU for every Python task, all of it outside of the task:

- Spark puts `pyspark.zip` and `spark-core.jar` first on the path, and every task calls
`importlib.invalidate_caches()`, which re-reads those archives once per cached importer. Here they
leave the path; pyspark is imported from where it is installed.
- Modules that a task needs are imported here once, before the fork.
- The daemon collects garbage after each task: 40 ms with the loaded modules. Frozen objects are
skipped, and objects that a worker loads later are left to Python's own collections.

It depends on internals of `pyspark.daemon`, so a test compares the CPU of a task with the stock
daemon.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from contextlib import suppress
from types import SimpleNamespace

PRELOADED_MODULES = (
    "pyarrow",
    "pandas",  # pyarrow loads it with the first array of Python values: 0.15 s and 50 MiB a worker
    "grpc",
    "pyspark.worker",
    "pyspark.sql.types",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
    "penstock.spark.lane_loop",
)
"""Modules that tasks import. A name that this version of pyspark does not have is skipped."""


def remove_archives() -> None:
    """Remove Spark's zips and jars from the module path."""
    sys.path[:] = [entry for entry in sys.path if not entry.endswith((".zip", ".jar"))]
    sys.path_importer_cache.clear()


def preload_modules() -> None:
    """Import the modules that tasks need, and freeze them, so that no worker does it again."""
    for name in PRELOADED_MODULES:
        with suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def main() -> None:
    """Serve forks to the JVM until it closes standard input."""
    # channels are opened in forked workers only, never before the fork: no fork handlers are needed
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    remove_archives()
    preload_modules()
    daemon = importlib.import_module("pyspark.daemon")
    daemon.gc = SimpleNamespace(collect=int)  # type: ignore[attr-defined] # the daemon calls only this of it
    daemon.manager()


if __name__ == "__main__":
    main()
