"""Penstock moves record streams between systems, through plugins and Spark, exactly once.

Start at `penstock.model` for the words, `penstock.worker` for the life of a task, `penstock.spark`
for what happens to its rows, and `penstock.standalone` for how the services are put together on one
machine. `services/README.md` is the map.
"""

import os

# The JVM is started by a fork of a process that serves gRPC. With its fork handlers on, gRPC closes
# its pollers in the child and, at times, in the parent. Nothing of ours uses gRPC after a fork
# without an exec.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
