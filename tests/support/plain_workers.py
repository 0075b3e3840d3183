"""Forks the workers of `plain_engine`, as Spark's daemon forks its Python workers.

python -m support.plain_workers SOCKET

It serves one connection in a fork, until the connection ends. It ends with all of them when its
standard input closes, thus with the process that started it.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from penstock.spark import partition_functions


def serve(address: str) -> None:
    """Fork a worker for each connection."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        print("listens", flush=True)
        while True:
            ready, _, _ = select.select([listening, sys.stdin], [], [])
            if sys.stdin in ready:
                os.killpg(0, signal.SIGKILL)
            taken, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                work(taken)
                os._exit(0)
            taken.close()


def work(taken: socket.socket) -> None:
    """Run what comes over a connection."""
    from support.plain_engine import Connection

    connection = Connection(taken=taken)
    connection.send(str(os.getpid()).encode())
    while True:
        try:
            frame = connection.receive()
        except EOFError:
            return
        connection.send(json.dumps(run(*cloudpickle.loads(frame))).encode())


def run(function: bytes, ticket: str, slot: int, attempt: int) -> dict[str, Any]:
    """Run the function of a plan for a slot; returns its rows, or the text of its exception."""
    partition_functions.task_context = lambda: SimpleNamespace(
        getLocalProperty=lambda _name: ticket,
        partitionId=lambda: slot,
        taskAttemptId=lambda: attempt,
    )
    try:
        slots = iter([pa.record_batch({"id": pa.array([slot], pa.int64())})])
        batches = cloudpickle.loads(function)(slots)
        return {"rows": [row for batch in batches for row in batch.to_pylist()]}
    except Exception:  # noqa: BLE001 - Spark passes on the text of any exception
        traceback.print_exc()  # the log of the folder has it in one piece
        return {"error": traceback.format_exc()}


if __name__ == "__main__":
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    import support.plain_engine  # noqa: F401 - before the forks

    gc.freeze()
    serve(sys.argv[1])
